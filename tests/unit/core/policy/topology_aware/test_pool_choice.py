"""The order of pools: it is total, and each of its steps decides where those before it do not."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.topology_aware.choice import (
    ISOLATED,
    MISFIT,
    MOST_CANDIDATES,
    SHARABLE,
    MemoryFit,
    PoolScore,
    describe_candidates,
    rank_pool,
)
from interpose.core.policy.topology_aware.hint_scores import HintScore
from interpose.core.policy.topology_aware.options import PoolLevel
from interpose.core.policy.topology_aware.pool_tree import PoolTree
from interpose.core.policy.topology_aware.preferences import ContainerWish, CpuWish
from tests.support.policy.machines import machine

TREE = PoolTree.of(machine("n4c16"), machine("n4c16").online)
SHARES = ContainerWish(cpu=CpuWish(part=500, why=""))
OWNS = ContainerWish(cpu=CpuWish(full=2, why=""))
ISOLATES = ContainerWish(cpu=CpuWish(full=1, why="", isolate=True))
LIMITED = ContainerWish(cpu=CpuWish(part=500, why=""), limit=3000)
UNLIMITED = ContainerWish(cpu=CpuWish(part=500, why=""), level=PoolLevel.PACKAGE)


def score(pool: str, **more: Any) -> PoolScore:
    """A pool with enough of everything."""
    return PoolScore(**{"pool": TREE.by_name[pool], "fit": SHARABLE, "shared": 1000, **more})


def first(
    wish: ContainerWish,
    *scores: PoolScore,
    target: PoolLevel | None = None,
    limit: tuple[int, int | None] = (0, None),
) -> str:
    """The pool that wins, in whatever order they come."""
    winners = {
        min(order, key=lambda one: rank_pool(wish, one, target, limit)).pool.name for order in permutations(scores)
    }
    (winner,) = winners
    return winner


def test_a_pool_that_has_enough_wins() -> None:
    """Isolated CPUs before others, both before too few; although the last one is the narrowest."""
    assert first(ISOLATES, score("root", fit=ISOLATED), score("NUMA node #1")) == "root"
    assert first(OWNS, score("root"), score("NUMA node #1", fit=MISFIT)) == "root"


def test_affinity_decides_next() -> None:
    """The greater one, before everything but room."""
    near, far = score("root", affinity=5), score("NUMA node #1", affinity=-5)
    assert first(SHARES, near, far, score("NUMA node #0")) == "root"


def hints(product: Fraction, reachable: Fraction | None = None) -> HintScore:
    """The score of all hints."""
    return HintScore(product, product if reachable is None else reachable)


HALF, FULL, NONE = Fraction(1, 2), Fraction(1), Fraction(0)


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        (hints(FULL), hints(HALF), "root"),
        (hints(NONE, HALF), hints(NONE, FULL), "NUMA node #1"),
        (hints(HALF), hints(HALF), "NUMA node #1"),  # deeper
        (hints(NONE, NONE), hints(NONE, NONE), "NUMA node #1"),  # not decided here
    ],
)
def test_hints_decide_next(one: HintScore, other: HintScore, winner: str) -> None:
    """The product of all, then of those that are not nothing, then the depth."""
    assert first(SHARES, score("root", hints=one), score("NUMA node #1", hints=other)) == winner


def test_equal_hints_are_decided_for_good() -> None:
    """By depth and number, whatever memory the others have."""
    there, crowded = score("NUMA node #2", hints=hints(HALF)), score("NUMA node #1", hints=hints(HALF), memory=None)
    assert first(SHARES, there, crowded) == "NUMA node #1"


def memory(nodes: str = "0", **more: Any) -> MemoryFit:
    """The memory that a pool has for a container."""
    return MemoryFit(nodes=CpuSet.parse(nodes), **more)


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (None, memory()),  # no room
        (memory(exact=False), memory()),
        (memory(capacity=100), memory("0-3", capacity=200)),  # less than the limit
        (memory("0-1"), memory()),  # more nodes
        (memory(missing=1), memory()),
    ],
)
def test_memory_decides_next(worse: MemoryFit | None, better: MemoryFit) -> None:
    """Room, kinds, the limit of the container, how far it is spread."""
    one, other = score("NUMA node #1", memory=worse), score("root", memory=better)
    assert first(SHARES, one, other, limit=(50, 150)) == "root"


def test_a_memory_limit_that_is_the_request_does_not_count() -> None:
    """Then there is nothing beyond what memory was found for."""
    small, large = score("NUMA node #1", memory=memory(capacity=100)), score("root", memory=memory(capacity=900))
    assert first(SHARES, small, large, limit=(500, 500)) == "NUMA node #1"


def test_a_cpu_limit_is_where_so_much_can_be_used() -> None:
    """Of those with as much as that the narrowest."""
    scores = [
        score("NUMA node #1", capacity=2000),
        score("socket #0", capacity=3000),
        score("root", capacity=9000),
    ]
    assert first(LIMITED, *scores) == "socket #0"


def test_without_a_cpu_limit_the_level_decides() -> None:
    """The wanted one, there the one with more left; else a narrower one before a wider one."""
    target = PoolLevel.PACKAGE
    sockets = [score("socket #0", shared=100), score("socket #1", shared=200)]
    assert first(UNLIMITED, score("NUMA node #1"), *sockets, target=target) == "socket #1"
    assert first(UNLIMITED, score("NUMA node #1"), score("root"), target=target) == "NUMA node #1"
    assert first(UNLIMITED, score("NUMA node #2"), score("NUMA node #1"), target=target) == "NUMA node #1"


def test_cpus_of_the_wanted_priority_decide_next() -> None:
    """A pool that has too few of them loses, although it is narrower."""
    assert first(OWNS, score("NUMA node #1", priority=-1), score("root", priority=0)) == "root"
    assert first(SHARES, score("NUMA node #1", priority=-1), score("root", priority=0)) == "NUMA node #1"


def test_narrower_pools_win_then() -> None:
    """Whatever is left in wider ones."""
    assert first(OWNS, score("socket #0", shared=9000), score("NUMA node #1", shared=1)) == "NUMA node #1"


def test_of_equal_depth_more_that_is_left_wins() -> None:
    """Isolated CPUs if these are wanted, shared ones else; the lower number if it is the same."""
    one, other = score("NUMA node #0", isolated=1), score("NUMA node #1", isolated=2)
    assert first(ISOLATES, one, other) == "NUMA node #1"
    assert first(ISOLATES, one, replace(other, isolated=1, shared=5000)) == "NUMA node #0"
    assert first(OWNS, score("NUMA node #2", shared=2), score("NUMA node #3", shared=3)) == "NUMA node #3"
    crowded = score("NUMA node #0", containers=7)
    assert first(OWNS, score("NUMA node #1"), crowded) == "NUMA node #0"


def test_containers_that_share_are_spread() -> None:
    """Fewer containers, then more that is left, then the lower number."""
    busy, quiet = score("NUMA node #0", containers=1, shared=9000), score("NUMA node #1", shared=1)
    assert first(SHARES, busy, quiet) == "NUMA node #1"
    assert first(SHARES, score("NUMA node #2"), score("NUMA node #3", shared=2000)) == "NUMA node #3"
    assert first(SHARES, score("NUMA node #2"), score("NUMA node #3")) == "NUMA node #2"


scores = st.builds(
    score,
    st.sampled_from([pool.name for pool in TREE.pools]),
    fit=st.sampled_from((ISOLATED, SHARABLE, MISFIT)),
    isolated=st.integers(-2, 2),
    shared=st.integers(-2, 2),
    capacity=st.sampled_from((0, 5000)),
    priority=st.integers(-1, 1),
    containers=st.integers(0, 2),
    affinity=st.integers(-1, 1),
    hints=st.none() | st.builds(HintScore, st.sampled_from((NONE, HALF)), st.sampled_from((NONE, HALF, FULL))),
    memory=st.none() | st.builds(memory, st.sampled_from(("0", "0-1")), exact=st.booleans(), missing=st.integers(0, 1)),
)


@given(
    found=st.lists(scores, min_size=2, max_size=5, unique_by=lambda one: one.pool.id),
    wish=st.sampled_from((SHARES, OWNS, ISOLATES, LIMITED, UNLIMITED)),
)
def test_the_order_is_total(found: list[PoolScore], wish: ContainerWish) -> None:
    """Two pools are never equal: one is always before the other."""
    target = PoolLevel.PACKAGE if wish is UNLIMITED else None
    ranks = [rank_pool(wish, one, target, (0, None)) for one in found]
    assert len(set(ranks)) == len(ranks)


def test_candidates_say_why_they_were_not_chosen() -> None:
    """By the first step in which they differ; a bounded number of them."""
    wish = ContainerWish(cpu=CpuWish(full=1, why="", isolate=True))
    listed = [
        score("NUMA node #1", isolated=1, containers=1, memory=memory("1"), hints=hints(HALF), affinity=4, weight=1.5),
        score("NUMA node #0", isolated=1, memory=memory("0"), hints=hints(HALF), affinity=4, weight=1.5),
        score("root", memory=memory("0-3")),
        score("socket #1", fit=MISFIT, shared=-3000, memory=None),
    ]
    ranked = [(rank_pool(wish, one, None, (0, None)), one) for one in listed]
    found = describe_candidates(ranked, CpuSet.parse("4-5"), wish)
    assert [(one.name, str(one.cpus), one.chosen) for one in found] == [
        ("NUMA node #1", "4-5", True),
        ("NUMA node #0", "", False),
        ("root", "4-5", False),
        ("socket #1", "", False),
    ]
    assert found[0].score == "isolated CPUs left 1, 1000m left, affinity 1.5, hints 0.5, memory 1, 1 container"
    assert found[3].score == "isolated CPUs left 0, -3000m left, 0 containers"
    assert [one.reason for one in found] == [
        "the best",
        "it is farther from the devices, or no nearer and wider",
        "affinities are for the other one",
        "too few CPUs",
    ]
    assert len(describe_candidates(ranked * 9, EMPTY, wish)) == MOST_CANDIDATES


def test_nothing_is_chosen_of_pools_that_have_too_little() -> None:
    """They are listed all the same."""
    listed: Mapping[str, PoolScore] = {"root": score("root", fit=MISFIT)}
    ranked = [(rank_pool(OWNS, one, None, (0, None)), one) for one in listed.values()]
    (found,) = describe_candidates(ranked, EMPTY, OWNS)
    assert (found.chosen, found.reason) == (False, "too few CPUs")
