"""Resources as values: laying an update over them, and telling two apart."""

from interpose.core.model.resources import NO_RESOURCES, LinuxResources


def test_overlay_keeps_what_the_patch_does_not_set() -> None:
    """Zero and empty mean not set, -1 is a value."""
    before = LinuxResources(cpu_shares=512, cpu_quota=20000, cpuset_cpus="0-3", oom_score_adj=999)
    after = before.overlay(LinuxResources(cpu_quota=-1, memory_limit_in_bytes=1 << 20))
    assert after == LinuxResources(
        cpu_shares=512, cpu_quota=-1, cpuset_cpus="0-3", oom_score_adj=999, memory_limit_in_bytes=1 << 20
    )


def test_overlay_merges_maps_by_key() -> None:
    """Unified files and huge page sizes that the patch does not name stay, in their place."""
    before = LinuxResources(unified={"memory.high": "1", "memory.low": "2"}, hugepage_limits=(("2MB", 1), ("1GB", 2)))
    after = before.overlay(LinuxResources(unified={"memory.low": "3"}, hugepage_limits=(("2MB", 0), ("64KB", 4))))
    assert after.unified == {"memory.high": "1", "memory.low": "3"}
    assert after.hugepage_limits == (("2MB", 0), ("1GB", 2), ("64KB", 4))


def test_overlay_of_nothing_is_the_same_value() -> None:
    """An update without resources changes nothing and makes no copy."""
    before = LinuxResources(cpu_shares=2)
    assert before.overlay(NO_RESOURCES) is before


def test_differing_names_the_fields() -> None:
    """Only what differs is named."""
    one = LinuxResources(cpu_shares=2, cpuset_cpus="0")
    assert one.differing(LinuxResources(cpu_shares=3, cpuset_cpus="0")) == ("cpu_shares",)
    assert one.differing(one) == ()
