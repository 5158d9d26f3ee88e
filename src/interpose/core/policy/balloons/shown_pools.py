"""Balloons as pools of the policy state: their CPUs, the idle ones that they share, and one thread of each core.

A pool changes only if its CPUs do, so that containers are changed only if theirs are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from interpose.core.cpuallocator.bitmask import lowest_index
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.balloons.balloon import Balloon
from interpose.core.policy.balloons.balloon_set import BalloonSet
from interpose.core.policy.balloons.cpu_levels import parts_of_level, touched
from interpose.core.policy.balloons.options import ShareLevel
from interpose.core.policy.pool_report import PoolReport
from interpose.core.policy.request import Key
from interpose.core.policy.state import PolicyState
from interpose.core.topology.topology import Topology

IDLE: Final = "idle"  # CPUs of no balloon, among the pools for people
_IDLE: Final = f" {IDLE}"
_THREADS: Final = " threads"


class ShownPools:
    """Writes the pools of balloons."""

    def __init__(self, topology: Topology, balloons: BalloonSet, state: PolicyState) -> None:
        self._topology = topology
        self._balloons = balloons
        self._state = state
        self._cores = {cpu.id: topology.cores[cpu.core].mask for cpu in topology.cpus}
        levels = {kind.share_idle for kind in balloons.kinds.values() if kind.share_idle is not None}
        self._parts: Mapping[ShareLevel, tuple[int, ...]] = {level: parts_of_level(topology, level) for level in levels}
        self._near: dict[str, CpuSet] = {}  # of balloons that share idle CPUs: those that are near enough, if idle
        self._hiding: dict[str, int] = {}  # balloons with containers that have one thread of each core, and how many

    def names(self, balloon: Balloon, *, hides: bool) -> tuple[str, ...]:
        """The pools of a container in a balloon."""
        if hides:
            return (balloon.name + _THREADS,)
        return (balloon.name, balloon.name + _IDLE) if balloon.kind.share_idle is not None else (balloon.name,)

    def add_hiding(self, name: str, number: int) -> None:
        """So many more containers of a balloon have one thread of each core; -1: one fewer."""
        self._hiding[name] = self._hiding.get(name, 0) + number
        if not self._hiding[name]:
            del self._hiding[name]
            self._state.remove_pool(name + _THREADS)

    def update(self, changed: Mapping[str, Balloon | None]) -> None:
        """Write the pools of balloons that changed, and of those that share idle CPUs."""
        for name, balloon in changed.items():
            self._near.pop(name, None)
            if balloon is None:
                self._state.remove_pool(name)
                self._state.remove_pool(name + _IDLE)
                continue
            self._state.set_pool(name, balloon.cpus)
            if (level := balloon.kind.share_idle) is not None:
                usable = self._balloons.usable(balloon.kind) - self._topology.isolated
                self._near[name] = CpuSet(touched(self._parts[level], balloon.cpus.mask)) & usable
        if self._near:
            idle = self._balloons.idle
            for name, near in self._near.items():
                self._state.set_pool(name + _IDLE, near & idle)
        for name in self._hiding:
            whole = self._state.pool(name) | self._state.pool(name + _IDLE)
            self._state.set_pool(name + _THREADS, self._first_threads(whole))

    def cpus(self, balloon: Balloon, *, hides: bool) -> CpuSet:
        """What a container in a balloon has."""
        return CpuSet.union(self._state.pool(name) for name in self.names(balloon, hides=hides))

    def report(self, containers: Mapping[str, Iterable[Key]]) -> Iterator[PoolReport]:
        """Balloons with their containers, which are given by name, then the CPUs of no balloon."""
        for balloon in self._balloons.all():
            yield PoolReport(
                name=balloon.name,
                kind=balloon.kind.name,
                cpus=balloon.cpus,
                idle=self._state.pool(balloon.name + _IDLE),
                mems=self._topology.memory_near(balloon.cpus) if balloon.cpus else EMPTY,
                granted=balloon.milli,
                free=max(0, 1000 * len(balloon.cpus) - balloon.milli),
                containers=tuple(containers.get(balloon.name, ())),
            )
        yield PoolReport(name=IDLE, kind=IDLE, cpus=self._balloons.idle)

    def _first_threads(self, cpus: CpuSet) -> CpuSet:
        """The lowest CPU of each core."""
        found, rest = 0, cpus.mask
        while rest:
            lowest = lowest_index(rest)
            found |= 1 << lowest
            rest &= ~self._cores[lowest]
        return CpuSet(found)
