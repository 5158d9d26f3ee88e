"""How many CPUs each pool has."""

import pytest

from interpose.core.policy.dynamic_pools.sizes import is_worth_moving, sizes_after_change, sizes_by_load


def sizes(*numbers: int) -> dict[str, int]:
    """By pool: shared, a, b."""
    return dict(zip(("shared", "a", "b"), numbers, strict=True))


@pytest.mark.parametrize(
    ("needs", "before", "total", "expected"),
    [
        # Nothing is missing: all stay, the sizes by load too.
        (sizes(1, 2, 3), sizes(4, 5, 6), 15, sizes(4, 5, 6)),
        # A pool without containers is 0 already: what it had is for the first.
        (sizes(0, 0, 3), sizes(4, 0, 6), 15, sizes(9, 0, 6)),
        # Pool shared gives what it has to spare.
        (sizes(1, 7, 3), sizes(4, 5, 6), 15, sizes(2, 7, 6)),
        # Then the one with most to spare.
        (sizes(3, 8, 2), sizes(4, 5, 6), 15, sizes(3, 8, 4)),
        (sizes(4, 1, 6), sizes(4, 6, 5), 15, sizes(4, 5, 6)),
        # All CPUs are needed.
        (sizes(0, 8, 7), sizes(15, 0, 0), 15, sizes(0, 8, 7)),
        # CPUs went offline.
        (sizes(1, 2, 3), sizes(4, 5, 6), 8, sizes(1, 3, 4)),
    ],
)
def test_requests_move_as_few_cpus_as_possible(
    needs: dict[str, int], before: dict[str, int], total: int, expected: dict[str, int]
) -> None:
    """What is missing comes from where it is not needed."""
    assert sizes_after_change(needs, before, total) == expected


@pytest.mark.parametrize(
    ("needs", "weights", "expected"),
    [
        # Nobody works: pool shared has what nobody needs.
        (sizes(0, 2, 3), sizes(0, 0, 0), sizes(10, 2, 3)),
        # 10 are free; a has a third of the load.
        (sizes(0, 2, 3), sizes(0, 100, 200), sizes(0, 5, 10)),
        # Shares are rounded off, and the rest goes to the heaviest.
        (sizes(0, 2, 3), sizes(1, 100, 99), sizes(0, 8, 7)),
        (sizes(1, 2, 3), sizes(100, 100, 100), sizes(4, 5, 6)),
        (sizes(5, 5, 5), sizes(1, 900, 1), sizes(5, 5, 5)),
    ],
)
def test_what_is_left_follows_the_load(
    needs: dict[str, int], weights: dict[str, int], expected: dict[str, int]
) -> None:
    """Nobody loses what is needed, and all CPUs are given."""
    assert sizes_by_load(needs, weights, 15) == expected


@pytest.mark.parametrize(
    ("after", "loads", "expected"),
    [
        (sizes(5, 5, 5), {"shared": 5.0, "a": 5.0, "b": 5.0}, False),
        (sizes(4, 6, 5), {"shared": 0.0, "a": 4.4, "b": 0.0}, False),
        (sizes(4, 6, 5), {"shared": 0.0, "a": 4.5, "b": 0.0}, True),
        (sizes(4, 6, 5), {"shared": 0.0, "a": 0.0, "b": 5.0}, False),
        (sizes(3, 6, 6), {"shared": 0.0, "a": 0.0, "b": 0.0}, True),
        (sizes(3, 7, 5), {"shared": 0.0, "a": 0.0, "b": 0.0}, True),
    ],
)
def test_a_single_cpu_moves_only_where_it_is_missing(
    after: dict[str, int], loads: dict[str, float], expected: bool
) -> None:
    """Of five, who uses nine tenths has too few."""
    assert is_worth_moving(sizes(5, 5, 5), after, loads) is expected
