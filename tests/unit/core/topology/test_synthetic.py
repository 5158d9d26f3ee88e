"""Machines of equal parts: numbers, caches, distances."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.synthetic import Block, MachineLayout, build
from interpose.core.topology.topology import MemoryKind


def test_numbers_go_on_from_block_to_block() -> None:
    """CPUs, nodes and packages; memory alone is a node and no package."""
    found = build(
        [
            Block(packages=2, cores=1, threads=2),
            Block(cores=0, memory=MemoryKind.PMEM, memory_bytes=7),
            Block(nodes=2, cores=2),
        ],
        MachineLayout(),
    )
    assert {package: str(cpus) for package, cpus in found.packages.items()} == {0: "0-1", 1: "2-3", 2: "4-7"}
    assert [(str(node.cpus), node.memory) for node in found.nodes] == [
        ("0-1", MemoryKind.DRAM),
        ("2-3", MemoryKind.DRAM),
        ("", MemoryKind.PMEM),
        ("4-5", MemoryKind.DRAM),
        ("6-7", MemoryKind.DRAM),
    ]


def test_distances_follow_from_the_parts() -> None:
    """Of a die, of a package, beyond; what is given counts instead."""
    layout = MachineLayout(same_die=11, same_package=15, other_package=30, distances={(0, 3): 99, (0, 0): 7})
    found = build([Block(dies=2, nodes=2), Block()], layout)
    assert [found.nodes[0].distances[node] for node in range(5)] == [7, 11, 15, 99, 30]
    assert [found.nodes[3].distances[node] for node in range(5)] == [15, 15, 11, 10, 30]


def test_caches_are_named_by_their_lowest_cpu_that_is_online() -> None:
    """So are cores; a core without any CPU online is gone."""
    found = build([Block(cores=3, threads=2)], MachineLayout(l3_cores=2, offline=CpuSet.parse("0,4-5")))
    assert [(cpu.id, cpu.core, cpu.l2, cpu.l3) for cpu in found.cpus] == [(1, 1, 1, 1), (2, 2, 2, 1), (3, 2, 2, 1)]
    assert [(cache.level, str(cache.cpus)) for cache in found.caches] == [(2, "1"), (2, "2-3"), (3, "1-3")]


def test_a_cache_does_not_reach_beyond_its_die() -> None:
    """Even if there is room for more cores in it."""
    found = build([Block(dies=2, cores=3)], MachineLayout(l3_cores=2))
    assert [str(cpus) for cpus in found.l3_groups.values()] == ["0-1", "2", "3-4", "5"]


@pytest.mark.parametrize("blocks", [[], [Block(cores=0)]])
def test_a_machine_has_cpus(blocks: list[Block]) -> None:
    """Memory alone is none."""
    with pytest.raises(ValueError, match="this one has 0"):
        build(blocks, MachineLayout())
