"""Resources and cgroups in the words of an OCI runtime."""

import pytest

from interpose.cri.messages import cri
from interpose.localruntime.specfacts import HostFacts, SpecError
from interpose.localruntime.specresources import cgroup_directory, cgroup_path, merge_resources, oci_resources

V1 = HostFacts(cgroup_version=1)
V2 = HostFacts(cgroup_version=2)


def test_nothing_said_is_nothing() -> None:
    """Zero and empty are "not said"."""
    assert oci_resources(cri.LinuxContainerResources(), V2) == {}


def test_everything_said() -> None:
    """Each field has its key; unified is for v2 alone."""
    message = cri.LinuxContainerResources(
        cpu_period=100_000,
        cpu_quota=-1,
        cpu_shares=512,
        cpuset_cpus="0-1",
        cpuset_mems="0",
        memory_limit_in_bytes=100,
        memory_swap_limit_in_bytes=150,
        hugepage_limits=[cri.HugepageLimit(page_size="2MB", limit=5)],
        unified={"memory.high": "1"},
    )
    expected = {
        "cpu": {"shares": 512, "quota": -1, "period": 100_000, "cpus": "0-1", "mems": "0"},
        "memory": {"limit": 100, "swap": 150},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 5}],
    }
    assert oci_resources(message, V1) == expected
    assert oci_resources(message, V2) == {**expected, "unified": {"memory.high": "1"}}


def test_a_limit_of_memory_is_one_of_swap() -> None:
    """Where swap is counted."""
    message = cri.LinuxContainerResources(memory_limit_in_bytes=100)
    assert oci_resources(message, V2)["memory"] == {"limit": 100, "swap": 100}
    assert oci_resources(message, HostFacts(swap=False))["memory"] == {"limit": 100}


def test_huge_pages_need_their_controller() -> None:
    """Without it none are limited: the kubelet names every size there is."""
    message = cri.LinuxContainerResources(hugepage_limits=[cri.HugepageLimit(page_size="2MB")])
    assert oci_resources(message, HostFacts(hugetlb=False)) == {}


@pytest.mark.parametrize("name", ["../x", "", "a/b"])
def test_unified_names_are_names_of_files(name: str) -> None:
    """They become paths."""
    with pytest.raises(SpecError, match=r"linux\.resources\.unified"):
        oci_resources(cri.LinuxContainerResources(unified={name: "1"}), V2)


def test_a_patch_replaces_what_it_says() -> None:
    """And nothing else."""
    old = {
        "cpu": {"shares": 2, "cpus": "0"},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 1}, {"pageSize": "1GB", "limit": 1}],
        "devices": [1],
    }
    new = {
        "cpu": {"cpus": "1"},
        "memory": {"limit": 5},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 7}],
    }
    assert merge_resources(old, new) == {
        "cpu": {"shares": 2, "cpus": "1"},
        "memory": {"limit": 5},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 7}, {"pageSize": "1GB", "limit": 1}],
        "devices": [1],
    }
    assert old["cpu"] == {"shares": 2, "cpus": "0"}


@pytest.mark.parametrize(
    ("parent", "driver", "path", "directory"),
    [
        ("/kubepods/pod1/", "cgroupfs", "/kubepods/pod1/c", "/kubepods/pod1/c"),
        ("", "cgroupfs", "/interpose/c", "/interpose/c"),
        (
            "/kubepods.slice/kubepods-pod1.slice",
            "systemd",
            "kubepods-pod1.slice:cri-interpose:c",
            "/kubepods.slice/kubepods-pod1.slice/cri-interpose-c.scope",
        ),
        ("a-b.slice", "systemd", "a-b.slice:cri-interpose:c", "/a.slice/a-b.slice/cri-interpose-c.scope"),
        ("", "systemd", "system.slice:cri-interpose:c", "/system.slice/cri-interpose-c.scope"),
    ],
)
def test_where_a_container_is(parent: str, driver: str, path: str, directory: str) -> None:
    """For the OCI runtime and for us, with both drivers."""
    assert cgroup_path(parent, "c", driver) == path
    assert cgroup_directory(parent, "c", driver) == directory


@pytest.mark.parametrize(
    ("parent", "driver"),
    [
        ("/../x", "cgroupfs"),
        ("/", "cgroupfs"),
        ("a:b", "cgroupfs"),
        ("/kubepods", "systemd"),
        ("a--b.slice", "systemd"),
    ],
)
def test_parents_that_are_none(parent: str, driver: str) -> None:
    """The value is named."""
    with pytest.raises(SpecError, match="cgroup_parent"):
        cgroup_path(parent, "c", driver)
