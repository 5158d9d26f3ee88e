"""Whether amounts fit into nodes that they share."""

import pytest

from interpose.core.memoryallocator.shortage import MemoryShortage, find_shortage

A, B, C = 1, 2, 4


@pytest.mark.parametrize(
    ("capacities", "demand", "zone", "amount", "expected"),
    [
        ({A: 4}, {}, A, 4, None),
        ({A: 4}, {}, A, 5, MemoryShortage(1, A)),
        ({A: 4}, {A: 3}, A, 3, MemoryShortage(2, A)),
        # Over both nodes.
        ({A: 4, B: 4}, {}, A | B, 8, None),
        ({A: 4, B: 4}, {A: 1}, A | B, 8, MemoryShortage(1, A | B)),
        # Who can use another node goes there.
        ({A: 4, B: 4}, {A | B: 4}, A, 4, None),
        ({A: 4, B: 4}, {A | B: 5}, A, 4, MemoryShortage(1, A | B)),
        # Over two others: B makes room for A, C for B.
        ({A: 4, B: 4, C: 4}, {A | B: 4, B | C: 4}, A, 4, None),
        ({A: 4, B: 4, C: 4}, {A | B: 4, B | C: 4, C: 2}, A, 4, MemoryShortage(2, A | B | C)),
        # No zone has more than its nodes have, but together they do.
        ({A: 4, B: 4, C: 4}, {A | B: 7}, B | C, 7, MemoryShortage(2, A | B | C)),
        # Only part of what is in the way can go.
        ({A: 4, B: 4, C: 1}, {A | C: 3, A: 1}, A | B, 5, None),
        ({A: 4, B: 2, C: 1}, {A | C: 3, A: 1}, A | B, 7, MemoryShortage(4, A | B | C)),
    ],
)
def test_what_fits_and_what_is_missing_where(
    capacities: dict[int, int], demand: dict[int, int], zone: int, amount: int, expected: MemoryShortage | None
) -> None:
    """By hand: the bottleneck has all whose memory could have been used, and nothing else."""
    assert find_shortage(capacities, demand, zone, amount) == expected


def test_a_shortage_elsewhere_does_not_count() -> None:
    """Node A was short before, and who comes to B is not the reason."""
    assert find_shortage({A: 1, B: 4}, {A: 3}, B, 4) is None
    assert find_shortage({A: 1, B: 4}, {A: 3}, A | B, 4) is None
    assert find_shortage({A: 1, B: 4}, {A: 3}, A | B, 5) == MemoryShortage(1, A | B)


def test_who_could_go_several_ways_goes_as_far_as_is_needed() -> None:
    """Room for A comes from two that share it, each with a node of its own."""
    assert find_shortage({A: 4, B: 2, C: 2}, {A | B: 2, A | C: 2}, A, 4) is None
    # Once what shares A with B has gone to B it is in nobody's way: the bottleneck is the rest.
    assert find_shortage({A: 4, B: 2, C: 1}, {A | B: 2, A | C: 2}, A, 4) == MemoryShortage(1, A | C)
