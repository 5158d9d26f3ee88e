"""Machines are taken apart as they are put together."""

from dataclasses import replace

from interpose.cli.render.machine import MachinePart, cores_in, parts_of, remarks, summary
from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.topology import Cache, MemoryKind, NumaNode, Topology
from tests.support.policy.machines import machine


def outline(parts: tuple[MachinePart, ...]) -> list[object]:
    """Titles and what is inside."""
    return [(part.title, str(part.cpus), *([outline(part.parts)] if part.parts else [])) for part in parts]


def test_packages_hold_nodes() -> None:
    """The ordinary server."""
    assert outline(parts_of(machine("n4c16"))) == [
        ("package 0", "0-7", [("NUMA node 0", "0-3"), ("NUMA node 1", "4-7")]),
        ("package 1", "8-15", [("NUMA node 2", "8-11"), ("NUMA node 3", "12-15")]),
    ]


def test_parts_with_the_same_cpus_are_one() -> None:
    """A package that is a node is one line and one box."""
    assert outline(parts_of(machine("laptop"))) == [("package 0, NUMA node 0", "0-1")]


def test_caches_of_their_own_are_parts() -> None:
    """Chiplets; their size is in the title if it is known."""
    topology = machine("1 socket x 4 cores; l3 2 cores")
    assert outline(parts_of(topology)) == [("package 0, NUMA node 0", "0-3", [("L3", "0-1"), ("L3", "2-3")])]
    sized = replace(topology, caches=(Cache(level=3, kind="unified", size_bytes=1 << 25, cpus=CpuSet.parse("2-3")),))
    assert [part.title for part in parts_of(sized)[0].parts] == ["L3", "L3 32 MiB"]


def test_a_cache_of_a_whole_part_is_a_fact_about_it() -> None:
    """Beside its memory."""
    topology = machine("1 socket x 2 cores; memory 8Gi")
    cache = Cache(level=3, kind="unified", size_bytes=1 << 25, cpus=CpuSet.parse("0-1"))
    [part] = parts_of(replace(topology, caches=(cache,)))
    assert part.facts == ("8 GiB", "L3 32 MiB")


def test_dies_are_parts_where_packages_have_several() -> None:
    """And are counted."""
    topology = machine("1p2d1n2c1t")
    assert outline(parts_of(topology)) == [
        ("package 0", "0-3", [("die 0, NUMA node 0", "0-1"), ("die 1, NUMA node 1", "2-3")])
    ]
    assert "2 dies" in summary(topology)


def test_a_node_may_hold_packages() -> None:
    """As in virtual machines."""
    topology = machine("2 sockets x 2 cores")
    joined = Topology(
        cpus=tuple(replace(cpu, node=0) for cpu in topology.cpus),
        nodes=(NumaNode(id=0, cpus=topology.online, memory_bytes=0, distances={0: 10}),),
    )
    [part] = parts_of(joined)
    assert (part.title, part.facts) == ("NUMA node 0", ("no memory",))
    assert outline(part.parts) == [("package 0", "0-1"), ("package 1", "2-3")]


def test_what_overlaps_halfway_is_left_out() -> None:
    """A cache across two packages is not drawn anywhere."""
    topology = machine("2 sockets x 2 cores")
    odd = Topology(
        cpus=tuple(replace(cpu, l3=1 if cpu.id in (1, 2) else -1) for cpu in topology.cpus), nodes=topology.nodes
    )
    assert outline(parts_of(odd)) == outline(parts_of(topology))


def test_cpus_outside_of_inner_parts_have_a_part_too() -> None:
    """Otherwise they would be missing in pictures."""
    topology = machine("1 socket x 4 cores")
    odd = replace(topology, cpus=tuple(replace(cpu, l3=0 if cpu.id < 2 else -1) for cpu in topology.cpus))
    assert outline(parts_of(odd)[0].parts) == [("L3", "0-1"), ("other cores", "2-3")]


def test_kinds_of_cores_are_parts() -> None:
    """Unless a part has one kind only."""
    assert outline(parts_of(machine("hybrid"))) == [
        ("package 0, NUMA node 0", "0-15", [("performance cores", "0-7"), ("efficiency cores", "8-15")])
    ]
    [_, small] = parts_of(machine("2 sockets x 2 cores; efficiency 2-3"))
    assert small.facts[-1] == "efficiency cores"
    assert small.parts == ()


def test_memory_without_cpus_comes_last() -> None:
    """With its kind."""
    topology = machine("laptop")
    slow = NumaNode(id=1, memory_bytes=1 << 40, memory=MemoryKind.PMEM, distances={0: 17, 1: 10})
    last = parts_of(replace(topology, nodes=(*topology.nodes, slow)))[-1]
    assert (last.title, last.facts) == ("NUMA node 1", ("1024 GiB PMEM", "no CPUs"))


def test_memory_that_the_kernel_does_not_use_is_marked() -> None:
    """Who is bound to it alone cannot live there."""
    topology = machine("laptop")
    slow = NumaNode(id=1, memory_bytes=1 << 30, memory=MemoryKind.PMEM, movable=True, distances={0: 17, 1: 10})
    assert parts_of(replace(topology, nodes=(*topology.nodes, slow)))[-1].facts[0] == "1 GiB PMEM, movable"


def test_the_summary_counts() -> None:
    """Memory only if it is known."""
    assert summary(machine("2 sockets x 2 numa x 2 cores x 2 threads; memory 4Gi")) == (
        "2 packages, 4 NUMA nodes, 8 cores, 16 CPUs, 16 GiB"
    )
    unknown = replace(machine("laptop"), nodes=())
    assert summary(unknown) == "1 package, 0 NUMA nodes, 2 cores, 2 CPUs"


def test_remarks_are_made_where_there_is_something() -> None:
    """Isolated and offline CPUs."""
    assert list(remarks(machine("laptop"))) == []
    found = {what: str(cpus) for what, cpus in remarks(machine("1 socket x 4 cores; isolated 1; offline 3"))}
    assert found == {"isolated": "1", "offline": "3"}


def test_cores_are_listed_with_the_threads_asked_for() -> None:
    """In order of cores."""
    assert [str(core) for core in cores_in(machine("smt8"), CpuSet.parse("0,4,1"))] == ["0,4", "1"]
