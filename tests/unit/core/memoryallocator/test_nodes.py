"""The memory nodes of machines as masks."""

from dataclasses import replace

from interpose.core.memoryallocator.nodes import MemoryNodes
from interpose.core.topology.topology import MemoryKind, NumaNode, Topology
from tests.support.policy.machines import machine

SERVER = MemoryNodes.of(machine("server"))


def mask(*numbers: int) -> int:
    """These nodes."""
    return sum(1 << number for number in numbers)


def test_the_nodes_of_a_machine() -> None:
    """Two of its six are persistent memory; all of them are normal."""
    assert SERVER.kinds == {MemoryKind.DRAM: mask(0, 1, 2, 3), MemoryKind.PMEM: mask(4, 5)}
    assert (SERVER.every, SERVER.normal, SERVER.known) == (63, 63, 63)
    assert SERVER.capacity(mask(0, 4)) == (32372996 + 130023424) * 1024
    assert SERVER.kinds_in(mask(3, 5)) == {MemoryKind.DRAM, MemoryKind.PMEM}
    assert SERVER.ordinary == {MemoryKind.DRAM}


def test_the_closest_are_all_that_are_as_near() -> None:
    """To any node of the zone, and none of it."""
    every, slow = SERVER.every, mask(4, 5)
    assert SERVER.closest(mask(0), every) == mask(2)
    assert SERVER.closest(mask(0, 2), every) == slow  # 17 from 0 to 4 and from 2 to 5
    assert SERVER.closest(mask(0, 1), slow) == mask(4)
    assert SERVER.closest(mask(1), slow) == slow  # both 28 away
    assert SERVER.closest(mask(0, 2, 4, 5), every) == mask(1, 3)
    assert SERVER.closest(every, every) == 0


def test_a_node_that_is_gone_is_near_to_nothing() -> None:
    """What else is in the zone decides; if there is nothing else, all are equally near."""
    assert SERVER.closest(mask(0, 9), SERVER.every) == mask(2)
    assert SERVER.closest(mask(9), mask(1, 3)) == mask(1, 3)
    assert SERVER.capacity(mask(9)) == 0


def test_nodes_without_memory_are_known_only() -> None:
    """By kind or by size; distances that are not given are the longest."""
    topology = Topology(
        cpus=(),
        nodes=(
            NumaNode(id=0, memory=MemoryKind.NONE, distances={}),
            NumaNode(id=1, memory_bytes=0, distances={}),
            NumaNode(id=2, memory_bytes=7, memory=MemoryKind.HBM, movable=True, distances={2: 10}),
        ),
    )
    found = MemoryNodes.of(topology)
    assert (found.known, found.every, found.kinds) == (7, 4, {MemoryKind.HBM: 4})
    assert found.rings[1] == ((255, 4),)
    assert found.ordinary == {MemoryKind.HBM}


def test_movable_memory_is_not_normal_unless_there_is_no_other() -> None:
    """A kernel is running, so some memory was fit for it."""
    found = machine("n4c16")
    movable = tuple(replace(node, movable=True) for node in found.nodes)
    assert MemoryNodes.of(replace(found, nodes=(found.nodes[0], *movable[1:]))).normal == 1
    assert MemoryNodes.of(replace(found, nodes=movable)).normal == 15
