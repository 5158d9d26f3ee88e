"""Faster and slower CPUs."""

from dataclasses import replace

import pytest

from interpose.core.cpuallocator.priority import ORDER, CpuPriority, preference, priority_classes
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine

HIGH, NORMAL, LOW = CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW


def with_base(text: str, khz: dict[int, int]) -> Topology:
    """A machine whose CPUs have these base frequencies, all others 2 GHz."""
    topology = machine(text)
    return replace(topology, cpus=tuple(replace(cpu, base_khz=khz.get(cpu.id, 2_000_000)) for cpu in topology.cpus))


def test_cpus_that_are_alike_are_normal() -> None:
    """Also where the kernel does not tell frequencies."""
    for topology in (machine("n4c16"), with_base("n4c16", {})):
        assert priority_classes(topology) == {HIGH: EMPTY, NORMAL: topology.online, LOW: EMPTY}


def test_base_frequency_tells_classes() -> None:
    """Everything above the slowest of its package is high; another package is not compared."""
    topology = with_base("2 sockets x 4 cores", {1: 2_600_000, 2: 2_700_000})
    assert priority_classes(topology) == {
        HIGH: CpuSet.of([1, 2]),
        NORMAL: CpuSet.of(range(4, 8)),
        LOW: CpuSet.of([0, 3]),
    }


def test_an_unknown_frequency_tells_nothing() -> None:
    """Of none of its package."""
    assert priority_classes(with_base("1 socket x 4 cores", {1: 0}))[NORMAL] == CpuSet.of(range(4))


def test_the_kind_of_core_comes_before_frequency() -> None:
    """Efficiency cores may well have the higher base frequency."""
    topology = machine("hybrid")
    assert priority_classes(topology) == {HIGH: CpuSet.parse("0-7"), NORMAL: EMPTY, LOW: CpuSet.parse("8-15")}


@pytest.mark.parametrize(
    ("prefer", "better", "worse"),
    [
        (HIGH, (4, 0, 0), (5, 0, 0)),  # enough: the tighter fit
        (HIGH, (4, 0, 0), (3, 9, 9)),  # enough before too few
        (HIGH, (3, 0, 0), (2, 9, 9)),  # too few: the more the better
        (HIGH, (2, 3, 0), (2, 2, 9)),  # then the next class
        (HIGH, (2, 2, 3), (2, 2, 1)),
        (NORMAL, (9, 4, 0), (0, 5, 9)),
        (NORMAL, (9, 4, 2), (0, 4, 1)),  # lower classes before higher ones
        (NORMAL, (1, 4, 2), (2, 4, 2)),  # fewer of what is faster
        (LOW, (0, 5, 1), (1, 0, 1)),
        (LOW, (1, 4, 1), (1, 5, 1)),
    ],
)
def test_a_wish_compares_sets(prefer: CpuPriority, better: tuple[int, ...], worse: tuple[int, ...]) -> None:
    """By how many CPUs of each class they have, when four are wanted."""
    assert preference(prefer, better, 4) < preference(prefer, worse, 4)


def test_every_wish_ends_up_with_every_class() -> None:
    """So there are always enough; no wish, no order."""
    for prefer, order in ORDER.items():
        assert set(order) == (set() if prefer is CpuPriority.NONE else {HIGH, NORMAL, LOW})
