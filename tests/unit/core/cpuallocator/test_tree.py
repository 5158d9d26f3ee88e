"""Machines as trees."""

from dataclasses import replace

import pytest

from interpose.core.cpuallocator.tree import CpuTree, TreeLevel
from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.topology import NO_CACHE
from tests.support.policy.machines import machine, oracle_topology


def shape(levels: CpuTree) -> list[tuple[str, int]]:
    """Names of levels and how many groups each has."""
    return [(level.singular, len(level.groups)) for level in levels.levels]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tiny", [("core", 1)]),
        ("laptop", [("NUMA node", 1), ("core", 2)]),
        ("2 sockets x 1 core", [("machine", 1), ("core", 2)]),
        ("n4c16", [("machine", 1), ("package", 2), ("NUMA node", 4), ("core", 8)]),
        ("chiplets", [("machine", 1), ("NUMA node", 2), ("L3 cache", 8), ("core", 32)]),
        ("2 sockets x 2 dies x 4 cores", [("machine", 1), ("package", 2), ("NUMA node", 4), ("core", 16)]),
        ("hybrid", [("NUMA node", 1), ("cores for", 2), ("core", 16)]),
    ],
)
def test_levels_go_from_wide_to_narrow(text: str, expected: list[tuple[str, int]]) -> None:
    """What has the same groups is one level."""
    assert shape(CpuTree.of(machine(text))) == expected


def test_nodes_can_be_wider_than_packages() -> None:
    """The machine decides which of the two is wider."""
    topology = oracle_topology({str(cpu): (cpu, cpu // 2, cpu // 4, cpu // 2) for cpu in range(8)})
    assert shape(CpuTree.of(topology)) == [("machine", 1), ("NUMA node", 2), ("package", 4), ("core", 8)]


def test_a_cache_of_several_nodes_is_wider_than_nodes() -> None:
    """It is the package then; packages have the nicer name."""
    levels = CpuTree.of(machine("2 sockets x 2 numa x 2 cores"))
    assert [level.name([0]) for level in levels.levels] == ["machine", "package 0", "NUMA node 0", "core 0"]


def test_a_group_that_reaches_beyond_a_wider_one_is_cut() -> None:
    """Everything is within one group of each wider level."""
    topology = oracle_topology({str(cpu): (cpu, 0, cpu // 4, (cpu + 2) // 4) for cpu in range(8)})
    levels = CpuTree.of(topology).levels
    assert [CpuSet(mask) for mask in levels[2].groups] == [CpuSet.parse(text) for text in ("0-1", "2-3", "4-5", "6-7")]
    assert levels[2].parents == ((0, 0), (0, 0), (1, 0), (1, 0))


def test_cpus_without_a_cache_are_together() -> None:
    """Those of low power islands have no L3."""
    topology = machine("1 socket x 4 cores")
    topology = replace(
        topology, cpus=tuple(replace(cpu, l2=NO_CACHE, l3=NO_CACHE if cpu.id > 2 else 0) for cpu in topology.cpus)
    )
    level = CpuTree.of(topology).levels[1]
    assert [level.name([place]) for place in range(2)] == ["L3 cache 0", "L3 cache none"]


def test_clusters_of_cores_are_a_level() -> None:
    """Cores that share a level 2 cache."""
    topology = machine("1 socket x 8 cores")
    topology = replace(topology, cpus=tuple(replace(cpu, l2=cpu.id // 4 * 4) for cpu in topology.cpus))
    assert shape(CpuTree.of(topology)) == [("NUMA node", 1), ("L2 cache", 2), ("core", 8)]


def test_levels_down_to_nodes_are_the_outer_ones() -> None:
    """With packages, whichever is narrower."""
    assert [level.outer for level in CpuTree.of(machine("chiplets")).levels] == [True, True, False, False]


def test_the_tree_can_be_walked_both_ways() -> None:
    """From a group to those around it and to those inside."""
    levels = CpuTree.of(machine("n4c16"))
    assert levels.levels[3].parents[5] == (2, 1, 0)
    assert levels.inside[1][1] == ((1,), (2, 3), (4, 5, 6, 7))
    assert levels.inside[3][5] == ((5,),)
    assert levels.levels[1].nodes == ((0, 1), (2, 3))


def test_distance_is_the_mean_of_pairs() -> None:
    """In hundredths. What the kernel does not tell is far."""
    topology = machine("n4c16")
    levels = CpuTree.of(topology)
    assert [levels.mean_distance(nodes) for nodes in ((0,), (0, 1), (0, 2), (0, 1, 2))] == [0, 1200, 2100, 1800]
    silent = replace(topology, nodes=tuple(replace(node, distances={}) for node in topology.nodes))
    assert CpuTree.of(silent).mean_distance((0, 1)) == 25500


def test_groups_have_names() -> None:
    """One or many; the machine needs no number."""
    topology = machine("1 socket x 2 dies x 2 numa x 2 cores")
    topology = replace(topology, cpus=tuple(replace(cpu, l3=NO_CACHE) for cpu in topology.cpus))
    levels: list[TreeLevel] = list(CpuTree.of(topology).levels)
    assert [level.name([0]) for level in levels] == ["package 0", "die 0/0", "NUMA node 0", "core 0"]
    assert levels[1].name([0, 1]) == "dies 0/0, 0/1"
    assert CpuTree.of(machine("hybrid")).levels[1].name([1]) == "cores for efficiency"
