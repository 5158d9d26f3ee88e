"""Which of the CPU lists of a pool a container gets. The same lists in the same order give the same choice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static_pools.options import PoolCpuList
from interpose.core.topology.topology import Topology

_Place = Callable[[CpuSet], CpuSet]

_MOST_SHOWN: Final = 16  # candidates: every container remembers those of its last decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Lists, in the order of their pool, and why them."""

    lists: tuple[PoolCpuList, ...]
    how: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, order=True)
class Load:
    """What others use of a shared list."""

    milli: int
    containers: int

    def __str__(self) -> str:
        return f"{self.milli}m of {self.containers} containers"


def choose_shared(loads: Mapping[PoolCpuList, Load], had: Sequence[PoolCpuList]) -> Chosen:
    """One list: the one it has, else the one with least to do, the first of several such."""
    chosen = next((one for one in loads if one in had), None)
    how = "it has it already" if chosen else "the only one" if len(loads) == 1 else "least to do"
    chosen = chosen or min(loads, key=loads.__getitem__)
    candidates = tuple(
        Candidate(
            name=f"list {one.text}",
            cpus=one.cpus,
            score=str(loads[one]),
            chosen=one is chosen,
            why=how if one is chosen else "",
        )
        for one in sorted(loads, key=loads.__getitem__)
    )
    return Chosen(lists=(chosen,), how=how, candidates=candidates)


def choose_own(
    topology: Topology,
    lists: Sequence[PoolCpuList],
    taken: CpuSet,
    count: int,
    had: Sequence[PoolCpuList],
    cpus: CpuSet,
) -> Chosen | None:
    """`count` free lists near each other: those it has, then those with some of the `cpus` it has; None if too few."""
    free = [one for one in lists if not one.cpus.mask & taken.mask]
    if len(free) < count:
        return None
    touched = [one for one in free if one in had or one.cpus.mask & cpus.mask]
    kept = sorted(touched, key=lambda one: one not in had)[:count]
    others = [one for one in free if one not in kept]
    if kept:
        chosen = (*kept, *_nearest_to(topology, others, count - len(kept), kept))
        how = "it has them already" if len(kept) == count else f"it has {len(kept)} of them already"
    else:
        chosen = _nearest(topology, others, count)
        how = "near each other" if count > 1 else "free, where least is left over"
    return Chosen(
        lists=tuple(one for one in lists if one in chosen), how=how, candidates=own_candidates(lists, taken, chosen)
    )


def own_candidates(
    lists: Sequence[PoolCpuList], taken: CpuSet, chosen: Sequence[PoolCpuList] = ()
) -> tuple[Candidate, ...]:
    """Lists of an exclusive pool, chosen ones first, taken ones last; the first of them if there are many."""
    # There can be as many as CPUs, and no two overlap: bits of numbers tell them apart.
    mine, others = CpuSet.union(one.cpus for one in chosen).mask, taken.mask
    ordered = sorted(lists, key=lambda one: (not one.cpus.mask & mine, bool(one.cpus.mask & others)))
    return tuple(
        Candidate(
            name=f"list {one.text}",
            cpus=one.cpus,
            score="taken" if one.cpus.mask & others else "free",
            chosen=bool(one.cpus.mask & mine),
        )
        for one in ordered[: max(_MOST_SHOWN, len(chosen))]
    )


def _nearest(topology: Topology, lists: Sequence[PoolCpuList], count: int) -> tuple[PoolCpuList, ...]:
    """So many of these lists: within one NUMA node, else one package, else few of them.

    Of several places that have enough, the one with least left over.
    """
    for group in _groups(lists, topology.nodes_of, fitting=count):
        return tuple(group[:count])
    return _near(lists, count, (topology.packages_of, topology.nodes_of))


def _nearest_to(
    topology: Topology, lists: Sequence[PoolCpuList], count: int, kept: Sequence[PoolCpuList]
) -> tuple[PoolCpuList, ...]:
    """So many of these lists near those it has already."""
    cpus = CpuSet.union(one.cpus for one in kept)
    nodes, packages = topology.nodes_of(cpus), topology.packages_of(cpus)

    def distance(one: PoolCpuList) -> tuple[bool, bool]:
        return not topology.packages_of(one.cpus) <= packages, not topology.nodes_of(one.cpus) <= nodes

    return tuple(sorted(lists, key=distance)[:count])


def _near(lists: Sequence[PoolCpuList], count: int, places: Sequence[_Place]) -> tuple[PoolCpuList, ...]:
    """By the first kind of place, inside one by the next."""
    if not places:
        return tuple(lists[:count])
    for group in _groups(lists, places[0], fitting=count):
        return _near(group, count, places[1:])
    whole = max(_groups(lists, places[0]), key=len)  # the first of the largest
    rest = [one for one in lists if one not in whole]
    return (*whole, *_near(rest, count - len(whole), places))


def _groups(lists: Sequence[PoolCpuList], place: _Place, fitting: int = 0) -> list[list[PoolCpuList]]:
    """Lists by place; only places with enough of them, the smallest first."""
    found: dict[CpuSet, list[PoolCpuList]] = {}
    for one in lists:
        found.setdefault(place(one.cpus), []).append(one)
    return sorted((group for group in found.values() if len(group) >= fitting), key=len)
