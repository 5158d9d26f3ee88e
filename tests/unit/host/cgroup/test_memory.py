"""What the memory controller says of a cgroup."""

import os

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.host.cgroup.memory import MemoryEvents, MemoryUse, parse_numa_stat, read_memory_use
from interpose.host.cgroup.tree import CgroupTree
from interpose.testing.kernel.cgroup import FakeKernel

POD, CONTAINER = "kubepods/podx", "kubepods/podx/c"
PAGE = os.sysconf("SC_PAGE_SIZE")
V1_STAT = "total=6 N0=4 N1=2\nfile=1 N0=1 N1=0\nhierarchical_total=9 N0=9 N1=0\n"
V2_STAT = (
    "anon N0=1000 N1=20\nfile N0=300 N1=0\nkernel_stack N0=4 N1=0\npagetables N0=5 N1=0\nfile_mapped N0=300 N1=0\n"
)


def kernel(version: int, files: dict[str, str]) -> CgroupTree:
    """Cgroups with these files of the memory controller, by path below its root."""
    made = FakeKernel(version)
    made.make(CONTAINER)
    for path, text in files.items():
        made.put(f"{made.root}/{'memory/' if version == 1 else ''}{path}", text)
    return CgroupTree(made, made.root, version=version)


def test_bytes_by_node() -> None:
    """Pages of all kinds on v1, bytes of the kinds that count on v2; of the cgroup itself."""
    assert parse_numa_stat(V1_STAT, 1) == {0: 4 * PAGE, 1: 2 * PAGE}
    assert parse_numa_stat(V2_STAT, 2) == {0: 1309, 1: 20}
    assert parse_numa_stat("nonsense\ntotal=x N0\n", 1) == {}


def test_memory_on_some_nodes() -> None:
    """Nodes that the cgroup has nothing on count nothing."""
    use = MemoryUse({0: 5, 1: 7}, MemoryEvents("", 0, 0))
    assert [use.on(CpuSet.parse(nodes)) for nodes in ("0", "0-1", "2", "")] == [5, 12, 0, 0]


def test_events_of_v2_are_those_of_the_pod() -> None:
    """Which counts those of its containers, also of one that is gone. Above it only limits of its own count: other pods
    are none of its business."""
    tree = kernel(
        2,
        {
            f"{CONTAINER}/memory.numa_stat": V2_STAT,
            f"{CONTAINER}/memory.events": "low 0\nhigh 9\nmax 8\noom 1\noom_kill 3\noom_group_kill 0\n",
            f"{POD}/memory.events": "max 8\noom 2\noom_kill 5\n",
            "kubepods/memory.events": "oom 70\noom_kill 70\n",
            "kubepods/memory.events.local": "oom 4\noom_kill 0\n",
        },
    )
    assert read_memory_use(tree, CONTAINER) == MemoryUse({0: 1309, 1: 20}, MemoryEvents(POD, 5, 6))


def test_events_of_v2_without_a_pod_are_those_of_the_container() -> None:
    """Some other program has made it."""
    tree = kernel(2, {"kubepods/memory.numa_stat": V2_STAT, "kubepods/memory.events": "oom 4\noom_kill 5\n"})
    assert read_memory_use(tree, "kubepods").events == MemoryEvents("kubepods", 5, 4)


def test_events_of_v1_are_those_of_the_container() -> None:
    """There a limit that was reached counts, whatever came of it."""
    tree = kernel(
        1,
        {
            f"{CONTAINER}/memory.numa_stat": V1_STAT,
            f"{CONTAINER}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
            f"{CONTAINER}/memory.failcnt": "5\n",
            f"{POD}/memory.failcnt": "6\n",
        },
    )
    found = read_memory_use(tree, CONTAINER)
    assert found == MemoryUse({0: 4 * PAGE, 1: 2 * PAGE}, MemoryEvents(CONTAINER, 2, 11))


def test_a_kernel_that_counts_no_kills_has_none() -> None:
    """Those before 4.13."""
    tree = kernel(
        1,
        {
            f"{CONTAINER}/memory.numa_stat": "",
            f"{CONTAINER}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n",
        },
    )
    assert read_memory_use(tree, CONTAINER) == MemoryUse({}, MemoryEvents(CONTAINER, 0, 0))


@pytest.mark.parametrize("version", [1, 2])
def test_a_cgroup_that_is_gone_is_an_error(version: int) -> None:
    """The system's own."""
    with pytest.raises(FileNotFoundError):
        read_memory_use(kernel(version, {}), "kubepods/pody/c")


def test_a_controller_that_is_not_mounted_is_an_error() -> None:
    """Some v1 machines have no memory controller."""
    with pytest.raises(FileNotFoundError, match="its hierarchy is not mounted"):
        kernel(1, {}).text(CONTAINER, "pids", "pids.max")
