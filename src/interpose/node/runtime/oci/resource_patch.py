"""Patches of resources, as CRI means them: what is zero or empty is not specified and stays. Pure."""

from typing import Any


def patch_resources(target: Any, patch: Any) -> None:
    """Apply a patch to a LinuxContainerResources; `unified` and the huge pages merge by key."""
    known = {limit.page_size: limit for limit in target.hugepage_limits}
    for descriptor, value in patch.ListFields():
        if descriptor.name == "unified":
            target.unified.update(patch.unified)
        elif descriptor.name != "hugepage_limits":
            setattr(target, descriptor.name, value)
    for limit in patch.hugepage_limits:
        if limit.page_size in known:
            known[limit.page_size].limit = limit.limit
        else:
            target.hugepage_limits.add().CopyFrom(limit)
