"""Which node a CPU is in, and what the memory of a node is."""

from collections.abc import Mapping

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.parse import CPUS, NODES, SysfsFiles, node_of_cpus, numa_nodes
from interpose.core.topology.topology import MemoryKind

KIB = 1024


def nodes(rows: Mapping[int, tuple[str, int, str]], more: Mapping[str, str] | None = None) -> SysfsFiles:
    """Nodes by number: CPUs, size in kB, distances."""
    found = dict(more or {})
    for node, (cpus, size, distances) in rows.items():
        found[f"{NODES}/node{node}/cpulist"] = cpus
        found[f"{NODES}/node{node}/meminfo"] = f"Node {node} MemTotal:  {size} kB\nNode {node} MemFree: 1 kB\n"
        found[f"{NODES}/node{node}/distance"] = distances
    return SysfsFiles(found)


def kinds(files: SysfsFiles, **members: str) -> dict[int, MemoryKind]:
    """What the memories are; members are CPUs by node as n0="0-3"."""
    found = numa_nodes(files, {int(node[1:]): CpuSet.parse(cpus) for node, cpus in members.items()})
    return {node.id: node.memory for node in found}


def test_the_link_of_a_cpu_says_its_node() -> None:
    """More than the list of a node: a kernel that makes up nodes lists a CPU in many."""
    files = nodes({0: ("0-1", 1, "10 20"), 1: ("0-1", 1, "20 10")}, {f"{CPUS}/cpu1/node1": ""})
    assert node_of_cpus(files, {0: 0, 1: 0}) == {0: 0, 1: 1}


def test_without_a_link_and_a_list_the_package_says_it() -> None:
    """The other CPUs of the package have a node; a package of which nothing is known is with the lowest one."""
    files = nodes({2: ("0", 1, "10 20"), 3: ("2", 1, "20 10")})
    assert node_of_cpus(files, {0: 0, 1: 0, 2: 1, 3: 1, 4: 2}) == {0: 2, 1: 2, 2: 3, 3: 3, 4: 2}


def test_a_machine_without_nodes_has_one() -> None:
    """With all CPUs, and a memory of which nothing but its being there is known."""
    files = SysfsFiles({})
    assert node_of_cpus(files, {0: 0, 1: 1}) == {0: 0, 1: 0}
    (node,) = numa_nodes(files, {0: CpuSet.parse("0-1")})
    assert (node.id, str(node.cpus), node.memory, node.memory_bytes) == (0, "0-1", MemoryKind.DRAM, 0)
    assert node.distances == {0: 10}


def test_distances_are_kept_as_they_are() -> None:
    """Not the same in both directions, and by the numbers of the nodes, which may have gaps."""
    files = nodes({0: ("0", 1, "10 15"), 8: ("1", 1, "31 10")})
    first, second = numa_nodes(files, {0: CpuSet.of([0]), 8: CpuSet.of([1])})
    assert (first.distances, second.distances) == ({0: 10, 8: 15}, {0: 31, 8: 10})


def test_distances_that_are_missing_are_what_kernels_assume() -> None:
    """A node that only a link speaks of has no folder, and no place in the lines of others."""
    files = SysfsFiles({f"{NODES}/node0/distance": "10", f"{CPUS}/cpu1/node4": ""})
    first, second = numa_nodes(files, {0: CpuSet.of([0]), 4: CpuSet.of([1])})
    assert (first.distances, second.distances) == ({0: 10, 4: 20}, {0: 20, 4: 10})


@pytest.mark.parametrize("text", ["10", "10 20 30", "10 far", "10 256", "10 -1", "10 ²"])
def test_a_line_of_distances_that_is_none_is_refused(text: str) -> None:
    """With path and text."""
    files = nodes({0: ("0", 1, text), 1: ("1", 1, "20 10")})
    with pytest.raises(ValueError, match=rf"^file {NODES}/node0/distance: expected .* found '{text}'"):
        numa_nodes(files, {})


def test_a_size_that_is_none_is_refused() -> None:
    """With path and text."""
    with pytest.raises(ValueError, match=rf"^file {NODES}/node0/meminfo: .* found 'much'"):
        numa_nodes(SysfsFiles({f"{NODES}/node0/meminfo": "much"}), {})


