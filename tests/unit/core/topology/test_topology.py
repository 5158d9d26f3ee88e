"""What a topology derives from its fields."""

from dataclasses import replace

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.topology import MemoryKind, NumaNode, Topology
from tests.support.policy.machines import machine


def test_sets_by_part() -> None:
    """Every part has its CPUs."""
    found = machine("n4c16")
    assert [str(cpus) for cpus in found.packages.values()] == ["0-7", "8-15"]
    assert [str(cpus) for cpus in found.dies.values()] == ["0-7", "8-15"]
    assert [str(cpus) for cpus in found.numa.values()] == ["0-3", "4-7", "8-11", "12-15"]
    assert [str(cpus) for cpus in found.l3_groups.values()] == ["0-7", "8-15"]
    assert found.l2_groups == found.cores
    assert found.threads_per_core == 2


def test_a_machine_without_cpus_has_nothing() -> None:
    """And one thread per core, so that nobody divides by zero."""
    found = Topology(cpus=(), nodes=())
    assert (found.online, found.cores, found.threads_per_core) == (EMPTY, {}, 1)


def test_siblings_nodes_and_packages_of_cpus() -> None:
    """CPUs that the machine has not do not count."""
    found, some = machine("n4c16"), CpuSet.parse("3,5,99")
    assert str(found.with_siblings(some)) == "2-5"
    assert (str(found.nodes_of(some)), str(found.packages_of(some))) == ("0-1", "0")


def test_memory_is_near_where_the_cpus_are() -> None:
    """Persistent memory is not ordinary."""
    assert str(machine("server").memory_near(CpuSet.parse("0-1"))) == "0-1"


def test_cpus_of_a_node_without_memory_use_the_nearest() -> None:
    """Of several that are as near, the one with the lowest number."""
    found = machine("n4c16")
    bare = replace(found.nodes[3], memory_bytes=0, memory=MemoryKind.NONE)
    assert str(replace(found, nodes=(*found.nodes[:3], bare)).memory_near(CpuSet.of([15]))) == "2"
    lone = NumaNode(id=3, memory=MemoryKind.NONE, distances={3: 10})
    assert str(replace(found, nodes=(*found.nodes[:3], lone)).memory_near(CpuSet.of([15]))) == "0"


def test_movable_memory_comes_with_the_nearest_that_the_kernel_can_use() -> None:
    """Bound to movable memory alone a process dies: the kernel's own pages for it have to be somewhere."""
    found = machine("n4c16")
    movable = [replace(node, movable=True) for node in found.nodes]
    some = replace(found, nodes=(found.nodes[0], *movable[1:3], found.nodes[3]))
    assert str(some.memory_near(CpuSet.parse("4"))) == "0-1"
    assert str(some.memory_near(CpuSet.parse("8"))) == "2-3"
    assert str(some.memory_near(CpuSet.parse("0,4"))) == "0-1"
    assert str(replace(found, nodes=tuple(movable)).memory_near(CpuSet.parse("8"))) == "2"


def test_a_machine_without_memory_has_none_near() -> None:
    """Nothing is made up."""
    assert machine("2n; memory 0").memory_near(CpuSet.of([0])) == EMPTY


def test_the_fingerprint_is_that_of_the_machine() -> None:
    """Not of its name or frequencies; an offline CPU makes another machine of it."""
    found = machine("n4c16")
    cpus = tuple(replace(cpu, max_khz=1) for cpu in found.cpus)
    assert replace(found, cpus=cpus, name="other").fingerprint == found.fingerprint
    assert machine("2p2n2c2t; offline 3").fingerprint != found.fingerprint
    assert machine("2p2n2c2t; isolated 3").fingerprint != found.fingerprint
