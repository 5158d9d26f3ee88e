"""Which CPUs are taken, on machines of many kinds."""

from dataclasses import replace

import pytest

from interpose.core.cpuallocator import allocator
from interpose.core.cpuallocator.allocator import CpuSelection, take
from interpose.core.cpuallocator.kubelet import NotEnoughCpusError
from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine

SERVER = "2-socket-4-node-40-core"
HIGH, NORMAL, LOW = CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW


def taken(text: str, available: str, count: int, keep: str = "", prefer: CpuPriority = CpuPriority.NONE) -> str:
    """What is taken, as text; no `available`: everything."""
    topology = machine(text)
    cpus = CpuSet.parse(available) if available else topology.online
    return str(take(topology, cpus, count, keep=CpuSet.parse(keep), prefer=prefer).cpus)


@pytest.mark.parametrize(
    ("text", "available", "count", "expected"),
    [
        # n4c16: nodes 0-3, 4-7, 8-11, 12-15; cores of two
        ("n4c16", "", 1, "0"),
        ("n4c16", "", 2, "0-1"),
        ("n4c16", "", 4, "0-3"),
        ("n4c16", "1-15", 4, "4-7"),  # an idle node
        ("n4c16", "1-15", 1, "1"),  # the core that is broken already
        ("n4c16", "1-15", 2, "2-3"),  # in the node that is broken already
        ("n4c16", "0,2,4-15", 2, "4-5"),  # rather a whole core than the tighter node, in the fuller package
        ("n4c16", "2-15", 8, "8-15"),  # an idle package
        ("n4c16", "", 6, "0-5"),
        ("n4c16", "0-5,8-15", 6, "0-5"),  # the tighter package
        ("n4c16", "0-1,4-5,8-15", 4, "8-11"),  # one node rather than the tighter package
        ("n4c16", "0-5,8-13", 10, "0-5,8-11"),  # two packages; what is left over is in one of them
        ("n4c16", "", 12, "0-11"),
        # chiplets: L3 caches of four cores, 0-3,32-35 and so on
        ("chiplets", "", 8, "0-3,32-35"),
        ("chiplets", "1-63", 8, "4-7,36-39"),
        ("chiplets", "3-63", 4, "4-5,36-37"),  # an idle cache rather than cores that others use
        ("chiplets", "0-31,34-63", 4, "2-3,34-35"),  # whole cores in the cache that is in use
        ("chiplets", "", 12, "0-5,32-37"),
        ("chiplets", "4-7,36-39,12-15,44-45", 12, "4-7,12-13,36-39,44-45"),
        # CPUs numbered across packages
        (SERVER, "", 4, "0-1,40-41"),
        (SERVER, "1-79", 2, "1,41"),
        (SERVER, "", 20, "0-2,5-6,10-12,15-16,40-42,45-46,50-52,55-56"),
        # two kinds of cores are not mixed
        ("hybrid", "5-15", 4, "8-11"),
        ("hybrid", "5-15", 3, "5-7"),
        ("hybrid", "6-15", 9, "6-14"),
        # offline CPUs
        ("1 socket x 4 cores x 2 threads; offline 1", "", 1, "0"),
        ("1 socket x 4 cores x 2 threads; offline 1", "0-7", 3, "0,2-3"),
        ("tiny", "", 1, "0"),
    ],
)
def test_cpus_are_near_and_cores_are_whole(text: str, available: str, count: int, expected: str) -> None:
    """The fewest groups, whole cores, the tightest fit, the lowest numbers."""
    assert taken(text, available, count) == expected


@pytest.mark.parametrize(
    ("text", "available", "count", "keep", "expected"),
    [
        ("n4c16", "", 2, "5", "4-5"),  # grown to its sibling
        ("n4c16", "", 4, "12-13", "12-15"),  # within its node
        ("n4c16", "0-13", 4, "12-13", "8-9,12-13"),  # within its package
        ("n4c16", "0-7,12-13", 4, "12-13", "0-1,12-13"),
        ("n4c16", "", 6, "0,8", "0-3,8-9"),  # kept where they are, far as they are
        ("n4c16", "", 2, "0-1,6-7", "0-1"),  # fewer than it has
        ("n4c16", "", 3, "0,2,6-7", "0,6-7"),  # the whole core stays
        ("n4c16", "", 2, "3,9", "3,9"),  # just what it has
        ("n4c16", "4-15", 2, "0-1", "4-5"),  # not available any more
        ("n4c16", "1-15", 2, "0-1", "1,2"),
        ("chiplets", "", 10, "16,48", "16-20,48-52"),
    ],
)
def test_what_is_held_stays(text: str, available: str, count: int, keep: str, expected: str) -> None:
    """As far as it is available; more is added near to it."""
    result = taken(text, available, count, keep)
    assert CpuSet.parse(result) == CpuSet.parse(expected)


def test_nearer_packages_are_taken_together() -> None:
    """Where several are needed; by the kernel's distances, not by numbers."""
    topology = machine("4 sockets x 4 cores")
    near = {frozenset({0, 3}), frozenset({1, 2})}
    nodes = tuple(
        replace(
            node,
            distances={
                other: 10 if other == node.id else 16 if frozenset({node.id, other}) in near else 32
                for other in range(4)
            },
        )
        for node in topology.nodes
    )
    ring = replace(topology, nodes=nodes)
    assert take(ring, topology.online, 8).cpus == CpuSet.parse("0-3,12-15")
    assert take(ring, topology.online, 6, keep=CpuSet.parse("8-11")).cpus == CpuSet.parse("4-5,8-11")


