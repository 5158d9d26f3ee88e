"""Which CPUs a balloon gets when it grows, and which it gives back when it shrinks.

What a type would rather have is a list of CPU sets, the most important one first; a set counts as far as enough CPUs
are left with it. Within that a balloon is kept together, see `cpu_levels`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.core.cpuallocator.allocator import take
from interpose.core.cpuallocator.bitmask import compute_once
from interpose.core.cpuallocator.priority import CpuPriority, priority_classes
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.balloons.cpu_levels import CpuLevels, parts_of_level, touched
from interpose.core.policy.balloons.options import (
    RESERVED,
    BalloonsOptions,
    BalloonType,
    CoreType,
    LoadLevel,
    ShareLevel,
)
from interpose.core.topology.hints import TopologyHint
from interpose.core.topology.topology import Topology

# Sets that types want to be close to besides devices; a path of a device begins with a slash.
_RESERVED_CPUS: Final = "reserved CPUs"
_ISOLATED: Final = "isolated CPUs"
_CORES: Final = {CoreType.PERFORMANCE: "performance cores", CoreType.EFFICIENT: "efficient cores"}
_CLASSES: Final = {CoreType.PERFORMANCE: CpuPriority.HIGH, CoreType.EFFICIENT: CpuPriority.LOW}


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuWishes:
    """What a type would rather have, as masks."""

    shunned: int  # CPUs that it takes when no others are left
    first: tuple[int, ...]  # sets before loads are looked at
    last: tuple[int, ...]  # and after them
    priority: CpuPriority
    balance: bool
    one_by_one: bool  # CPUs are on cores of their own where that is possible
    loads: frozenset[LoadLevel]  # of balloons of this type
    overloads: frozenset[LoadLevel]  # those of them that its own CPUs shall not share either


class CpuChooser:
    """Chooses CPUs of a machine for balloons of all types."""

    def __init__(self, topology: Topology, options: BalloonsOptions, reserved: CpuSet) -> None:
        """`options` have all types, the built-in ones too; `reserved` are those CPUs, if they are given by number."""
        self._topology = topology
        self._levels = compute_once(topology, CpuLevels.of)
        self._threads = compute_once(topology, CpuLevels.of_threads)
        self._parts = {
            LoadLevel.CORE: parts_of_level(topology, ShareLevel.CORE),
            LoadLevel.L2_CACHE: parts_of_level(topology, ShareLevel.L2_CACHE),
        }
        self._wishes = _all_wishes(topology, options, reserved)

    def acceptable(self, kind: BalloonType, cpus: CpuSet) -> CpuSet:
        """Those of some CPUs that a type may have while there are others."""
        return CpuSet(cpus.mask & ~self._wishes[kind.name].shunned)

    def grow(self, kind: BalloonType, free: int, own: int, count: int, near: int, loaded: dict[LoadLevel, int]) -> int:
        """So many of the free CPUs; there are so many. It would rather have those `near`, whatever else it wants.

        `loaded` are CPUs of other balloons with a load, by the level of that.
        """
        wishes = self._wishes[kind.name]
        taken = 0
        if near and (near & free).bit_count() < count:
            taken = near & free
        elif near:
            free &= near
        step = 1 if wishes.one_by_one or wishes.overloads else count - taken.bit_count()
        while taken.bit_count() < count:
            taken |= self._choose(wishes, free & ~taken, own | taken, step, loaded)
        return taken

    def shrink(self, kind: BalloonType, free: int, own: int, count: int) -> int:
        """So many of its own CPUs, to be given back one after the other: those first that it wants the least."""
        wishes = self._wishes[kind.name]
        sets = (*wishes.first, *wishes.last)
        given = 0
        for _ in range(count):
            left = own & ~given
            candidates = left
            for wanted in sets:
                # Such that are outside of the most important set go first, then the next one counts among them.
                candidates = candidates & ~wanted or candidates
            given |= self._levels.find_leaving(candidates, free | given, left)
        return given

    def _choose(self, wishes: CpuWishes, free: int, own: int, count: int, loaded: dict[LoadLevel, int]) -> int:
        if free.bit_count() == count:
            return free
        sets = [*wishes.first, *self._unloaded(wishes, own, loaded), *wishes.last]
        for wanted in sets:
            if (free & wanted).bit_count() >= count:
                free &= wanted
        levels = self._threads if wishes.one_by_one else self._levels
        group = levels.find_group(free, own, count, balance=wishes.balance)
        if (group & free).bit_count() == count:
            return group & free
        inside = CpuSet(group & own)
        chosen = take(
            self._topology, CpuSet(group & (free | own)), count + len(inside), keep=inside, prefer=wishes.priority
        )
        return (chosen.cpus - inside).mask

    def _unloaded(self, wishes: CpuWishes, own: int, loaded: dict[LoadLevel, int]) -> list[int]:
        """CPUs on which it is not in the way of another load, for each level of its own."""
        found = []
        for level in sorted(wishes.loads):
            busy = loaded.get(level, 0) | (own if level in wishes.overloads else 0)
            found.append(~touched(self._parts[level], busy))
        return found


def _all_wishes(topology: Topology, options: BalloonsOptions, reserved: CpuSet) -> dict[str, CpuWishes]:
    classes = compute_once(topology, priority_classes)
    sets = {path: _near(topology, hints) for path, hints in options.devices.items()}
    sets[_RESERVED_CPUS] = reserved
    sets[_ISOLATED] = topology.isolated
    sets |= {name: classes[_CLASSES[core_type]] for core_type, name in _CORES.items()}
    close = {kind.name: [name for name in _close_to(kind) if sets.get(name, EMPTY)] for kind in options.types}
    wanted = dict.fromkeys(name for names in close.values() for name in names)
    levels = {load.name: load for load in options.load_classes}
    found = {}
    for kind in options.types:
        own = close[kind.name]
        away = [~sets[name].mask for name in wanted if name not in own and name != _ISOLATED]
        # The kernel moves no threads between isolated CPUs, so being there is what others want the least.
        shunned = 0 if _ISOLATED in own else topology.isolated.mask
        loads = [levels[name] for name in kind.loads]
        found[kind.name] = CpuWishes(
            shunned=shunned,
            first=(*((~shunned,) if shunned else ()), *(sets[name].mask for name in own)),
            last=tuple(away),
            priority=kind.priority,
            balance=options.balance if kind.balance is None else kind.balance,
            one_by_one=options.spread_on_cores if kind.spread_on_cores is None else kind.spread_on_cores,
            loads=frozenset(load.level for load in loads),
            overloads=frozenset(load.level for load in loads if load.overloads_in_balloon),
        )
    return found


def _near(topology: Topology, hints: Iterable[TopologyHint]) -> CpuSet:
    """The CPUs next to a device, by the most exact that is known of it."""
    return CpuSet.union(
        hint.cpus & topology.online
        or CpuSet.union(topology.numa.get(node, EMPTY) for node in hint.nodes)
        or CpuSet.union(topology.packages.get(package, EMPTY) for package in hint.packages)
        for hint in hints
    )


def _close_to(kind: BalloonType) -> Sequence[str]:
    return (
        *((_RESERVED_CPUS,) if kind.name == RESERVED else ()),
        *kind.close_to_devices,
        *((_ISOLATED,) if kind.prefer_isolated else ()),
        *((_CORES[kind.core_type],) if kind.core_type is not None else ()),
    )
