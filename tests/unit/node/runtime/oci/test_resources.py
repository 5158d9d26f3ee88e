"""Resources and cgroups in the words of an OCI runtime."""

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci.resources import (
    cgroup_directory,
    cgroup_path,
    check_parent,
    check_resources,
    merge_resources,
    oci_resources,
)
from interpose.node.runtime.oci.spec_types import HostFacts, SpecError

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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cpu_shares", -1),
        ("cpu_period", -1),
        ("memory_limit_in_bytes", -2),
        ("memory_swap_limit_in_bytes", -2),
        ("oom_score_adj", -1001),
        ("oom_score_adj", 1001),
    ],
)
def test_numbers_that_no_runtime_takes(field: str, value: int) -> None:
    """Field and value are named."""
    message = cri.LinuxContainerResources()
    setattr(message, field, value)
    with pytest.raises(SpecError, match=rf"^linux\.resources\.{field}: {value} is "):
        check_resources(message)


def test_numbers_that_mean_no_limit() -> None:
    """Of memory -1 alone; of quotas whatever is negative."""
    message = cri.LinuxContainerResources(cpu_quota=-5, memory_limit_in_bytes=-1, memory_swap_limit_in_bytes=-1)
    check_resources(message)
    assert oci_resources(message, V1) == {"cpu": {"quota": -5}, "memory": {"limit": -1, "swap": -1}}


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


@pytest.mark.parametrize(
    ("parent", "driver"),
    [("/x/" + "/".join(["d" * 200] * 30), "cgroupfs"), ("a" + "-a" * 120 + ".slice", "systemd")],
)
def test_parents_that_are_too_long(parent: str, driver: str) -> None:
    """As a whole, with the slices that lead to one. What is in a record can still be found, to be removed."""
    with pytest.raises(SpecError, match=r"linux\.cgroup_parent: its path has \d+ bytes, more than 3000"):
        check_parent(parent, driver)
    assert cgroup_directory(parent, "c", driver).endswith("c" if driver == "cgroupfs" else "-c.scope")


def test_a_parent_may_be_long() -> None:
    """As long as there is room for more: to the last byte."""
    longest = "/" + "/".join(["d" * 200] * 14)
    longest += "/" + "d" * (2998 - len(longest))
    assert len(cgroup_directory(longest, "", "cgroupfs")) == 3000
    check_parent(longest, "cgroupfs")
    with pytest.raises(SpecError, match="3001 bytes"):
        check_parent(f"{longest}d", "cgroupfs")
    check_parent("", "systemd")