def test_a_node_without_memory_has_none() -> None:
    """By its size, or by the list of nodes that have some."""
    files = nodes({0: ("0", 0, "10 20"), 1: ("1", 4, "20 10")})
    assert kinds(files, n0="0", n1="1") == {0: MemoryKind.NONE, 1: MemoryKind.DRAM}
    listed = SysfsFiles({f"{NODES}/has_memory": "1", f"{NODES}/node0/cpulist": "0", f"{NODES}/node1/cpulist": "1"})
    assert kinds(listed, n0="0", n1="1") == {0: MemoryKind.NONE, 1: MemoryKind.DRAM}


def test_large_memory_without_cpus_is_persistent_and_small_is_on_the_package() -> None:
    """Compared with the nearest ordinary memory: node 3 is small only for the one far away."""
    files = nodes(
        {
            0: ("0", 64, "10 21 17 13 28"),
            1: ("1", 8, "21 10 28 23 17"),
            2: ("", 256, "17 28 10 30 30"),
            3: ("", 16, "13 23 30 10 30"),
            4: ("", 16, "28 17 30 30 10"),
        }
    )
    found = kinds(files, n0="0", n1="1")
    assert [found[node] for node in (2, 3, 4)] == [MemoryKind.PMEM, MemoryKind.HBM, MemoryKind.PMEM]


@pytest.mark.parametrize(
    ("bandwidth", "expected"), [("9000", MemoryKind.HBM), ("100", MemoryKind.PMEM), ("1000", MemoryKind.DRAM)]
)
def test_bandwidth_decides_before_size(bandwidth: str, expected: MemoryKind) -> None:
    """Where the kernel knows it of both."""
    speed = "access0/initiators/read_bandwidth"
    more = {f"{NODES}/node0/{speed}": "1000\n", f"{NODES}/node1/{speed}": bandwidth}
    files = nodes({0: ("0", 64, "10 20"), 1: ("", 64, "20 10")}, more)
    assert kinds(files, n0="0")[1] is expected


def test_memory_whose_cpus_are_offline_is_ordinary() -> None:
    """Their links are still there."""
    files = nodes({0: ("0", 64, "10 21"), 1: ("", 64, "21 10")}, {f"{CPUS}/cpu1/node1": ""})
    assert kinds(files, n0="0")[1] is MemoryKind.DRAM


def test_the_only_memory_there_is_is_ordinary() -> None:
    """Machines exist whose memory is all on nodes without CPUs."""
    files = nodes({0: ("0", 0, "10 20"), 1: ("", 64, "20 10")})
    assert kinds(files, n0="0") == {0: MemoryKind.NONE, 1: MemoryKind.DRAM}


def test_sizes_are_bytes() -> None:
    """The kernel counts in KiB, whatever it calls them."""
    (node,) = numa_nodes(nodes({0: ("0", 48005604, "10")}), {0: CpuSet.of([0])})
    assert node.memory_bytes == 48005604 * KIB


def movable(files: SysfsFiles, **members: str) -> dict[int, bool]:
    """Which nodes have movable memory only."""
    found = numa_nodes(files, {int(node[1:]): CpuSet.parse(cpus) for node, cpus in members.items()})
    return {node.id: node.movable for node in found}


def test_memory_that_is_not_normal_is_movable_whatever_its_kind() -> None:
    """Node 1 is ordinary memory with CPUs, node 2 persistent, and node 3 has none at all."""
    files = nodes(
        {n: (str(n) if n < 2 else "", size, "10 20 20 20") for n, size in enumerate((64, 64, 256, 0))},
        {f"{NODES}/has_normal_memory": "0\n"},
    )
    assert movable(files, n0="0", n1="1") == {0: False, 1: True, 2: True, 3: False}


@pytest.mark.parametrize("more", [{}, {f"{NODES}/has_normal_memory": "\n"}])
def test_without_a_list_of_normal_memory_all_of_it_is_normal(more: dict[str, str]) -> None:
    """A kernel lives somewhere: that there were none says as little as no file."""
    files = nodes({0: ("0", 64, "10 20"), 1: ("", 256, "20 10")}, more)
    assert movable(files, n0="0") == {0: False, 1: False}
