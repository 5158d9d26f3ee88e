"""Patches of resources."""

from interpose.cri.messages import cri
from interpose.node.runtime.oci.resource_patch import patch_resources


def test_what_is_not_said_stays() -> None:
    """Zero and empty are not said."""
    target = cri.LinuxContainerResources(cpu_shares=512, cpuset_cpus="0-1", memory_limit_in_bytes=1 << 20)
    patch_resources(target, cri.LinuxContainerResources(cpuset_cpus="1", cpu_quota=-1))
    assert target == cri.LinuxContainerResources(
        cpu_shares=512, cpuset_cpus="1", memory_limit_in_bytes=1 << 20, cpu_quota=-1
    )


def test_maps_merge_by_key() -> None:
    """Huge pages by their size, unified by the name of the file."""
    target = cri.LinuxContainerResources(unified={"memory.high": "1", "memory.low": "2"})
    target.hugepage_limits.add(page_size="2MB", limit=1)
    patch = cri.LinuxContainerResources(unified={"memory.high": "9"})
    patch.hugepage_limits.add(page_size="2MB", limit=5)
    patch.hugepage_limits.add(page_size="1GB", limit=6)
    patch_resources(target, patch)
    assert dict(target.unified) == {"memory.high": "9", "memory.low": "2"}
    assert {one.page_size: one.limit for one in target.hugepage_limits} == {"2MB": 5, "1GB": 6}
