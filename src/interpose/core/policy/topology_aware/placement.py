"""Finding a pool and CPUs for a container: where it is already if that is possible, else in the best pool.

Nothing is taken here: the supply is as before when a call returns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heappop, heappush
from typing import Final, NamedTuple

from interpose.core.cpuallocator.allocator import take
from interpose.core.cpuallocator.cost import Candidate
from interpose.core.cpuallocator.priority import CpuPriority, priority_classes
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.request import Request
from interpose.core.policy.topology_aware.affinity import affinity_scores, shown_score
from interpose.core.policy.topology_aware.choice import (
    ISOLATED,
    MISFIT,
    NO_MEMORY_WISH,
    SHARABLE,
    Fit,
    MemoryFit,
    PoolRank,
    PoolScore,
    describe_candidates,
    rank_pool,
)
from interpose.core.policy.topology_aware.hint_scores import hint_cpus, hint_scores, pod_resource_hints
from interpose.core.policy.topology_aware.memory_zones import MemoryZones, memory_amount
from interpose.core.policy.topology_aware.pool_tree import PoolTree, TreePool
from interpose.core.policy.topology_aware.preferences import ContainerWish
from interpose.core.policy.topology_aware.supply import CpuSupply
from interpose.core.topology.topology import Topology

_MILLI: Final = 1000


class CpuSource(StrEnum):
    """What a container has its CPUs of."""

    POOL = "pool"
    RESERVED = "reserved"  # the reserved CPUs
    SPILLED = "spilled"  # no pool has a CPU to share: the reserved ones, and those of the widest pool if there are some
    PRESERVED = "preserved"  # its own choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The pool of a container, its own CPUs, and what it uses of the shared ones."""

    pool: TreePool
    source: CpuSource = CpuSource.POOL
    cpus: CpuSet = EMPTY
    milli: int = 0
    reason: str = ""
    candidates: tuple[Candidate, ...] = ()

    def booking(self, milli: int) -> "Placement":
        """The same place with so much booked; who shares CPUs of a pool uses a thousandth at least."""
        least = int(self.source is CpuSource.POOL and not self.cpus)
        return replace(self, milli=max(least, milli))


@dataclass(frozen=True, slots=True, kw_only=True)
class Misplacement:
    """Why there is no place for a container."""

    message: str
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPlace:
    """Where a container is already; CPUs that others have are left out."""

    pool: TreePool
    cpus: CpuSet = EMPTY


class _Ranked(NamedTuple):
    """A pool in the order of ranks. The memory of those that are `asked` is what they really offer."""

    rank: PoolRank
    score: PoolScore
    asked: bool = False


