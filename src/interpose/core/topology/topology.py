"""A machine: what it has and how near its parts are to each other.

A topology is a value. Everything is counted by CPU number as the kernel counts; a core is named by its lowest CPU, so
the name is unique on the machine (the kernel's own core ids repeat in every package). CPUs that are offline are known
by number only: the kernel does not say where they are. Sets derived from the fields are computed once.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from interpose.core.model.cpuset import EMPTY, CpuSet

NO_CACHE = -1


class CoreKind(StrEnum):
    """What a core was built for."""

    PERFORMANCE = "performance"  # also every core of a machine that has one kind only
    EFFICIENCY = "efficiency"


class MemoryKind(StrEnum):
    """What the memory of a NUMA node is made of."""

    DRAM = "dram"
    PMEM = "pmem"  # persistent memory used as memory: nodes without CPUs, slow and large
    HBM = "hbm"  # on the package: nodes without CPUs, fast and small
    NONE = "none"  # a node without memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """One hardware thread that is online, and all it belongs to."""

    id: int
    package: int = 0
    die: int = 0  # unique within its package
    node: int = 0
    core: int = 0  # the lowest CPU of the core, offline ones not counted
    l2: int = NO_CACHE  # the lowest CPU of those that share its level 2 cache
    l3: int = NO_CACHE  # the same of its last level cache, which kubelets call uncore
    kind: CoreKind = CoreKind.PERFORMANCE
    base_khz: int = 0  # frequency it is sold with; 0: the kernel does not say
    max_khz: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """Memory, and the CPUs near it."""

    id: int
    cpus: CpuSet = EMPTY  # online ones
    memory_bytes: int = 0
    memory: MemoryKind = MemoryKind.DRAM
    movable: bool = False  # all of it: the kernel keeps nothing of its own there, so nobody can live there alone
    distances: Mapping[int, int]  # to every node by id; 10 is itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A cache and the CPUs that share it."""

    level: int
    kind: str  # data, instruction, unified
    size_bytes: int
    cpus: CpuSet


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A machine. `cpus` are those online, in order of their numbers."""

    cpus: tuple[Cpu, ...]
    nodes: tuple[NumaNode, ...]
    caches: tuple[Cache, ...] = ()
    offline: CpuSet = EMPTY
    isolated: CpuSet = EMPTY  # kept from the scheduler by the kernel command line; online ones only
    name: str = ""  # for display

    # -- sets of online CPUs, by what they belong to

    @cached_property
    def by_id(self) -> Mapping[int, Cpu]:
        return {cpu.id: cpu for cpu in self.cpus}

    @cached_property
    def online(self) -> CpuSet:
        return CpuSet.of(cpu.id for cpu in self.cpus)

    @cached_property
    def packages(self) -> Mapping[int, CpuSet]:
        return _group_cpus((cpu.package, cpu.id) for cpu in self.cpus)

    @cached_property
    def dies(self) -> Mapping[tuple[int, int], CpuSet]:
        """CPUs by (package, die)."""
        return _group_cpus(((cpu.package, cpu.die), cpu.id) for cpu in self.cpus)

    @cached_property
    def numa(self) -> Mapping[int, CpuSet]:
        """CPUs by NUMA node; nodes without CPUs are not here."""
        return _group_cpus((cpu.node, cpu.id) for cpu in self.cpus)

    @cached_property
    def l3_groups(self) -> Mapping[int, CpuSet]:
        """CPUs by last level cache; empty if the kernel does not say."""
        return _group_cpus((cpu.l3, cpu.id) for cpu in self.cpus if cpu.l3 != NO_CACHE)

    @cached_property
    def l2_groups(self) -> Mapping[int, CpuSet]:
        """CPUs by level 2 cache; empty if the kernel does not say."""
        return _group_cpus((cpu.l2, cpu.id) for cpu in self.cpus if cpu.l2 != NO_CACHE)

    @cached_property
    def cores(self) -> Mapping[int, CpuSet]:
        return _group_cpus((cpu.core, cpu.id) for cpu in self.cpus)

    @cached_property
    def threads_per_core(self) -> int:
        """The most threads that a core has."""
        return max((len(threads) for threads in self.cores.values()), default=1)

    # -- questions

    def core_of(self, cpu: int) -> CpuSet:
        """A CPU and its siblings."""
        return self.cores[self.by_id[cpu].core]

    def with_siblings(self, cpus: CpuSet) -> CpuSet:
        """Whole cores: these CPUs and all that share a core with one of them."""
        return CpuSet.union(self.core_of(cpu) for cpu in cpus & self.online)

    def nodes_of(self, cpus: CpuSet) -> CpuSet:
        """The NUMA nodes these CPUs are in."""
        return CpuSet.of({self.by_id[cpu].node for cpu in cpus & self.online})

    def packages_of(self, cpus: CpuSet) -> CpuSet:
        """The packages these CPUs are in."""
        return CpuSet.of({self.by_id[cpu].package for cpu in cpus & self.online})

    def memory_near(self, cpus: CpuSet) -> CpuSet:
        """The nodes with ordinary memory next to these CPUs: their own, or the nearest ones where those have none.

        Where all of it is movable the nearest nodes are added that have memory for the kernel.
        """
        own = self.nodes_of(cpus)
        usable = [node for node in self.nodes if node.memory is MemoryKind.DRAM and node.memory_bytes]
        near = own & CpuSet.of(node.id for node in usable) or self._nearest(own, usable)
        normal = [node for node in usable if not node.movable]
        if near & CpuSet.of(node.id for node in normal):
            return near
        return near | self._nearest(own, normal)

    def _nearest(self, own: CpuSet, among: Sequence[NumaNode]) -> CpuSet:
        """For each of the own nodes the nearest of the others, if there are any."""
        if not among:
            return EMPTY
        by_id = {node.id: node for node in self.nodes}
        return CpuSet.of(
            min(among, key=lambda node: (by_id[near].distances.get(node.id, 255), node.id)).id for near in own
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is the same for the same machine: saved CPU sets hold only there. Frequencies do not count."""
        lines = [f"{c.id} {c.package} {c.die} {c.node} {c.core} {c.l3}" for c in self.cpus]
        text = "\n".join([*lines, f"offline {self.offline}", f"isolated {self.isolated}"])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_Group = TypeVar("_Group", int, tuple[int, int])


def _group_cpus(pairs: Iterable[tuple[_Group, int]]) -> Mapping[_Group, CpuSet]:
    """Sets by group, groups in their order."""
    found: dict[_Group, list[int]] = {}
    for group, cpu in pairs:
        found.setdefault(group, []).append(cpu)
    return {group: CpuSet.of(found[group]) for group in sorted(found)}
