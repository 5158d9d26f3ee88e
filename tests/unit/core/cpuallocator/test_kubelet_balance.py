"""Shares of NUMA nodes."""

import pytest

from interpose.core.cpuallocator import kubelet as module
from interpose.core.cpuallocator.kubelet import Balance, Shares


def shares(nodes: tuple[int, ...], even: int, rest: int = 0, extra: tuple[int, ...] = ()) -> Shares:
    return Shares(nodes=nodes, even=even, rest=rest, extra=extra)


@pytest.mark.parametrize(
    ("free", "count", "group", "expected"),
    [
        ((8, 8), 4, 1, shares((0,), 4)),  # one node is enough
        ((4, 8), 4, 1, shares((1,), 4)),  # and more even afterwards if it is the other
        ((8, 8, 8), 10, 1, shares((0, 1), 5)),
        ((8, 8, 8), 11, 1, shares((0, 1), 5, 1, (0, 1))),
        ((8, 9, 8), 11, 1, shares((0, 1), 5, 1, (1,))),  # the rest from where more is left
        ((8, 2, 8), 10, 1, shares((0, 2), 5)),  # the second has too few
        ((3, 8), 9, 1, None),  # cannot be even
        ((8, 8), 12, 4, shares((0, 1), 4, 4, (0, 1))),
        ((7, 7), 12, 4, None),  # enough CPUs, but not in groups
        ((4, 4, 9), 12, 4, shares((0, 2), 4, 4, (2,))),
        ((5, 5, 9), 16, 4, shares((0, 1, 2), 4, 4, (2,))),  # only one has another group
    ],
)
def test_nodes_give_even_shares(free: tuple[int, ...], count: int, group: int, expected: Shares | None) -> None:
    """As few nodes as can; the first of those after which free CPUs differ least."""
    assert Balance(free=free, count=count, group=group).search(1, len(free)) == expected


def test_nodes_of_one_socket_are_better() -> None:
    """Even if others are more even, whichever comes first; shares may be smaller for it."""
    free, sockets = (8, 6, 8, 8), (0, 1, 1, 0)
    assert Balance(free=free, count=12).search(2, 4) == shares((0, 2), 6)
    assert Balance(free=free, count=12, sockets=sockets).search(2, 4) == shares((0, 3), 6)
    assert Balance(free=(9, 5, 9), count=12, sockets=(0, 1, 1)).search(2, 3) == shares((1, 2), 5, 2, (2,))


def test_a_node_that_runs_dry_is_skipped() -> None:
    """The others give on."""
    assert Balance(free=(1, 3, 9, 9), count=13, sockets=(0, 0, 0, 1)).search(3, 3) == shares((0, 1, 2), 1, 10, (1, 2))


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best so far counts, or nothing if there was none so far."""
    free = (9, 8, 8, 8, 8)
    assert Balance(free=free, count=18).search(3, 3) == shares((0, 1, 2), 6)
    monkeypatch.setattr(module, "MOST_TRIES", 2)
    assert Balance(free=(4, 9, 9, 9), count=16).search(2, 2) is None
    assert Balance(free=(9, 8, 5, 9), count=11).search(2, 2) == shares((0, 1), 5, 1, (0, 1))


@pytest.mark.parametrize(
    ("free", "count"),
    [
        ([3] * 64, 100),  # more sets than anyone can try
        ([20 - node % 7 for node in range(40)], 630),  # few sets, but more ways to take the rest than anyone can try
        ([20 - node % 7 for node in range(40)], 650),
    ],
)
def test_many_nodes_end(free: list[int], count: int) -> None:
    """Sooner or later; there may be nothing found."""
    search = Balance(free=free, count=count)
    search.search(30, len(free))
    assert search.tries < 2 * module.MOST_TRIES
