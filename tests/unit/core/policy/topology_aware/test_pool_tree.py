"""Pools of machines: which there are, in which order, and which memory they have."""

from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.topology_aware.options import PoolLevel
from interpose.core.policy.topology_aware.pool_tree import PoolTree
from interpose.core.topology.topology import MemoryKind
from tests.support.policy.machines import machine


def tree_of(name: str, usable: str = "") -> PoolTree:
    """The tree of a machine; all of its CPUs are usable unless some are given."""
    topology = machine(name)
    return PoolTree.of(topology, CpuSet.parse(usable) or topology.online)


def test_pools_inside_of_a_pool_come_before_it() -> None:
    """The numbers of a machine with two sockets of two nodes each."""
    names = [pool.name for pool in tree_of("n4c16").pools]
    nodes = [f"NUMA node #{node}" for node in range(4)]
    assert names == [nodes[0], nodes[1], "socket #0", nodes[2], nodes[3], "socket #1", "root"]


def test_a_pool_knows_those_above_and_inside_of_it() -> None:
    """By their numbers."""
    socket, node = tree_of("n4c16").by_name["socket #1"], tree_of("n4c16").by_name["NUMA node #2"]
    assert (socket.path, socket.children, socket.below, socket.depth) == ((5, 6), (3, 4), (3, 4, 5), 1)
    assert (node.path, node.children, node.below, node.depth) == ((3, 5, 6), (), (3,), 2)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("laptop", ["socket #0"]),  # one node, one cache
        ("hybrid", ["socket #0"]),
        ("1 socket x 2 numa x 2 cores", ["socket #0", "NUMA node #0", "NUMA node #1"]),
        ("2 sockets x 2 cores", ["root", "socket #0", "socket #1"]),  # a node in each is the socket itself
        ("1 socket x 2 dies x 2 cores", ["socket #0", "die #0/0", "die #0/1"]),
        (
            "1 socket x 2 dies x 2 numa x 2 cores",
            ["socket #0", "die #0/0", "NUMA node #0", "NUMA node #1", "die #0/1", "NUMA node #2", "NUMA node #3"],
        ),
        (
            "2 sockets x 8 cores; l3 4 cores",
            [
                "root",
                "socket #0",
                "socket #0/L3 cache #0",
                "socket #0/L3 cache #1",
                "socket #1",
                "socket #1/L3 cache #2",
                "socket #1/L3 cache #3",
            ],
        ),
    ],
)
def test_a_level_is_there_only_if_it_divides_something(name: str, expected: list[str]) -> None:
    """From the widest pool to the narrowest, as people read it."""
    assert [pool.name for pool in tree_of(name).from_top] == expected


def test_pools_without_usable_cpus_are_left_out() -> None:
    """The first node and the last one have none of these."""
    names = [pool.name for pool in tree_of("n4c16", "4-9").from_top]
    assert names == ["root", "socket #0", "NUMA node #1", "socket #1", "NUMA node #2"]


def test_a_node_without_memory_has_no_pool() -> None:
    """Its CPUs are in the pool above only, whose memory is that of the other node."""
    topology = machine("n4c16")
    first, second, *others = topology.nodes
    bare = replace(second, memory_bytes=0, memory=MemoryKind.NONE)
    tree = PoolTree.of(replace(topology, nodes=(first, bare, *others)), topology.online)
    names = [pool.name for pool in tree.from_top]
    assert names == ["root", "socket #0", "NUMA node #0", "socket #1", "NUMA node #2", "NUMA node #3"]
    assert (str(tree.by_name["socket #0"].cpus), str(tree.by_name["socket #0"].nodes)) == ("0-7", "0")


def test_a_pool_without_memory_of_its_own_has_the_nearest() -> None:
    """A socket none of whose nodes has any."""
    topology = machine("2 sockets x 2 cores")
    first, second = topology.nodes
    bare = replace(second, memory_bytes=0, memory=MemoryKind.NONE)
    tree = PoolTree.of(replace(topology, nodes=(first, bare)), topology.online)
    assert str(tree.by_name["socket #1"].nodes) == "0"


def test_a_node_of_several_sockets_has_no_pool() -> None:
    """As some servers are set up: the sockets are parts of it, not the other way round."""
    topology = machine("2 sockets x 2 cores")
    cpus = tuple(replace(cpu, node=0) for cpu in topology.cpus)
    (node, _other) = topology.nodes
    one = replace(topology, cpus=cpus, nodes=(replace(node, cpus=topology.online, distances={0: 10}),))
    assert [pool.name for pool in PoolTree.of(one, one.online).from_top] == ["root", "socket #0", "socket #1"]


def test_memory_without_cpus_belongs_to_the_nearest_nodes() -> None:
    """Persistent memory of a server: node 4 is nearest to node 0, node 5 to node 2; the root has all of it."""
    by_name = tree_of("server").by_name
    found = {name: str(by_name[name].nodes) for name in ("root", "socket #0", "NUMA node #0", "NUMA node #3")}
    assert found == {"root": "0-5", "socket #0": "0,2,4-5", "NUMA node #0": "0,4", "NUMA node #3": "3"}


def test_the_narrowest_pool_of_some_cpus() -> None:
    """Where all of them are."""
    tree = tree_of("n4c16")
    found = [tree.narrowest(CpuSet.parse(cpus)).name for cpus in ("4-5", "3-4", "0,8", "77")]
    assert found == ["NUMA node #1", "socket #0", "root", "root"]


@pytest.mark.parametrize(
    ("name", "level", "expected"),
    [
        ("n4c16", PoolLevel.DIE, PoolLevel.PACKAGE),  # there are no dies
        ("n4c16", PoolLevel.L3_CACHE, PoolLevel.NUMA),
        ("n4c16", PoolLevel.NUMA, PoolLevel.NUMA),
        ("laptop", PoolLevel.NUMA, PoolLevel.PACKAGE),
        ("laptop", PoolLevel.SYSTEM, PoolLevel.PACKAGE),  # no wider one is there
    ],
)
def test_a_level_that_is_missing_is_the_next_wider_one(name: str, level: PoolLevel, expected: PoolLevel) -> None:
    """Or the widest that there is."""
    assert tree_of(name).nearest_level(level) is expected
