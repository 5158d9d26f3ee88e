"""Resources become messages."""

from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.cri.store.convert import to_resources
from interpose.node.pods.cri_config.resources_message import to_message


def test_every_field_arrives() -> None:
    """There and back."""
    value = LinuxResources(
        cpu_period=1,
        cpu_quota=2,
        cpu_shares=3,
        memory_limit_in_bytes=4,
        oom_score_adj=-5,
        cpuset_cpus="0-1",
        cpuset_mems="0",
        hugepage_limits=(("2MB", 0), ("1GB", 6)),
        unified={"memory.high": "7"},
        memory_swap_limit_in_bytes=8,
    )
    assert to_resources(to_message(value)) == value


def test_nothing_is_an_empty_message() -> None:
    """Zero means not said."""
    assert to_message(NO_RESOURCES).ByteSize() == 0
