"""Which pool is the best for a container: every pool gets a rank, and the least rank wins.

A rank is a tuple of steps, compared in their order, of which each is a property of one pool alone. So the order is
total: of two pools one is always before the other, in whatever order they are looked at. Steps that end with the number
of the pool decide for good where they apply, and they apply to two pools that are equal so far either both or not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.topology_aware.hint_scores import HintScore
from interpose.core.policy.topology_aware.options import PoolLevel
from interpose.core.policy.topology_aware.pool_tree import TreePool
from interpose.core.policy.topology_aware.preferences import ContainerWish

MOST_CANDIDATES: Final = 8
_NO_STEP: Final = (0, 0)

Step = tuple[int | Fraction, ...]


class Fit(NamedTuple):
    """Whether a pool has the CPUs that a container wants, the best first."""

    rank: int
    text: str


ISOLATED: Final = Fit(0, "isolated CPUs")
SHARABLE: Final = Fit(1, "CPUs")
MISFIT: Final = Fit(2, "too few CPUs")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """The memory that a container would have in a pool; without `nodes` there is no room for it."""

    nodes: CpuSet
    exact: bool = True  # of the wanted kinds, and no others
    missing: int = 0  # wanted kinds that it has not
    capacity: int = 0  # bytes that the nodes of the pool have


NO_MEMORY_WISH: Final = MemoryFit(nodes=CpuSet())


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolScore:
    """What is known about a pool when a container looks for one."""

    pool: TreePool
    fit: Fit
    isolated: int = 0  # isolated CPUs that would be left
    shared: int = 0  # thousandths of shared CPUs that would be left; below 0: too few
    capacity: int = 0  # thousandths of shared CPUs that a container could use there
    priority: int = 0  # CPUs of the wanted priority that would be left
    containers: int = 0  # that are there already
    affinity: int = 0
    weight: float = 0  # the affinity as people know it
    hints: HintScore | None = None
    memory: MemoryFit | None = NO_MEMORY_WISH  # None: no room for it


class PoolRank(NamedTuple):
    """The steps of the comparison; the less, the better."""

    fit: Step
    affinity: Step
    hints: Step
    memory: Step
    burst: Step
    nodes: Step
    kinds: Step
    priority: Step
    depth: Step
    isolated: Step
    room: Step
    last: Step


# Why a pool was not taken, by the step that decided.
_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "fit": "it has fewer of the CPUs that are wanted",
        "affinity": "affinities are for the other one",
        "hints": "it is farther from the devices, or no nearer and wider",
        "memory": "its memory goes less well with what is wanted",
        "burst": "it is wider or narrower than suits the CPU limit, or that there is none",
        "nodes": "its memory would be spread over more nodes",
        "kinds": "it lacks a kind of memory",
        "priority": "it has too few CPUs of the priority that is wanted",
        "depth": "it is wider",
        "isolated": "it would have fewer isolated CPUs left",
        "room": "it would have fewer CPUs left",
        "last": "it has more containers, fewer CPUs left, or a higher number",
    }
)


def rank_pool(
    wish: ContainerWish, score: PoolScore, target: PoolLevel | None, limit: tuple[int, int | None]
) -> PoolRank:
    """The rank of a pool.

    `target` is the level for a container without CPU limit, as far as the tree has it; `limit` the memory that a
    container asks for and the memory that it may use.
    """
    pool, cpu = score.pool, wish.cpu
    lacks_priority = (int(bool(cpu.full) and score.priority < 0),)
    return PoolRank(
        fit=(score.fit.rank,),
        affinity=(-score.affinity,),
        hints=_hint_step(score),
        memory=_memory_step(score.memory, limit),
        burst=_burst_step(wish, score, target),
        nodes=(0 if score.memory is None else len(score.memory.nodes),),
        kinds=(0 if score.memory is None else score.memory.missing,),
        priority=lacks_priority,
        depth=(-pool.depth,),
        isolated=(-score.isolated, pool.id) if cpu.isolate and score.isolated > 0 else _NO_STEP,
        room=(-score.shared, pool.id) if cpu.full and score.shared > 0 else _NO_STEP,
        last=(score.containers, -score.shared, pool.id),
    )


def describe_candidates(
    ranked: Sequence[tuple[PoolRank, PoolScore]], free: CpuSet, wish: ContainerWish
) -> tuple[Candidate, ...]:
    """The first pools of those in order, the chosen one at the beginning, and why the others were not chosen."""
    best = ranked[0][0]
    return tuple(
        Candidate(
            name=score.pool.name,
            cpus=score.pool.cpus & free,
            score=_score_text(score, wish),
            chosen=rank is best and score.fit is not MISFIT,
            reason=_explain(rank, best, score),
        )
        for rank, score in ranked[:MOST_CANDIDATES]
    )


def _hint_step(score: PoolScore) -> Step:
    if score.hints is None or not score.hints.reachable:
        return 0, 0, 0, 0
    return -score.hints.product, -score.hints.reachable, -score.pool.depth, score.pool.id


def _memory_step(memory: MemoryFit | None, limit: tuple[int, int | None]) -> Step:
    if memory is None:
        return 1, 0, 0
    amount, most = limit
    too_small = most is not None and most != amount and memory.capacity < most
    return 0, int(not memory.exact), int(too_small)


def _burst_step(wish: ContainerWish, score: PoolScore, target: PoolLevel | None) -> Step:
    """A container with a limit above its request: where it can use so much; without a limit: the wanted level."""
    pool = score.pool
    if target is None:
        return int(wish.limit is not None and score.capacity < wish.limit), 0, 0
    if pool.level is target:
        return 0, -score.shared, pool.id
    return 1 + (pool.level.depth < target.depth), 0, pool.id


def _score_text(score: PoolScore, wish: ContainerWish) -> str:
    parts = [f"{score.shared}m left"]
    if wish.cpu.isolate and score.isolated >= 0:
        parts.insert(0, f"isolated CPUs left {score.isolated}")
    if score.affinity:
        parts.append(f"affinity {score.weight:g}")
    if score.hints is not None:
        parts.append(f"hints {float(score.hints.product):.2g}")
    if score.memory is not None and score.memory.nodes:
        parts.append(f"memory {score.memory.nodes}")
    parts.append("1 container" if score.containers == 1 else f"{score.containers} containers")
    return ", ".join(parts)


def _explain(rank: PoolRank, best: PoolRank, score: PoolScore) -> str:
    if score.fit is MISFIT:
        return MISFIT.text
    if rank is best:
        return "the best"
    return next(_REASONS[name] for name in PoolRank._fields if getattr(rank, name) != getattr(best, name))
