"""Where a balloon grows and shrinks on a machine of two packages of two nodes of two cores of two threads."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.cpu_levels import CpuLevels, parts_of_level, touched
from interpose.core.policy.balloons.options import ShareLevel
from tests.support.policy.machines import machine

N4C16 = machine("n4c16")
LEVELS = CpuLevels.of(N4C16)


def mask(text: str) -> int:
    """The mask of CPUs."""
    return CpuSet.parse(text).mask


@pytest.mark.parametrize(
    ("count", "group"),
    [(1, "0"), (2, "0-1"), (3, "0-3"), (4, "0-3"), (5, "0-7"), (8, "0-7"), (9, "0-15")],
)
def test_the_narrowest_group_with_enough_is_found(count: int, group: str) -> None:
    """A CPU, a core, a node, a package, the machine; of several the first."""
    assert LEVELS.find_group(mask("0-15"), 0, count, balance=False) == mask(group)


def test_packing_takes_where_the_least_is_free() -> None:
    """Package 0 has fewer free CPUs than the other, and in it node 0, and in that the second core."""
    assert LEVELS.find_group(mask("2-15"), 0, 1, balance=False) == mask("2")


def test_balancing_takes_where_the_most_is_free() -> None:
    """Package 1 is all free; of its nodes, cores and CPUs, which are alike, the first."""
    assert LEVELS.find_group(mask("2-15"), 0, 1, balance=True) == mask("8")


def test_a_balloon_grows_where_it_is() -> None:
    """Next to CPU 8 on the same core, although less is free in package 0."""
    assert LEVELS.find_group(mask("2-7,9-15"), mask("8"), 1, balance=False) == mask("9")


def test_where_most_of_it_is_counts_before_what_is_free() -> None:
    """Two CPUs in node 1, one in node 0: it grows in node 1."""
    assert LEVELS.find_group(mask("1-3,6-7"), mask("0,4-5"), 2, balance=False) == mask("6-7")


def test_the_cpu_to_leave_is_where_the_least_of_it_is() -> None:
    """One of three is in another package."""
    own = mask("0-1,8")
    assert LEVELS.find_leaving(own, 0, own) == mask("8")


def test_the_cpu_to_leave_is_where_less_is_free_then_the_last() -> None:
    """Both nodes have two of its CPUs, and only around the first ones there are free ones."""
    own = mask("0-1,4-5")
    assert LEVELS.find_leaving(own, mask("2-3"), own) == mask("5")


def test_first_threads_come_before_second_ones() -> None:
    """All first threads of a node, then all second ones."""
    threads, taken = CpuLevels.of_threads(N4C16), 0
    order = []
    for _ in range(4):
        taken |= (group := threads.find_group(mask("0-3") & ~taken, taken, 1, balance=False))
        order.append(str(CpuSet(group)))
    assert order == ["0", "2", "1", "3"]


@pytest.mark.parametrize(
    ("level", "found"),
    [
        (ShareLevel.SYSTEM, "0-15"),
        (ShareLevel.PACKAGE, "0-7"),
        (ShareLevel.DIE, "0-7"),
        (ShareLevel.NUMA, "4-7"),
        (ShareLevel.L2_CACHE, "4-5"),
        (ShareLevel.CORE, "4-5"),
        (ShareLevel.THREAD, "5"),
    ],
)
def test_elements_of_a_level_around_a_cpu(level: ShareLevel, found: str) -> None:
    """Every level has one around CPU 5."""
    assert touched(parts_of_level(N4C16, level), mask("5")) == mask(found)
