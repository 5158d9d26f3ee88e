"""Cores and parts of them."""

from collections import Counter

import pytest

from interpose.core.cpuallocator.allocator import count_groups_needed, fill, split_cores
from interpose.core.model.cpuset import CpuSet

# Cores 0-1, 2-3, and so on.
PAIRS = [0b11 << (2 * core) for core in range(4)]
# Cores of four.
FOURS = [0b1111 << (4 * core) for core in range(3)]


@pytest.mark.parametrize(
    ("cores", "pool", "must", "count", "expected"),
    [
        (PAIRS, "0-7", "", 2, "0-1"),
        (PAIRS, "1-7", "", 2, "2-3"),  # the idle core
        (PAIRS, "1-7", "", 1, "1"),  # the core in use
        (PAIRS, "0-7", "", 3, "0-2"),  # nothing but idle ones: one is broken
        (PAIRS, "0-4,6-7", "", 3, "0-1,4"),
        (PAIRS, "1,3,5", "", 2, "1,3"),  # no idle core
        (PAIRS, "0-7", "5", 2, "4-5"),  # the sibling first
        (PAIRS, "0-7", "5", 4, "0-1,4-5"),
        (PAIRS, "0-7", "1,5", 3, "0-1,5"),
        (PAIRS, "0-7", "1-2", 2, "1-2"),
        (FOURS, "0-11", "", 6, "0-5"),
        (FOURS, "0-3,6-7,8-10", "", 3, "8-10"),  # the tightest of those in use
        (FOURS, "0-3,6-7,9", "", 3, "0-2"),  # an idle one rather than two in use
        (FOURS, "1,6-7,9-11", "", 4, "1,9-11"),  # the largest first, then the one that fits
        (FOURS, "2-3,6-7,9-11", "", 6, "2-3,6,9-11"),
    ],
)
def test_cores_are_filled(cores: list[int], pool: str, must: str, count: int, expected: str) -> None:
    """Whole ones first, then what others left."""
    taken = fill(cores, CpuSet.parse(pool).mask, CpuSet.parse(must).mask, count)
    assert CpuSet(taken) == CpuSet.parse(expected)


def test_larger_idle_cores_come_first() -> None:
    """And the smallest that will do for what is missing."""
    assert fill([0b1, 0b110, 0b11000], 0b11111, 0, 3) == 0b111
    assert fill([0b1111, 0b1110000], 0b1111111, 0, 2) == 0b110000


@pytest.mark.parametrize(
    ("cores", "count", "expected"),
    [
        ([(2, 2), (2, 2)], 4, (0, 0)),
        ([(2, 2), (2, 2)], 3, (1, 1)),
        ([(2, 2), (1, 2)], 3, (1, 0)),
        ([(1, 2), (1, 2), (2, 2)], 4, (2, 0)),
        ([(2, 4), (1, 4), (4, 4)], 3, (1, 1)),
        ([(1, 1), (2, 2)], 3, (0, 0)),
        ([(0, 2), (1, 2), (1, 4), (3, 4), (3, 4)], 7, (3, 0)),
        ([(1, 2), (2, 4), (3, 4)], 4, (2, 0)),
    ],
)
def test_split_and_broken_cores_are_counted(
    cores: list[tuple[int, int]], count: int, expected: tuple[int, int]
) -> None:
    """As `fill` would take them."""
    assert split_cores(Counter(cores), count) == expected


def test_the_largest_are_counted() -> None:
    """Until there are enough."""
    assert [count_groups_needed([4, 4, 1], count) for count in (1, 4, 5, 9)] == [1, 1, 2, 3]
