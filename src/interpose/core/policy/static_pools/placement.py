"""Which of the CPU lists of a pool a container gets. The same lists in the same order give the same choice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static_pools.options import PoolCpuList
from interpose.core.topology.topology import Topology

_Locate = Callable[[CpuSet], CpuSet]

_MOST_SHOWN: Final = 16  # candidates: they are stored with the last decisions about each container


@dataclass(frozen=True, slots=True, kw_only=True)
class ListChoice:
    """The lists for a container, in the order of their pool, and the reason."""

    lists: tuple[PoolCpuList, ...]
    reason: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, order=True)
class Load:
    """The load that other containers put on a shared list."""

    milli: int
    containers: int

    def __str__(self) -> str:
        return f"{self.milli}m of {self.containers} containers"


def choose_shared(loads: Mapping[PoolCpuList, Load], had: Sequence[PoolCpuList]) -> ListChoice:
    """One list: the one it has, else the one with least to do, the first of several such."""
    chosen = next((cpu_list for cpu_list in loads if cpu_list in had), None)
    reason = "it has it already" if chosen else "the only one" if len(loads) == 1 else "least to do"
    chosen = chosen or min(loads, key=loads.__getitem__)
    candidates = tuple(
        Candidate(
            name=f"list {cpu_list.text}",
            cpus=cpu_list.cpus,
            score=str(loads[cpu_list]),
            chosen=cpu_list is chosen,
            reason=reason if cpu_list is chosen else "",
        )
        for cpu_list in sorted(loads, key=loads.__getitem__)
    )
    return ListChoice(lists=(chosen,), reason=reason, candidates=candidates)


def choose_own(
    topology: Topology,
    lists: Sequence[PoolCpuList],
    taken: CpuSet,
    count: int,
    had: Sequence[PoolCpuList],
    cpus: CpuSet,
) -> ListChoice | None:
    """`count` free lists near each other: those it has, then those with some of the `cpus` it has; None if too few."""
    free = [cpu_list for cpu_list in lists if not cpu_list.cpus.mask & taken.mask]
    if len(free) < count:
        return None
    touched = [cpu_list for cpu_list in free if cpu_list in had or cpu_list.cpus.mask & cpus.mask]
    kept = sorted(touched, key=lambda cpu_list: cpu_list not in had)[:count]
    others = [cpu_list for cpu_list in free if cpu_list not in kept]
    if kept:
        chosen = (*kept, *_nearest_to(topology, others, count - len(kept), kept))
        reason = "it has them already" if len(kept) == count else f"it has {len(kept)} of them already"
    else:
        chosen = _nearest(topology, others, count)
        reason = "near each other" if count > 1 else "free, where least is left over"
    return ListChoice(
        lists=tuple(cpu_list for cpu_list in lists if cpu_list in chosen),
        reason=reason,
        candidates=own_candidates(lists, taken, chosen),
    )


def own_candidates(
    lists: Sequence[PoolCpuList], taken: CpuSet, chosen: Sequence[PoolCpuList] = ()
) -> tuple[Candidate, ...]:
    """Lists of an exclusive pool, chosen ones first, taken ones last; the first of them if there are many."""
    # There can be as many as CPUs, and no two overlap: bits of numbers tell them apart.
    mine, others = CpuSet.union(cpu_list.cpus for cpu_list in chosen).mask, taken.mask
    ordered = sorted(lists, key=lambda cpu_list: (not cpu_list.cpus.mask & mine, bool(cpu_list.cpus.mask & others)))
    return tuple(
        Candidate(
            name=f"list {cpu_list.text}",
            cpus=cpu_list.cpus,
            score="taken" if cpu_list.cpus.mask & others else "free",
            chosen=bool(cpu_list.cpus.mask & mine),
        )
        for cpu_list in ordered[: max(_MOST_SHOWN, len(chosen))]
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
    """Choose `count` lists near those that the container has."""
    cpus = CpuSet.union(cpu_list.cpus for cpu_list in kept)
    nodes, packages = topology.nodes_of(cpus), topology.packages_of(cpus)

    def distance(cpu_list: PoolCpuList) -> tuple[bool, bool]:
        return not topology.packages_of(cpu_list.cpus) <= packages, not topology.nodes_of(cpu_list.cpus) <= nodes

    return tuple(sorted(lists, key=distance)[:count])


def _near(lists: Sequence[PoolCpuList], count: int, places: Sequence[_Locate]) -> tuple[PoolCpuList, ...]:
    """Choose `count` lists in as few groups of the first kind as possible, inside a group by the next kind."""
    if not places:
        return tuple(lists[:count])
    for group in _groups(lists, places[0], fitting=count):
        return _near(group, count, places[1:])
    whole = max(_groups(lists, places[0]), key=len)  # the first of the largest
    rest = [cpu_list for cpu_list in lists if cpu_list not in whole]
    return (*whole, *_near(rest, count - len(whole), places))


def _groups(lists: Sequence[PoolCpuList], place: _Locate, fitting: int = 0) -> list[list[PoolCpuList]]:
    """Lists by place; only places with enough of them, the smallest first."""
    found: dict[CpuSet, list[PoolCpuList]] = {}
    for cpu_list in lists:
        found.setdefault(place(cpu_list.cpus), []).append(cpu_list)
    return sorted((group for group in found.values() if len(group) >= fitting), key=len)
