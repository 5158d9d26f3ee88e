"""The tree of pools: the machine, its sockets, dies, NUMA nodes and L3 caches, as far as they differ.

Invariants: the CPUs of a pool are among those of its parent, those of two pools are disjoint unless one is above the
other, and every pool has a CPU that the policy may use. So a NUMA node that spans two sockets or dies has no pool: the
pools below it would not be parts of it. Pools are numbered from 0 on, children before their parents, so the last one is
the widest; the order is that of the machine and the same in every run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.topology_aware.options import PoolLevel
from interpose.core.topology.topology import MemoryKind, NumaNode, Topology

_FAR = 255  # as far as the kernel's tables go


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePool:
    """A pool: a part of the machine with CPUs that containers can have."""

    id: int
    name: str
    level: PoolLevel
    cpus: CpuSet  # all that are online there, whether the policy may use them or not
    nodes: CpuSet  # NUMA nodes with its memory
    depth: int  # steps from the widest pool
    path: tuple[int, ...]  # its number and those of the pools above it, the widest last
    below: tuple[int, ...]  # those of all pools inside of it, and its own at last
    children: tuple[int, ...]  # those of the pools just below it


@dataclass(frozen=True, kw_only=True)
class PoolTree:
    """All pools of a machine by their numbers."""

    pools: tuple[TreePool, ...]

    @classmethod
    def of(cls, topology: Topology, usable: CpuSet) -> "PoolTree":
        """The tree of a machine of which the policy may use these CPUs; there is one at least."""
        rows = list(_in_order(_find_parts(topology, usable), 0))
        nodes = _MemoryNodes(topology)
        # The pools inside of a pool are those just before it: a pool is above all that its row reaches back to.
        pools = []
        for number, (part, depth, size) in enumerate(rows):
            path = tuple(other for other in range(number, len(rows)) if other - rows[other][2] < number)
            near = nodes.near(part.cpus) if depth else nodes.all_nodes
            pools.append(
                TreePool(
                    id=number,
                    name=part.name,
                    level=part.level,
                    cpus=part.cpus,
                    nodes=near or topology.memory_near(part.cpus),
                    depth=depth,
                    path=path,
                    below=tuple(range(number - size + 1, number + 1)),
                    children=tuple(other for other in range(number - size + 1, number) if rows[other][1] == depth + 1),
                )
            )
        return cls(pools=tuple(pools))

    @property
    def root(self) -> TreePool:
        """The widest pool, which all others are inside of."""
        return self.pools[-1]

    @cached_property
    def from_top(self) -> tuple[TreePool, ...]:
        """The pools in the order in which people read a tree: each before those inside of it."""

        def listed(pool: TreePool) -> Iterator[TreePool]:
            yield pool
            for child in pool.children:
                yield from listed(self.pools[child])

        return tuple(listed(self.root))

    @cached_property
    def by_name(self) -> Mapping[str, TreePool]:
        return {pool.name: pool for pool in self.pools}

    def narrowest(self, cpus: CpuSet) -> TreePool:
        """The narrowest pool that has all of these CPUs; the widest one if none has."""
        having = [pool for pool in self.pools if cpus <= pool.cpus]
        return max(having, key=lambda pool: (pool.depth, -pool.id), default=self.root)

    def nearest_level(self, level: PoolLevel) -> PoolLevel:
        """This level, or the next wider one that the tree has; the widest one if there is none."""
        wider = [pool.level for pool in self.pools if pool.level.depth <= level.depth]
        return max(wider, key=lambda found: found.depth, default=self.root.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of the machine that becomes a pool."""

    name: str
    level: PoolLevel
    cpus: CpuSet
    parts: "Sequence[_Part]" = field(default=())


def _in_order(part: _Part, depth: int) -> Iterator[tuple[_Part, int, int]]:
    """Parts with their depths and with how many parts they are, those inside of a part before it."""
    size = 1
    for inner in part.parts:
        for row in _in_order(inner, depth + 1):
            size += 1
            yield row
    yield part, depth, size


# -- parts of the machine


def _find_parts(topology: Topology, usable: CpuSet) -> _Part:
    sockets = [
        _Part(
            name=f"socket #{package}",
            level=PoolLevel.PACKAGE,
            cpus=cpus,
            parts=_parts_of_socket(topology, usable, package, cpus),
        )
        for package, cpus in topology.packages.items()
        if cpus & usable
    ]
    if len(topology.packages) == 1:
        return sockets[0]
    return _Part(name="root", level=PoolLevel.SYSTEM, cpus=topology.online, parts=sockets)


def _parts_of_socket(topology: Topology, usable: CpuSet, package: int, cpus: CpuSet) -> Sequence[_Part]:
    dies = {die: inside for (owner, die), inside in topology.dies.items() if owner == package}
    if len(dies) == 1:
        return _parts_of_nodes(topology, usable, f"socket #{package}", cpus)
    return [
        _Part(
            name=f"die #{package}/{die}",
            level=PoolLevel.DIE,
            cpus=inside,
            parts=_parts_of_nodes(topology, usable, f"die #{package}/{die}", inside),
        )
        for die, inside in dies.items()
        if inside & usable
    ]


def _parts_of_nodes(topology: Topology, usable: CpuSet, name: str, cpus: CpuSet) -> Sequence[_Part]:
    """NUMA nodes of a socket or die if it has several; its caches if it has not."""
    inside = {node: own for node, own in topology.numa.items() if own & cpus}
    if len(inside) == 1:
        return _parts_of_caches(topology, usable, name, cpus)
    with_memory = CpuSet.of(node.id for node in topology.nodes if node.memory_bytes)
    return [
        _Part(
            name=f"NUMA node #{node}",
            level=PoolLevel.NUMA,
            cpus=own,
            parts=_parts_of_caches(topology, usable, f"NUMA node #{node}", own),
        )
        for node, own in inside.items()
        if own <= cpus and own & usable and node in with_memory
    ]


def _parts_of_caches(topology: Topology, usable: CpuSet, name: str, cpus: CpuSet) -> Sequence[_Part]:
    """L3 caches, numbered as the machine has them, if there are several."""
    inside = [(place, own) for place, own in enumerate(topology.l3_groups.values()) if own <= cpus]
    if len(inside) < 2:
        return ()
    return [
        _Part(name=f"{name}/L3 cache #{place}", level=PoolLevel.L3_CACHE, cpus=own)
        for place, own in inside
        if own & usable
    ]


# -- memory


class _MemoryNodes:
    """Which NUMA nodes have the memory of some CPUs: their own, and nodes without CPUs next to those."""

    def __init__(self, topology: Topology) -> None:
        usable = [node for node in topology.nodes if node.memory is not MemoryKind.NONE and node.memory_bytes]
        homes = [node for node in usable if node.cpus]
        self.all_nodes = CpuSet.of(node.id for node in usable)
        self._homes = homes
        self._attached = [(node.id, _closest(node, homes)) for node in usable if not node.cpus]

    def near(self, cpus: CpuSet) -> CpuSet:
        own = CpuSet.of(node.id for node in self._homes if node.cpus & cpus)
        return own | CpuSet.of(node for node, closest in self._attached if closest & own)


def _closest(node: NumaNode, homes: Sequence[NumaNode]) -> CpuSet:
    """Those of these nodes that are as near to a node as any."""
    distances = {home.id: node.distances.get(home.id, _FAR) for home in homes}
    least = min(distances.values(), default=_FAR)
    return CpuSet.of(home for home, distance in distances.items() if distance == least) if homes else EMPTY
