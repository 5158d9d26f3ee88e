"""Resources as CRI messages. No IO."""

from interpose.core.model.resources import SCALARS, LinuxResources
from interpose.cri.messages import cri


def to_message(resources: LinuxResources) -> cri.LinuxContainerResources:
    """The message of a value."""
    return cri.LinuxContainerResources(
        **{name: getattr(resources, name) for name in SCALARS},
        unified=resources.unified,
        hugepage_limits=[cri.HugepageLimit(page_size=size, limit=limit) for size, limit in resources.hugepage_limits],
    )