def test_clusters_are_not_torn() -> None:
    """Cores that share a level 2 cache."""
    topology = machine("1 socket x 16 cores")
    topology = replace(topology, cpus=tuple(replace(cpu, l2=cpu.id // 4 * 4) for cpu in topology.cpus))
    assert take(topology, CpuSet.parse("1-15"), 4).cpus == CpuSet.parse("4-7")
    assert take(topology, CpuSet.parse("2-15"), 2).cpus == CpuSet.parse("2-3")


@pytest.mark.parametrize(
    ("available", "count", "prefer", "expected"),
    [
        ("", 4, HIGH, "0-3"),
        ("", 4, NORMAL, "8-11"),  # nothing is normal: rather slower than faster
        ("", 4, LOW, "8-11"),
        ("6-15", 4, HIGH, "6-9"),
        ("0-9", 4, LOW, "0-1,8-9"),
        ("8-15", 2, HIGH, "8-9"),
    ],
)
def test_a_wish_for_a_priority(available: str, count: int, prefer: CpuPriority, expected: str) -> None:
    """Performance cores are high, efficiency cores low; what is missing comes from the others."""
    assert taken("hybrid", available, count, prefer=prefer) == expected


def faster(topology: Topology, cpus: CpuSet) -> Topology:
    """The same machine, where these CPUs have a higher base frequency."""
    return replace(
        topology, cpus=tuple(replace(cpu, base_khz=2_000_000 + 500_000 * (cpu.id in cpus)) for cpu in topology.cpus)
    )


def test_a_node_with_faster_cpus_is_chosen_but_no_second_node() -> None:
    """One NUMA node comes before priority, priority before whole cores and the tightest fit."""
    topology = faster(machine(SERVER), CpuSet.parse("2,5,8,15,17,42,45,48,55,57"))
    available = CpuSet.parse("2,3,10-25")
    assert take(topology, available, 4, prefer=HIGH).cpus == CpuSet.parse("2,10-11,15")
    assert take(topology, available, 1, prefer=HIGH).cpus == CpuSet.parse("17")  # of the node with just one
    assert take(topology, available, len(available), prefer=HIGH).cpus == available


def test_a_wish_keeps_what_is_held() -> None:
    """Also if it is not of the wished class."""
    assert taken("hybrid", "", 3, keep="9", prefer=HIGH) == "0-1,9"


def test_too_many_are_refused_by_name() -> None:
    """CPUs that are offline do not count."""
    with pytest.raises(NotEnoughCpusError, match=r"^cpuset 0-2 does not have 4 CPUs$"):
        take(machine("1 socket x 4 cores; offline 3"), CpuSet.parse("0-3"), 4)


def test_nothing_is_taken_if_nothing_is_wanted() -> None:
    """Not even what is held."""
    assert take(machine("n4c16"), EMPTY, 0) == CpuSelection()
    assert take(machine("n4c16"), CpuSet.parse("0-3"), 0, keep=CpuSet.parse("0")) == CpuSelection()


def test_candidates_tell_what_there_was() -> None:
    """Best first, the best is the one chosen, each with its score and why it was passed over."""
    topology = machine("n4c16")
    result = take(topology, CpuSet.parse("1-3,4-11"), 3)
    assert [(candidate.name, str(candidate.cpus), candidate.chosen) for candidate in result.candidates] == [
        ("NUMA node 0", "1-3", True),
        ("NUMA node 2", "8-11", False),
        ("NUMA node 1", "4-7", False),
    ]
    assert result.candidates[0].reason == "the best of 3"
    assert result.candidates[0].score == "split cores 1, CPUs left 0/4/8"
    assert result.candidates[1].reason == "an idle core would be broken up"
    assert [candidate.cpus for candidate in take(topology, CpuSet.parse("0-3"), 4).candidates] == [CpuSet.parse("0-3")]


def test_candidates_can_be_sets() -> None:
    """Where no single group is large enough."""
    result = take(machine("4 sockets x 4 cores"), CpuSet.parse("0-13"), 7)
    assert [candidate.name for candidate in result.candidates] == [
        "NUMA nodes 0, 1",
        "NUMA nodes 0, 2",
        "NUMA nodes 1, 2",
    ]


def test_there_are_not_too_many_candidates() -> None:
    """A report with hundreds of candidates is of no use."""
    topology = machine("big")
    assert len(take(topology, topology.online, 32).candidates) == allocator.MOST_CANDIDATES
    assert len(take(topology, topology.online, 1).candidates) == allocator.MOST_CANDIDATES


def test_many_groups_are_not_all_compared() -> None:
    """The largest are taken, and the last one is the tightest that will do."""
    topology = machine("1 socket x 64 cores; l3 4 cores")
    available = topology.online - CpuSet.parse("0,5,6,9,10,11")
    result = take(topology, available, 34)
    assert result.cpus == CpuSet.parse("4,7,12-43")
    assert result.candidates[0].name == "L3 caches 4, 12, 16, 20, 24, 28, 32, 36, 40"
