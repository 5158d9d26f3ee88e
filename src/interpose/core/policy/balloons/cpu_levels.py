"""A machine as nested groups of CPUs, and the search for the group in which a balloon grows or shrinks best.

Levels go from the whole machine to single CPUs: package, die, NUMA node, level 2 cache, core. The groups in a group are
in the order of the numbers of what they are. Everything here works on the masks of CPU sets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.core.policy.balloons.options import ShareLevel
from interpose.core.topology.topology import NO_CACHE, Cpu, Topology

Metric = Callable[[int], int]  # of the mask of a group; the least is best
_Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LevelGroup:
    """CPUs, and the groups of the next level that they are in."""

    cpus: int
    inside: tuple["LevelGroup", ...]


@dataclass(frozen=True, slots=True)
class CpuLevels:
    """A machine as a tree of groups; every leaf is a CPU, and all are equally deep."""

    root: LevelGroup
    depth: int

    @classmethod
    def of(cls, topology: Topology) -> "CpuLevels":
        """Groups of level 2 caches and cores in each NUMA node."""
        return cls._of_keys(topology, (*_WIDE, _l2_key, _core_key, lambda cpu: (*_core_key(cpu), cpu.id)))

    @classmethod
    def of_threads(cls, topology: Topology) -> "CpuLevels":
        """Groups of the first threads of all cores of a NUMA node, of the second ones, and so on."""
        number = {cpu: place for core in topology.cores.values() for place, cpu in enumerate(core)}
        return cls._of_keys(
            topology,
            (
                *_WIDE,
                lambda cpu: (*_node_key(cpu), number[cpu.id]),
                lambda cpu: (*_node_key(cpu), number[cpu.id], cpu.id),
            ),
        )

    @classmethod
    def _of_keys(cls, topology: Topology, keys: Sequence[Callable[[Cpu], _Key]]) -> "CpuLevels":
        inner: tuple[LevelGroup, ...] = ()
        for key in reversed(keys):
            masks: dict[_Key, int] = {}
            for cpu in topology.cpus:
                masks[key(cpu)] = masks.get(key(cpu), 0) | 1 << cpu.id
            inner = tuple(
                LevelGroup(masks[name], tuple(group for group in inner if group.cpus & masks[name]))
                for name in sorted(masks)
            )
        return cls(LevelGroup(topology.online.mask, inner), len(keys))

    def find_group(self, free: int, own: int, count: int, *, balance: bool) -> int:
        """The narrowest group with so many free CPUs; there is one.

        Of several the one in whose wider groups are the most CPUs of its own, then the fewest free ones, or the most if
        free CPUs are to be balanced; then the first.
        """
        groups, depth = self._find_narrowest(free, count)
        among = sum(group.cpus for group in groups)
        if own:
            among = self._select(among, depth, lambda cpus: -(cpus & own).bit_count())
        sign = -1 if balance else 1
        among = self._select(among, depth, lambda cpus: sign * (cpus & free).bit_count())
        return next(group.cpus for group in groups if group.cpus & among)

    def find_leaving(self, candidates: int, free: int, own: int) -> int:
        """The CPU to give back, of some of its own.

        It is where the fewest CPUs of its own are, then the fewest free ones; of several the last one.
        """
        among = self._select(candidates, self.depth, lambda cpus: (cpus & own).bit_count())
        among = self._select(among, self.depth, lambda cpus: (cpus & free).bit_count())
        group = self.root
        while group.inside:
            group = next(inner for inner in reversed(group.inside) if inner.cpus & among)
        return group.cpus

    def _find_narrowest(self, free: int, count: int) -> tuple[list[LevelGroup], int]:
        """The groups with so many free CPUs of the narrowest level that has such, and its depth."""
        groups, depth = [self.root], 0
        while inner := [part for group in groups for part in group.inside if (part.cpus & free).bit_count() >= count]:
            groups, depth = inner, depth + 1
        return groups, depth

    def _select(self, among: int, depth: int, metric: Metric) -> int:
        """Of these CPUs those in the groups that are best, the widest level first."""
        groups = [self.root]
        for _ in range(depth):
            found = [(metric(part.cpus), part) for group in groups for part in group.inside if part.cpus & among]
            best = min(value for value, _part in found)
            groups = [part for value, part in found if value == best]
        return among & sum(group.cpus for group in groups)


def _package_key(cpu: Cpu) -> _Key:
    return (cpu.package,)


def _die_key(cpu: Cpu) -> _Key:
    return (cpu.package, cpu.die)


def _node_key(cpu: Cpu) -> _Key:
    return (cpu.package, cpu.die, cpu.node)


def _l2_key(cpu: Cpu) -> _Key:
    return (*_node_key(cpu), cpu.core if cpu.l2 == NO_CACHE else cpu.l2)


def _core_key(cpu: Cpu) -> _Key:
    return (*_l2_key(cpu), cpu.core)


_WIDE: Final = (_package_key, _die_key, _node_key)
_SHARE_KEYS: Final[dict[ShareLevel, Callable[[Cpu], _Key]]] = {
    ShareLevel.SYSTEM: lambda _cpu: (),
    ShareLevel.PACKAGE: _package_key,
    ShareLevel.DIE: _die_key,
    ShareLevel.NUMA: lambda cpu: (cpu.node,),
    ShareLevel.L2_CACHE: _l2_key,
    ShareLevel.CORE: lambda cpu: (cpu.core,),
    ShareLevel.THREAD: lambda cpu: (cpu.id,),
}


def parts_of_level(topology: Topology, level: ShareLevel) -> tuple[int, ...]:
    """The CPUs of each element of a level."""
    key = _SHARE_KEYS[level]
    masks: dict[_Key, int] = {}
    for cpu in topology.cpus:
        masks[key(cpu)] = masks.get(key(cpu), 0) | 1 << cpu.id
    return tuple(masks.values())


def touched(parts: Sequence[int], cpus: int) -> int:
    """All CPUs of the elements that have one of these."""
    found = 0
    for part in parts:
        if part & cpus:
            found |= part
    return found
