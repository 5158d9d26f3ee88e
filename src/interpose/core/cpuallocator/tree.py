"""A machine as a tree of groups: machine, packages, dies, NUMA nodes, caches, kinds of cores, cores.

Levels go from wide to narrow. Which of two is wider depends on the machine (some have several nodes in a package, some
the reverse), so they are ordered by how many groups they have. Invariants: every group lies within one group of each
wider level (what does not, is cut where the wider ones end), every CPU that is online is in one group of each level,
the first level has one group, the last one is that of cores, and no two levels have the same groups.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from interpose.core.cpuallocator.bitmask import lowest_index
from interpose.core.topology.topology import NO_CACHE, Cpu, Topology

_UNKNOWN_FAR = 255  # as far as the kernel's tables go


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A criterion that divides CPUs into groups."""

    singular: str  # its name
    plural: str
    key: Callable[[Cpu], object]
    label: Callable[[Cpu], str]
    rank: int  # whose name a level has that several kinds make alike


# Stable where two have as many groups: the wider one first.
_KINDS = (
    _Kind(singular="machine", plural="machine", key=lambda _: 0, label=lambda _: "", rank=2),
    _Kind(
        singular="package", plural="packages", key=lambda cpu: cpu.package, label=lambda cpu: str(cpu.package), rank=1
    ),
    _Kind(
        singular="die",
        plural="dies",
        key=lambda cpu: (cpu.package, cpu.die),
        label=lambda cpu: f"{cpu.package}/{cpu.die}",
        rank=4,
    ),
    _Kind(singular="NUMA node", plural="NUMA nodes", key=lambda cpu: cpu.node, label=lambda cpu: str(cpu.node), rank=0),
    _Kind(
        singular="L3 cache",
        plural="L3 caches",
        key=lambda cpu: cpu.l3,
        label=lambda cpu: "none" if cpu.l3 == NO_CACHE else str(cpu.l3),
        rank=3,
    ),
    _Kind(
        singular="cores for",
        plural="cores for",
        # Narrower than a cache, wherever the machine has several of those.
        key=lambda cpu: (cpu.package, cpu.node, cpu.l3, cpu.kind),
        label=lambda cpu: cpu.kind.value,
        rank=6,
    ),
    _Kind(
        singular="L2 cache",
        plural="L2 caches",
        key=lambda cpu: cpu.core if cpu.l2 == NO_CACHE else ("l2", cpu.l2),
        label=lambda cpu: str(cpu.core if cpu.l2 == NO_CACHE else cpu.l2),
        rank=5,
    ),
)
_CORES = _Kind(singular="core", plural="cores", key=lambda cpu: cpu.core, label=lambda cpu: str(cpu.core), rank=-1)
_NEAR = frozenset({"machine", "package", "NUMA node"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLevel:
    """One level of the tree."""

    singular: str
    plural: str
    outer: bool  # NUMA nodes and what is wider
    groups: tuple[int, ...]  # masks, by their lowest CPU
    labels: tuple[str, ...]
    parents: tuple[tuple[int, ...], ...]  # of each group: the groups it lies in, the next wider level first
    nodes: tuple[tuple[int, ...], ...]  # of each group: its NUMA nodes

    def name(self, places: Iterable[int]) -> str:
        """The display name of these groups."""
        labels = [self.labels[place] for place in places]
        return f"{self.singular if len(labels) == 1 else self.plural} {', '.join(labels)}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTree:
    """A machine as levels of groups, from wide to narrow."""

    levels: tuple[TreeLevel, ...]
    # [level][group][how many levels narrower, from 0 on]: the groups there
    inside: tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]
    distances: dict[tuple[int, int], int]  # between NUMA nodes, the mean of both ways times two

    @classmethod
    def of(cls, topology: Topology) -> "CpuTree":
        kinds = sorted(_KINDS, key=lambda kind: len({kind.key(cpu) for cpu in topology.cpus}))
        found: list[tuple[_Kind, set[str], dict[int, Cpu]]] = []
        whole = topology.online.mask
        masks: list[int] = [whole]
        for kind in (*kinds, _CORES):
            parts = _split_groups(topology, kind, masks)
            if not found or list(parts) != masks:
                found.append((kind, {kind.singular}, parts))
            else:
                same = found[-1]
                better = min(same[0], kind, key=lambda kind: kind.rank)
                found[-1] = better, same[1] | {kind.singular}, parts
            masks = list(parts)
        last_outer = max(place for place, (_, names, _) in enumerate(found) if names & _NEAR)
        levels = []
        for place, (kind, _, parts) in enumerate(found):
            wider = [list(other) for _, _, other in reversed(found[:place])]
            levels.append(
                TreeLevel(
                    singular=kind.singular,
                    plural=kind.plural,
                    outer=place <= last_outer,
                    groups=tuple(parts),
                    labels=tuple(kind.label(cpu) for cpu in parts.values()),
                    parents=tuple(
                        tuple(next(at for at, outer in enumerate(groups) if outer & mask) for groups in wider)
                        for mask in parts
                    ),
                    nodes=tuple(
                        tuple(node for node, cpus in topology.numa.items() if cpus.mask & mask) for mask in parts
                    ),
                )
            )
        return cls(levels=tuple(levels), inside=_inside(levels), distances=_distances(topology))

    def mean_distance(self, nodes: Iterable[int]) -> int:
        """How far these nodes are from each other: the mean of all pairs, in hundredths; 0 if there are no pairs."""
        listed = sorted(set(nodes))
        pairs = [self.distances[node, other] for node in listed for other in listed if node < other]
        return 50 * sum(pairs) // len(pairs) if pairs else 0


def _split_groups(topology: Topology, kind: _Kind, masks: Iterable[int]) -> dict[int, Cpu]:
    """Groups of a kind within each of these; with a CPU of each group, and in order."""
    found: list[tuple[int, Cpu]] = []
    for outer in masks:
        parts: dict[object, tuple[int, Cpu]] = {}
        rest = outer
        while rest:
            cpu = topology.by_id[lowest_index(rest)]
            mask, example = parts.get(kind.key(cpu), (0, cpu))
            parts[kind.key(cpu)] = mask | 1 << cpu.id, example
            rest &= rest - 1
        found.extend(parts.values())
    return dict(sorted(found, key=lambda part: lowest_index(part[0])))


def _inside(levels: list[TreeLevel]) -> tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]:
    return tuple(
        tuple(
            (
                (place,),
                *(
                    tuple(at for at, parents in enumerate(inner.parents) if parents[depth] == place)
                    for depth, inner in enumerate(levels[number + 1 :])
                ),
            )
            for place in range(len(level.groups))
        )
        for number, level in enumerate(levels)
    )


def _distances(topology: Topology) -> dict[tuple[int, int], int]:
    return {
        (node.id, other.id): node.distances.get(other.id, _UNKNOWN_FAR) + other.distances.get(node.id, _UNKNOWN_FAR)
        for node in topology.nodes
        for other in topology.nodes
    }
