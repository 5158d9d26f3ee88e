"""The memory of containers: requests to the memory allocator, and what pools would offer.

Most offers are not asked for. What a container would have on an empty machine is known for each pool, and what it would
really have is never better; so pools are asked in the order of the former until one keeps its word.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from interpose.core.memoryallocator.allocator import MemoryAllocator
from interpose.core.memoryallocator.request import (
    MemoryChange,
    MemoryPriority,
    MemoryRequest,
)
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.request import Key, Request
from interpose.core.policy.topology_aware.choice import MemoryFit
from interpose.core.policy.topology_aware.pool_tree import TreePool
from interpose.core.policy.topology_aware.preferences import MemoryWish
from interpose.core.topology.topology import MemoryKind, Topology

_DRAM: Final = frozenset((MemoryKind.DRAM,))
_NOBODY: Final = Key("", "")
_PRIORITIES: Final[Mapping[KubeQos, MemoryPriority]] = {
    KubeQos.BEST_EFFORT: MemoryPriority.BEST_EFFORT,
    KubeQos.BURSTABLE: MemoryPriority.BURSTABLE,
    KubeQos.GUARANTEED: MemoryPriority.GUARANTEED,
}


def memory_amount(request: Request) -> int:
    """The memory that a container asks for: its request, or its limit."""
    amounts = request.amounts
    return amounts.memory or amounts.memory_limit or 0


class MemoryZones:
    """The memory nodes of containers on one machine."""

    def __init__(self, topology: Topology) -> None:
        self._allocator = MemoryAllocator(topology)
        self._all_nodes = CpuSet.of(node.id for node in topology.nodes)
        self._requests: dict[Key, MemoryRequest] = {}
        self._empty: dict[tuple[CpuSet, frozenset[MemoryKind]], MemoryFit] = {}

    def ask(self, request: Request, wish: MemoryWish, pool: TreePool) -> MemoryRequest:
        """The request for a container in a pool. As long as it starts cold it gets no DRAM."""
        return MemoryRequest(
            key=request.key,
            nodes=pool.nodes,
            kinds=wish.kinds - _DRAM if wish.cold_start else wish.kinds,
            amount=memory_amount(request),
            priority=_PRIORITIES[request.qos],
        )

    def best_fit(self, request: MemoryRequest) -> MemoryFit:
        """What a request would have if there was no other."""
        known = request.nodes, request.kinds
        if known not in self._empty:
            self._empty[known] = self._fit(replace(request, key=_NOBODY, amount=0))
        return self._empty[known]

    def fit(self, request: MemoryRequest) -> MemoryFit | None:
        """What a request would have now; None if there is no room for it."""
        if not request.amount:
            return self.best_fit(request)
        return self._fit(request) if self._has_room(request) else None

    def _has_room(self, request: MemoryRequest) -> bool:
        """Whether the machine has the memory at all. If so there is a zone: no request here is strict."""
        own = self._requests.get(request.key)
        return self._allocator.free(self._all_nodes) + (own.amount if own is not None else 0) >= request.amount

    def _fit(self, request: MemoryRequest) -> MemoryFit:
        offer = self._allocator.offer(request)
        return MemoryFit(
            nodes=offer.zone,
            exact=offer.kinds == request.kinds,
            missing=len(request.kinds - offer.kinds),
            capacity=self._allocator.capacity(request.nodes),
        )

    # -- zones

    def has(self, request: MemoryRequest) -> bool:
        """Whether a container has a zone for this very request."""
        return self._requests.get(request.key) == request

    def allocate(self, request: MemoryRequest) -> MemoryChange:
        """A zone with room; one near the pool if there is none: amounts are often estimated, and mostly too high."""
        if not self._has_room(request):
            return self.restore(request, self.best_fit(request).nodes)
        self._requests[request.key] = request
        return self._allocator.allocate(request)

    def restore(self, request: MemoryRequest, zone: CpuSet) -> MemoryChange:
        """The zone that a container has already."""
        self._allocator.restore(request, zone)
        self._requests[request.key] = request
        return MemoryChange(zone=zone, moved={})

    def add_dram(self, key: Key) -> MemoryChange:
        """The zone of a container that has started: with DRAM."""
        request = self._requests[key]
        self._requests[key] = replace(request, kinds=request.kinds | _DRAM)
        return self._allocator.widen(key, kinds=_DRAM)

    def widen(self, key: Key) -> MemoryChange | None:
        """More nodes for a container; None if it has no zone."""
        return self._allocator.widen(key) if key in self._requests else None

    def release(self, key: Key) -> None:
        """Nothing is wanted for a container any more."""
        self._allocator.release(key)
        self._requests.pop(key, None)
