"""Which memory nodes containers have: near to their CPUs, of the kinds they want, and with room for all.

A *zone* is a set of nodes. Every request has one and may take its memory from all of its nodes. The zone of a new
request:

1. The nodes it names, and for every kind of memory it wants that these do not have the closest nodes of that kind.
   Nodes of other kinds are left out.
2. If all memory in it is movable, the closest nodes with normal memory as well: the kernel keeps its own pages for a
   process there, and without room for them the process dies.
3. If there is no room (`shortage`), requests that have nothing but the nodes that are short get wider zones, the new
   one as the others: those of the lowest priority first, then the smallest, then the youngest. First those up to
   BURSTABLE, if that does not do up to GUARANTEED, then up to PRESERVED; each time with nodes of their own kinds first,
   then also of ordinary, persistent, and fast memory. A strict request has its own kinds only.

So among requests that are not strict there is room for a new one if the machine has the memory at all. Zones only grow.
What cannot be done changes nothing. The same calls have the same results.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from interpose.core.cpuallocator.bitmask import compute_once
from interpose.core.memoryallocator.nodes import MemoryNodes
from interpose.core.memoryallocator.request import (
    MemoryChange,
    MemoryOffer,
    MemoryPriority,
    MemoryRequest,
    NotEnoughMemoryError,
)
from interpose.core.memoryallocator.shortage import MemoryShortage, find_shortage
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.humanize import format_size
from interpose.core.policy.request import Key
from interpose.core.topology.topology import MemoryKind, Topology

_LIMITS: Final = (MemoryPriority.BURSTABLE, MemoryPriority.GUARANTEED, MemoryPriority.PRESERVED)
_MORE: Final = (
    frozenset[MemoryKind](),
    frozenset((MemoryKind.DRAM,)),
    frozenset((MemoryKind.DRAM, MemoryKind.PMEM)),
    frozenset((MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM)),
)


@dataclass(frozen=True, slots=True)
class _Placement:
    """A request and its zone. The kinds of the request are those that it really gets."""

    request: MemoryRequest
    zone: int


class _Placements:
    """The zones of all requests, and how much is wanted of each zone."""

    def __init__(self) -> None:
        self.by_key: dict[Key, _Placement] = {}  # oldest first
        self.demand: dict[int, int] = {}  # zone -> bytes

    def copy(self) -> "_Placements":
        """The same, to be changed independently."""
        found = _Placements()
        found.by_key, found.demand = dict(self.by_key), dict(self.demand)
        return found

    def put(self, placement: _Placement) -> None:
        """Add a request, or change it; it is as old as before then."""
        old = self.by_key.get(placement.request.key)
        if old is not None:
            self._count(old, -1)
        self.by_key[placement.request.key] = placement
        self._count(placement, 1)

    def drop(self, key: Key) -> None:
        """Remove a request if it is there."""
        old = self.by_key.pop(key, None)
        if old is not None:
            self._count(old, -1)

    def _count(self, placement: _Placement, sign: int) -> None:
        amount = self.demand.get(placement.zone, 0) + sign * placement.request.amount
        self.demand[placement.zone] = amount
        if not amount:
            del self.demand[placement.zone]


class MemoryAllocator:
    """The memory requests on a machine and their zones."""

    def __init__(self, topology: Topology) -> None:
        self._nodes = compute_once(topology, MemoryNodes.of)
        self._placements = _Placements()

    # -- questions

    def zone(self, key: Key) -> CpuSet | None:
        """The nodes of a request; None if there is no request with this key."""
        placement = self._placements.by_key.get(key)
        return None if placement is None else CpuSet(placement.zone)

    def capacity(self, nodes: CpuSet) -> int:
        """The bytes of memory that nodes have."""
        return self._nodes.capacity(nodes.mask)

    def used(self, nodes: CpuSet) -> int:
        """The bytes wanted by the requests that have nothing but these nodes."""
        return sum(
            amount
            for zone, amount in self._placements.demand.items()
            if (present := zone & self._nodes.every) and not present & ~nodes.mask
        )

    def free(self, nodes: CpuSet) -> int:
        """The bytes that are left; less than 0 if more is wanted than nodes have."""
        return self.capacity(nodes) - self.used(nodes)

    def offer(self, request: MemoryRequest) -> MemoryOffer:
        """What `allocate` would give, while nothing else changes; NotEnoughMemoryError as there."""
        placement, _ = self._plan(request)
        return MemoryOffer(zone=CpuSet(placement.zone), kinds=self._nodes.kinds_in(placement.zone))

    # -- changes

    def allocate(self, request: MemoryRequest) -> MemoryChange:
        """Find a zone; NotEnoughMemoryError if there is none, and then nothing has changed.

        A key that has a zone already is allocated anew, and is as old as before.
        """
        placement, moved = self._plan(request)
        for key, zone in moved.items():
            self._placements.put(replace(self._placements.by_key[key], zone=zone))
        self._placements.put(placement)
        return MemoryChange(
            zone=CpuSet(placement.zone), moved={key: CpuSet(zone) for key, zone in sorted(moved.items())}
        )

    def restore(self, request: MemoryRequest, zone: CpuSet) -> None:
        """Take a zone over as it is, even if there is no room; an empty one stands for all nodes."""
        self._placements.put(_Placement(self._effective(request), zone.mask or self._nodes.every))

    def widen(self, key: Key, kinds: frozenset[MemoryKind] = frozenset(), nodes: CpuSet = EMPTY) -> MemoryChange:
        """Add nodes with memory to a zone, and the closest ones of kinds that it has not; KeyError without a zone.

        Without either, add the closest ones of the request's own kinds, or of any if it has all of these and is not
        strict. Nothing is ever in the way of that: more room for one is more room for all.
        """
        placement = self._placements.by_key[key]
        request, before = placement.request, placement.zone
        kinds &= self._nodes.kinds.keys()
        zone = before | nodes.mask & self._nodes.every | self._near(before, kinds)
        if not kinds and not nodes:
            zone |= self._nodes.closest(before, self._nodes.of_kinds(request.kinds))
            if zone == before and not request.strict:
                zone |= self._nodes.closest(before, self._nodes.every)
        self._placements.put(_Placement(replace(request, kinds=request.kinds | kinds), zone))
        return MemoryChange(zone=CpuSet(zone), moved={})

    def release(self, key: Key) -> None:
        """Forget a request. The zones of others stay as they are; a key without a zone is nothing to forget."""
        self._placements.drop(key)

    # -- how

    def _plan(self, request: MemoryRequest) -> tuple[_Placement, dict[Key, int]]:
        """Where a request would be, and the new zones of others."""
        if request.strict and (missing := request.kinds - self._nodes.kinds.keys()):
            raise NotEnoughMemoryError(f"{request.key}: this machine has no memory of kind {_listed(missing)}")
        request = self._effective(request)
        placement = _Placement(request, self._own_zone(request))
        if not request.amount:
            return placement, {}
        search = _Search(self._nodes, self._placements, placement)
        search.make_room()
        return replace(placement, zone=search.zone), search.moved

    def _effective(self, request: MemoryRequest) -> MemoryRequest:
        """The request with the kinds that the machine can give: some at least, where it has memory."""
        nodes = self._nodes
        kinds = request.kinds & nodes.kinds.keys() or nodes.kinds_in(request.nodes.mask) or nodes.ordinary
        return replace(request, kinds=kinds)

    def _own_zone(self, request: MemoryRequest) -> int:
        """The zone of a request as if the machine had nobody else."""
        nodes = self._nodes
        near = request.nodes.mask & nodes.known
        if not near or not nodes.every:
            raise NotEnoughMemoryError(f"{request.key}: there is no memory near nodes {request.nodes or 'none'}")
        zone = self._near(near, request.kinds)
        return zone if zone & nodes.normal else zone | self._normal_memory(request, zone)

    def _near(self, zone: int, kinds: Iterable[MemoryKind]) -> int:
        """The nodes of these kinds that are in a zone, and for each kind that is not the closest ones of it."""
        found = 0
        for kind in kinds:
            of_kind = self._nodes.kinds[kind]
            found |= of_kind & zone or self._nodes.closest(zone, of_kind)
        return found

    def _normal_memory(self, request: MemoryRequest, zone: int) -> int:
        """The closest nodes with normal memory: of its own kinds rather than ordinary, of that rather than others."""
        nodes = self._nodes
        choices = [nodes.of_kinds(request.kinds)]
        if not request.strict:
            choices += [nodes.of_kinds(nodes.ordinary), nodes.every]
        found = next((among for choice in choices if (among := choice & nodes.normal)), 0)
        if not found:
            raise NotEnoughMemoryError(
                f"{request.key}: all memory of kind {_listed(request.kinds)} is movable, "
                "and a process cannot live on that alone"
            )
        return nodes.closest(zone, found)


class _Search:
    """Room for a new request: zones grow until there is."""

    def __init__(self, nodes: MemoryNodes, placements: "_Placements", new: _Placement) -> None:
        self._nodes = nodes
        self._new = new.request
        self._before = placements.by_key
        self._placements = placements.copy()
        self._placements.put(new)

    def make_room(self) -> None:
        """Widen zones; NotEnoughMemoryError if that does not help."""
        shortage = self._shortage(self.zone)
        if shortage and not self._new.strict and (full := self._shortage(self._nodes.every)):
            raise self._refusal(full)  # all memory there is is wanted: nobody can go anywhere
        for limit, more in product(_LIMITS, _MORE):
            while shortage and self._move(shortage, limit, more):
                shortage = self._shortage(self.zone)
        if shortage:
            raise self._refusal(shortage)

    def _refusal(self, shortage: MemoryShortage) -> NotEnoughMemoryError:
        return NotEnoughMemoryError(
            f"{self._new.key}: there is no room for {format_size(self._new.amount)} of memory: "
            f"nodes {CpuSet(shortage.nodes)} are short of {format_size(shortage.missing)}"
        )

    @property
    def zone(self) -> int:
        """The zone of the new request."""
        return self._placements.by_key[self._new.key].zone

    @property
    def moved(self) -> dict[Key, int]:
        """The new zones of all others whose zone is another one now."""
        return {
            key: placement.zone
            for key, placement in self._placements.by_key.items()
            if key != self._new.key and placement is not self._before[key]
        }

    def _shortage(self, zone: int) -> MemoryShortage | None:
        """What the new request would be short of in a zone, as the others are now."""
        amount = self._new.amount
        others = {**self._placements.demand, self.zone: self._placements.demand[self.zone] - amount}
        return find_shortage(self._nodes.capacities, others, zone, amount)

    def _move(self, shortage: MemoryShortage, limit: MemoryPriority, more: frozenset[MemoryKind]) -> bool:
        """Widen the zones of so many requests that the shortage is over where it is; whether there was one at all."""
        missing = shortage.missing
        wider: dict[tuple[int, int], int] = {}  # many have the same zone and kinds
        for placement in self._users(shortage.nodes, limit):
            if missing <= 0:
                break
            request = placement.request
            among = self._nodes.of_kinds(request.kinds if request.strict else request.kinds | more)
            case = (placement.zone, among)
            if case not in wider:
                wider[case] = self._wider(placement.zone, among, shortage.nodes)
            if wider[case]:
                self._placements.put(replace(placement, zone=wider[case]))
                missing -= request.amount
        return missing < shortage.missing

    def _users(self, nodes: int, limit: MemoryPriority) -> list[_Placement]:
        """Those that have nothing but these nodes, in the order in which they make room."""
        found = [
            placement
            for placement in reversed(self._placements.by_key.values())
            if placement.request.amount
            and placement.request.priority <= limit
            and (zone := placement.zone & self._nodes.every)
            and not zone & ~nodes
        ]
        return sorted(found, key=lambda placement: (placement.request.priority, placement.request.amount))

    def _wider(self, zone: int, among: int, nodes: int) -> int:
        """The zone with the closest nodes, and the next, until one is not among those given; 0 without such."""
        while not zone & self._nodes.every & ~nodes:
            added = self._nodes.closest(zone, among)
            if not added:
                return 0
            zone |= added
        return zone


def _listed(kinds: Iterable[MemoryKind]) -> str:
    return ", ".join(sorted(kinds))
