"""The memory nodes of containers in balloons.

A container has memory near the CPUs of its balloon, as long as there is enough. Its nodes become more when others need
room or its balloon grows elsewhere, and stay when the balloon shrinks: its memory is there already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from interpose.core.memoryallocator.allocator import MemoryAllocator
from interpose.core.memoryallocator.request import MemoryPriority, MemoryRequest, NotEnoughMemoryError
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.container_wishes import ContainerWishes
from interpose.core.policy.request import Key, Request
from interpose.core.policy.static.partition import all_memory
from interpose.core.topology.topology import MemoryKind, Topology

_PRIORITIES: Final[Mapping[KubeQos, MemoryPriority]] = {
    KubeQos.GUARANTEED: MemoryPriority.GUARANTEED,
    KubeQos.BURSTABLE: MemoryPriority.BURSTABLE,
    KubeQos.BEST_EFFORT: MemoryPriority.BEST_EFFORT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlace:
    """The nodes of a container, and of others that made room for it."""

    mems: CpuSet | None = None  # None: not written
    moved: Mapping[Key, CpuSet] = field(default_factory=lambda: MappingProxyType({}))
    remark: str = ""


class BalloonMemory:
    """The memory of a machine, by container."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._allocator = MemoryAllocator(topology)
        self._every = all_memory(topology)

    def near(self, cpus: CpuSet) -> CpuSet:
        """The nodes with memory next to some CPUs."""
        return self._topology.memory_near(cpus)

    def place(
        self, request: Request, wishes: ContainerWishes, cpus: CpuSet, held: CpuSet | None, *, keep: bool
    ) -> MemoryPlace:
        """Find nodes near these CPUs; `held` are those that it has, and keeps with `keep`."""
        near = self.near(cpus)
        if wishes.keeps_memory or not wishes.pins_memory or not near:
            return self._leave(request, wishes, held)
        wanted = self._request(request, near, wishes.memory_kinds, _PRIORITIES[request.qos])
        if keep and held is not None and held & self._every:
            zone = held & self._every
            self._allocator.restore(wanted, zone)
            return MemoryPlace(mems=zone)
        try:
            change = self._allocator.allocate(wanted)
        except NotEnoughMemoryError as error:
            self._allocator.restore(wanted, near)
            return MemoryPlace(mems=near, remark=f"; memory of nodes {near} although {error}")
        return MemoryPlace(mems=change.zone, moved=change.moved)

    def widen(self, key: Key, mems: CpuSet, near: CpuSet, wishes: ContainerWishes) -> CpuSet:
        """The nodes of a container whose balloon is next to the nodes `near` now."""
        if wishes.memory_kinds and MemoryKind.DRAM not in wishes.memory_kinds:
            return mems
        return self._allocator.widen(key, nodes=near).zone

    def add_nodes(self, key: Key) -> CpuSet:
        """The nodes of a container with the closest ones added."""
        return self._allocator.widen(key).zone

    def release(self, key: Key) -> None:
        """Forget the memory of a container."""
        self._allocator.release(key)

    def _leave(self, request: Request, wishes: ContainerWishes, held: CpuSet | None) -> MemoryPlace:
        """Memory that is not pinned: it counts for the machine as a whole."""
        self._allocator.release(request.key)
        if self._every:
            kept = self._request(request, self._every, frozenset(), MemoryPriority.PRESERVED)
            self._allocator.restore(kept, self._every)
        # Nothing written would leave it bound to where it was, which is what memory.preserve asks for.
        bound = held is not None and not wishes.keeps_memory
        return MemoryPlace(mems=(self._every or None) if bound else None)

    def _request(
        self, request: Request, nodes: CpuSet, kinds: frozenset[MemoryKind], priority: MemoryPriority
    ) -> MemoryRequest:
        amount = max(0, request.amounts.memory_limit or 0)
        return MemoryRequest(key=request.key, nodes=nodes, kinds=kinds, amount=amount, priority=priority)
