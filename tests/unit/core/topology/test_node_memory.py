"""What a NUMA node has left, and who is in danger of it."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.node_memory import NodeMemory, has_room_elsewhere, parse_node_memory, starves

GIB = 1 << 30
FULL, EMPTY = NodeMemory(64 * GIB, GIB), NodeMemory(64 * GIB, 40 * GIB)
MEMINFO = """\
Node 1 MemTotal:       1000000 kB
Node 1 MemFree:           5000 kB
Node 1 MemUsed:         995000 kB
Node 1 SwapCached:           7 kB
Node 1 Active:           90000 kB
Node 1 Inactive:         90000 kB
Node 1 Active(anon):     80000 kB
Node 1 Inactive(anon):   70000 kB
Node 1 Active(file):     10000 kB
Node 1 Inactive(file):   20000 kB
Node 1 Shmem:             3000 kB
Node 1 KReclaimable:     40000 kB
Node 1 SReclaimable:     30000 kB
Node 1 HugePages_Total:     0
"""


def test_left_is_what_is_free_and_what_can_be_freed() -> None:
    """Free memory, pages of files, and caches of the kernel: 5000 + 10000 + 20000 + 30000."""
    assert parse_node_memory(MEMINFO) == NodeMemory(1_000_000 * 1024, 65_000 * 1024)


def test_huge_pages_are_no_memory_that_could_run_out() -> None:
    """200 of 2 MiB and none of 1 GiB; what is no number of pages of a size does not count."""
    huge = {"hugepages-2048kB": "200\n", "hugepages-1048576kB": "0\n", "hugepages-xkB": "7", "hugepages-64kB": "many"}
    found = parse_node_memory(MEMINFO, huge)
    assert found == NodeMemory((1_000_000 - 200 * 2048) * 1024, 65_000 * 1024)
    assert parse_node_memory(MEMINFO, {"hugepages-1048576kB": "1"}) is None


@pytest.mark.parametrize("text", ["", "Node 0 MemTotal: 7 kB\n", "Node 0 MemTotal: 0 kB\nNode 0 MemFree: 0 kB\n", "x"])
def test_a_node_that_does_not_say_it_is_unknown(text: str) -> None:
    """One without memory has nothing that could run out."""
    assert parse_node_memory(text) is None


@pytest.mark.parametrize(
    ("total", "left", "short"),
    [
        (40, 1.9, True),  # a twentieth is 2 GiB
        (40, 2, False),
        (1000, 3.9, True),  # 4 GiB are enough of the largest
        (1000, 4, False),
        (1, 0.04, True),
        (1, 0.06, False),
    ],
)
def test_a_node_is_short_with_less_than_a_twentieth(total: int, left: float, short: bool) -> None:
    """And never with 4 GiB."""
    assert NodeMemory(total * GIB, int(left * GIB)).is_short is short


@pytest.mark.parametrize(
    ("zone", "nodes", "expected"),
    [
        ("0", {0: FULL, 1: EMPTY}, True),
        ("0", {0: FULL, 1: FULL}, False),  # nobody has anything
        ("0-1", {0: FULL, 1: EMPTY}, False),  # it can still use node 1
        ("0-1", {0: FULL, 1: FULL, 2: EMPTY}, True),
        ("1", {0: FULL, 1: EMPTY}, False),
        ("2", {0: FULL, 1: EMPTY}, False),  # nothing is known of node 2
        ("0", {0: FULL}, False),
    ],
)
def test_who_starves_beside_others_with_memory(zone: str, nodes: dict[int, NodeMemory], expected: bool) -> None:
    """All its nodes are short, and another one is not."""
    assert starves(CpuSet.parse(zone), nodes) is expected


def test_room_is_where_it_is_known() -> None:
    """A node that is not among those known has none."""
    assert has_room_elsewhere(CpuSet.parse("0"), {1: EMPTY})
    assert not has_room_elsewhere(CpuSet.parse("0"), {0: EMPTY})
