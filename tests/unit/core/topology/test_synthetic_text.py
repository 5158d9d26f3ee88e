"""Machines in words."""

import pytest

from interpose.core.topology.synthetic import parse_text
from interpose.core.topology.topology import CoreKind, MemoryKind, Topology


def parts(topology: Topology) -> tuple[int, ...]:
    """How many packages, dies, nodes, cores and CPUs."""
    return (
        len(topology.packages),
        len(topology.dies),
        len(topology.numa),
        len(topology.cores),
        len(topology.cpus),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 sockets x 2 numa x 8 cores x 2 threads", (2, 2, 4, 32, 64)),
        ("2 threads * 8 cores * 2 packages", (2, 2, 2, 16, 32)),
        ("1 socket, 2 dies, 2 NUMA nodes, 1 core", (1, 2, 4, 4, 4)),
        ("2 packages × 3 nodes", (2, 2, 6, 6, 6)),
        ("2sockets x2cores", (2, 2, 2, 4, 4)),
        ("2p1d2n4c2t", (2, 2, 4, 16, 32)),
        (" 4C2T ", (1, 1, 1, 4, 8)),
    ],
)
def test_counts(text: str, expected: tuple[int, ...]) -> None:
    """Each is per part of the next larger kind; any order, several signs, one if left out."""
    found = parse_text(text)
    assert parts(found) == expected
    assert found.name == text.strip()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not a part of a machine"),
        ("sockets", "'sockets' is not a part of a machine: expected a number from 1 to 9999 and one of sockets"),
        ("2 sockets x 3 wheels", "'3 wheels' is not a part"),
        ("2 sockets x", "'' is not a part"),
        ("0 cores", "'0 cores' is not a part"),
        ("2p0c", "'0c' is not a part"),
        ("12345c", "'12345c' is not a part"),
        ("2 sockets x 1 package", "'1 package': packages were given before"),
        ("2p2p", "'2p': packages were given before"),
        ("9999 cores", "from 1 to 8192 CPUs, this one has 9999"),
        ("2000 nodes", "at most 1024 NUMA nodes, this one has 2000"),
        ("2 cores; turbo", "'turbo': expected one of isolated, offline"),
        ("2 cores;", "'': expected one of"),
        ("2 cores; interleaved; sequential", "'sequential': interleaved was given before"),
        ("2 cores; interleaved 3", "'interleaved 3': expected nothing after the word, found '3'"),
        ("2 cores; sequential 3", "'sequential 3': expected nothing"),
        ("2 cores; isolated", "'isolated': expected a list of CPUs such as 3,7-9"),
        ("2 cores; isolated a", "'isolated a': 'a' is not a list of CPUs"),
        ("2 cores; isolated 2", "isolated has CPUs 2, but the machine has 0-1"),
        ("2 cores; offline 0-1", "all CPUs are offline"),
        ("2 cores; memory lots", "'memory lots': 'lots' is not a quantity"),
        ("2 cores; memory -1", "'memory -1': '-1' is below zero"),
        ("2 cores; l3 all", "'l3 all': expected how many cores share a cache"),
        ("2 cores; l3 0 cores", "'l3 0 cores': expected how many cores"),
        ("c" * 2000, "has more than 1024 characters"),
    ],
)
def test_what_is_no_machine_is_refused_with_the_word(text: str, problem: str) -> None:
    """And what was expected."""
    with pytest.raises(ValueError, match=problem):
        parse_text(text)


def test_threads_are_next_to_each_other_unless_said_otherwise() -> None:
    """As virtual machines number them; servers number one thread of each core first."""
    near, far = parse_text("2p2n2c2t; sequential"), parse_text("2p2n2c2t; interleaved")
    assert [str(near.core_of(cpu)) for cpu in (0, 15)] == ["0-1", "14-15"]
    assert [str(far.core_of(cpu)) for cpu in (0, 15)] == ["0,8", "7,15"]
    assert [str(cpus) for cpus in near.numa.values()] == ["0-3", "4-7", "8-11", "12-15"]
    assert [str(cpus) for cpus in far.numa.values()] == ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]


def test_additions() -> None:
    """All that can be said behind the counts."""
    found = parse_text("4c2t; isolated 2-5; OFFLINE 4; memory 64Gi; l3  2 Cores; efficiency 6,7")
    assert (str(found.isolated), str(found.offline), str(found.online)) == ("2-3,5", "4", "0-3,5-7")
    assert [node.memory_bytes for node in found.nodes] == [64 << 30]
    assert {first: str(cpus) for first, cpus in found.l3_groups.items()} == {0: "0-3", 5: "5-7"}
    assert [cpu.id for cpu in found.cpus if cpu.kind is CoreKind.EFFICIENCY] == [6, 7]


def test_a_machine_may_be_without_memory() -> None:
    """Then its nodes say so."""
    assert [node.memory for node in parse_text("2n; memory 0").nodes] == [MemoryKind.NONE] * 2
