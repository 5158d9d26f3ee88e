"""Sets as numbers."""

from interpose.core.cpuallocator.bitmask import compute_once, iterate_bits, lowest_bits, lowest_index
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine


def test_the_lowest_bits_are_taken() -> None:
    """So many, or all if there are not more."""
    assert lowest_bits(0b110110, 2) == 0b110
    assert lowest_bits(0b110110, 4) == 0b110110
    assert lowest_bits(0b110110, 9) == 0b110110
    assert lowest_bits(0b110110, 0) == 0


def test_bits_come_one_by_one() -> None:
    """The lowest bit comes first."""
    assert list(iterate_bits(0b1010010)) == [0b10, 0b10000, 0b1000000]
    assert lowest_index(0b1010000) == 4


def test_what_is_made_of_a_topology_is_made_once() -> None:
    """For each topology, also for one that is equal to another; a topology compares as before."""
    asked: list[Topology] = []

    def cpus(topology: Topology) -> int:
        asked.append(topology)
        return len(topology.cpus)

    one, other = machine("smt8"), machine("smt8")
    assert [compute_once(one, cpus), compute_once(one, cpus), compute_once(other, cpus)] == [8, 8, 8]
    assert len(asked) == 2
    assert one == other