class PlaceFinder:
    """Finds places of containers in pools; `weights` of a call are those of affinities by pool."""

    def __init__(self, topology: Topology, tree: PoolTree, supply: CpuSupply, zones: MemoryZones | None) -> None:
        self._topology = topology
        self._tree = tree
        self._supply = supply
        self._zones = zones
        self._classes = priority_classes(topology)

    # -- staying

    def keep(self, wish: ContainerWish, held: HeldPlace) -> Placement | None:
        """The same pool, and as many of the same CPUs as possible; None if that cannot be."""
        pool, full, own = held.pool, wish.cpu.full, held.cpus
        if wish.cpu.isolated_only:
            own &= self._supply.isolated
        if len(own) > full:
            own = take(self._topology, own, full, keep=own).cpus
        self._supply.add(pool, own, wish.cpu.milli)
        cpus = self._grow(wish, pool, own) if self._supply.is_legal() else None
        self._supply.remove(pool, own, wish.cpu.milli)
        if cpus is None:
            return None
        reason = "it is there already" if cpus <= held.cpus else "where it is already, next to the CPUs it has"
        return Placement(pool=pool, cpus=cpus, milli=wish.cpu.milli, reason=reason)

    def _grow(self, wish: ContainerWish, pool: TreePool, own: CpuSet) -> CpuSet | None:
        """CPUs with those that it has, which are taken; None if there are not so many."""
        more = wish.cpu.full - len(own)
        if not more:
            return own
        source = pool.cpus & self._supply.isolated
        if not wish.cpu.isolate or len(source) < more:
            if wish.cpu.isolated_only:
                return None
            source, most = self._supply.slice(pool, 0)
            if most < more:
                return None
        return take(self._topology, source | own, wish.cpu.full, keep=own, prefer=wish.priority).cpus

    # -- choosing

    def choose(
        self, request: Request, wish: ContainerWish, own: CpuSet, weights: Mapping[int, int]
    ) -> Placement | Misplacement:
        """The best pool, and CPUs of it; those of its `own` that are free there stay."""
        listed = self._rank(request, wish, weights)
        tried: list[tuple[PoolRank, PoolScore]] = []
        free = self._supply.free
        for ranked in self._in_order(request, wish, listed):
            cpus = self._cpus(request, wish, ranked.score, own)
            tried.append((ranked.rank, ranked.score))
            if cpus is not None:
                rest = [(other.rank, other.score) for other in sorted(listed) if other.score.pool != ranked.score.pool]
                candidates = describe_candidates([tried[-1], *rest], free, wish)
                reason = f"the best of {len(listed)} pools" if len(listed) > 1 else "the only pool"
                return Placement(
                    pool=ranked.score.pool, cpus=cpus, milli=wish.cpu.milli, reason=reason, candidates=candidates
                )
        known = [(other.rank, other.score) for other in sorted(listed)]
        candidates = describe_candidates(known, free, wish)
        return Misplacement(message=self._explain_misfit(wish, known, tried=bool(tried)), candidates=candidates)

    def _rank(self, request: Request, wish: ContainerWish, weights: Mapping[int, int]) -> list[_Ranked]:
        """All pools with their ranks, by what their memory is on an empty machine."""
        supply, pools = self._supply, self._tree.pools
        balances = supply.balances()
        capacities, sizes = supply.shared_capacities(balances), supply.slice_sizes(balances)
        affinities = affinity_scores(self._tree, weights) if weights else [0] * len(pools)
        hints = hint_scores(self._topology, pools, request.hints) if request.hints else [None] * len(pools)
        wanted = self._classes[wish.priority] if wish.priority is not CpuPriority.NONE else None
        found = []
        for pool in pools:
            fit, isolated, shared = self._fit(wish, pool, capacities[pool.id], sizes[pool.id])
            score = PoolScore(
                pool=pool,
                fit=fit,
                isolated=isolated,
                shared=shared,
                capacity=capacities[pool.id],
                priority=0 if wanted is None else len(pool.cpus & supply.free & wanted) - wish.cpu.full,
                containers=supply.containers[pool.id],
                affinity=affinities[pool.id],
                weight=shown_score(self._tree, affinities[pool.id]) if weights else 0,
                hints=hints[pool.id],
                memory=self._memory(request, wish, pool, asked=False),
            )
            found.append(self._ranked(request, wish, score))
        return found

    def _ranked(self, request: Request, wish: ContainerWish, score: PoolScore, *, asked: bool = False) -> _Ranked:
        target = self._tree.nearest_level(wish.level) if wish.level is not None else None
        limit = memory_amount(request), request.amounts.memory_limit
        return _Ranked(rank_pool(wish, score, target, limit), score, asked)

    def _fit(self, wish: ContainerWish, pool: TreePool, capacity: int, size: int) -> tuple[Fit, int, int]:
        """Whether a pool has enough, and what would be left of its isolated and shared CPUs."""
        cpu = wish.cpu
        isolated = len(pool.cpus & self._supply.isolated) - cpu.full if cpu.isolate else 0
        if cpu.isolate and isolated >= 0:
            shared = capacity - cpu.milli
            return ISOLATED if shared >= 0 else MISFIT, isolated, shared
        shared = capacity - _MILLI * cpu.full - cpu.milli
        fits = shared >= 0 and size >= cpu.full and not cpu.isolated_only
        return SHARABLE if fits else MISFIT, isolated, shared

    def _memory(self, request: Request, wish: ContainerWish, pool: TreePool, *, asked: bool) -> MemoryFit | None:
        if self._zones is None or wish.memory.preserved or not pool.nodes:
            return NO_MEMORY_WISH
        question = self._zones.ask(request, wish.memory, pool)
        return self._zones.fit(question) if asked else self._zones.best_fit(question)

    def _in_order(self, request: Request, wish: ContainerWish, listed: Sequence[_Ranked]) -> Iterator[_Ranked]:
        """Pools that have enough, the best first, by what their memory really is."""
        heap = sorted(listed)
        while heap and heap[0].score.fit is not MISFIT:
            ranked = heappop(heap)
            if not ranked.asked:
                memory = self._memory(request, wish, ranked.score.pool, asked=True)
                if memory != ranked.score.memory:
                    heappush(heap, self._ranked(request, wish, replace(ranked.score, memory=memory), asked=True))
                    continue
            yield ranked

    def _cpus(self, request: Request, wish: ContainerWish, score: PoolScore, own: CpuSet) -> CpuSet | None:
        """CPUs of its own for a container in a pool, none if it wants none; None if hints forbid it."""
        pool, full = score.pool, wish.cpu.full
        area = self._strict_area(request, wish)
        if not self._is_near(request, wish, score, area):
            return None
        if not full:
            return EMPTY
        source = pool.cpus & self._supply.isolated
        if score.fit is not ISOLATED:
            source = self._supply.slice(pool, wish.cpu.milli).cpus
        source = source if area is None else source & area
        if len(source) < full:
            return None
        keep = own & source
        if wish.by_hints and not keep:
            keep = self._near_devices(request, source, full)
        return take(self._topology, source, full, keep=keep, prefer=wish.priority).cpus

    # -- hints

    def _strict_area(self, request: Request, wish: ContainerWish) -> CpuSet | None:
        """The CPUs that all hints are about, if nothing else will do."""
        if not wish.strict_hints or not request.hints:
            return None
        area = self._topology.online
        for hint in request.hints:
            area &= hint_cpus(self._topology, hint)
        return area

    def _is_near(self, request: Request, wish: ContainerWish, score: PoolScore, area: CpuSet | None) -> bool:
        """Whether shared CPUs and memory of a pool are where strict hints say."""
        if area is None:
            return True
        nodes = score.memory.nodes if score.memory is not None else EMPTY
        return (not wish.cpu.shares or score.pool.cpus & self._supply.sharable <= area) and all(
            nodes <= hint.nodes for hint in request.hints if hint.nodes
        )

    def _near_devices(self, request: Request, source: CpuSet, full: int) -> CpuSet:
        """As many CPUs near each device that the kubelet has assigned; none if that cannot be."""
        hints = pod_resource_hints(request.hints)
        if not 0 < len(hints) <= full:
            return EMPTY
        each = full // len(hints) if full % len(hints) == 0 else 1
        found = EMPTY
        for hint in hints:
            near = (source - found) & hint_cpus(self._topology, hint)
            if len(near) < each:
                return EMPTY
            found |= take(self._topology, near, each).cpus
        return found

    # -- for people

    def _explain_misfit(self, wish: ContainerWish, known: Sequence[tuple[PoolRank, PoolScore]], *, tried: bool) -> str:
        if tried:
            return f"{describe_wish(wish)} cannot be had where its topology hints say, as strict.topologyhints wants"
        whole = next(score for _, score in known if score.pool is self._tree.root)
        count = len(self._supply.isolated)
        isolated = f"{count} isolated CPU{'' if count == 1 else 's'} and " if wish.cpu.isolate else ""
        left = f"{whole.pool.name} has {isolated}{whole.capacity}m of shared CPUs left"
        return f"{describe_wish(wish)} cannot be had of any pool; {left}"


def describe_wish(wish: ContainerWish) -> str:
    """What a container wants of CPUs, in a few words."""
    cpu = wish.cpu
    kind = "isolated CPU" if cpu.isolated_only else "CPU"
    own = f"{cpu.full} {kind}{'' if cpu.full == 1 else 's'} of its own"
    whole = f", and {cpu.rest}m for its pod as a whole" if cpu.rest else ""
    if not cpu.full:
        return (f"{cpu.part}m of shared CPUs" if cpu.part else "shared CPUs") + whole
    return (f"{own} and {cpu.part}m of shared ones" if cpu.part else own) + whole
