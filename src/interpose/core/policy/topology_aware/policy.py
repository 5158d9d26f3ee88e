"""The policy topology-aware: containers get CPUs and memory of one pool of the machine, as narrow as it can be.

Pools are the parts of the machine: itself, its sockets, dies, NUMA nodes, L3 caches. The pools of the state are their
free CPUs, by their names, and the reserved CPUs. Containers that share CPUs of a pool have what is free there; CPUs
that one gets alone leave all pools that they are in. Invariants besides those of every policy: in no pool do containers
use more than is free in it (see `supply`), except that containers that ask for no CPU have the reserved ones where none
is left; a container that runs stays in its pool and on its CPUs as long as these are enough for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from interpose.core.cpuallocator.allocator import take
from interpose.core.cpuallocator.cost import Candidate
from interpose.core.memoryallocator.request import MemoryChange
from interpose.core.model.cpuset import EMPTY, CpuSet, name_cpus
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.pool_report import PoolReport
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static.partition import all_memory, divide
from interpose.core.policy.topology_aware.affinity import Affinity, RequestIndex, read_affinities, weigh_pools
from interpose.core.policy.topology_aware.grants import (
    RESERVED,
    HeldGrant,
    make_grant,
    place_name,
    thinned,
    thinned_name,
    with_rest,
    without_cold_start,
)
from interpose.core.policy.topology_aware.memory_zones import MemoryZones
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.core.policy.topology_aware.placement import (
    CpuSource,
    HeldPlace,
    Misplacement,
    PlaceFinder,
    Placement,
    describe_wish,
)
from interpose.core.policy.topology_aware.pod_bookings import PodBooking, PodBookings
from interpose.core.policy.topology_aware.pool_reports import report_tree
from interpose.core.policy.topology_aware.pool_tree import PoolTree, TreePool
from interpose.core.policy.topology_aware.preferences import ContainerWish, CpuOffer, WishReader, find_unused
from interpose.core.policy.topology_aware.supply import CpuSupply
from interpose.core.topology.topology import MemoryKind, Topology

_ISOLATED: Final = "isolated"
_HIDDEN: Final = "idle siblings"
_MILLI: Final = 1000


class TopologyAwarePolicy:
    """Decides by the class of a pod, the amount a container asks for, and where on the machine there is room."""

    name: Final = "topology-aware"

    def __init__(self, setup: Setup, options: TopologyAwareOptions) -> None:
        topology = self._topology = setup.topology
        self._options = options
        partition = divide(setup, partial(_pick_reserved, topology), strict=False)
        self._isolated = partition.isolated
        self._reserved = partition.reserved
        sharable = partition.ordinary - partition.reserved
        self._tree = PoolTree.of(topology, partition.ordinary | partition.isolated)
        self._supply = CpuSupply(topology, self._tree, partition.isolated, sharable)
        self._zones = MemoryZones(topology)
        pinned_zones = self._zones if options.pin_memory else None
        self._finder = PlaceFinder(topology, self._tree, self._supply, pinned_zones)
        kinds = frozenset(node.memory for node in topology.nodes if node.memory_bytes) - {MemoryKind.NONE}
        self._wishes = WishReader(options, kinds)
        self._places: dict[Key, Placement] = {}
        self._index = RequestIndex()
        self._pods = PodBookings()
        self._reserved_milli = 0
        self._cold: dict[Key, float] = {}  # seconds after their start until they get DRAM
        self._thinned: dict[str, TreePool | None] = {}  # by the name of a thinned pool: that pool, None: reserved CPUs
        from_top = {pool.name: pool.cpus & sharable for pool in self._tree.from_top}
        self._state = PolicyState({RESERVED: partition.reserved, **from_top})
        self._notes = () if sharable else (f"CPUs {partition.reserved} are reserved, and no other is there to share",)

    @property
    def state(self) -> PolicyState:
        """Pools and grants, to be read only."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """The free CPUs of the widest pool; the reserved ones while it has none."""
        return self._state.pool(self._tree.root.name) or self._state.pool(RESERVED)

    @property
    def notes(self) -> tuple[str, ...]:
        """A remark if there is nothing to share."""
        return self._notes

    def pools(self) -> Mapping[str, CpuSet]:
        """The pools of the tree, what is left of isolated CPUs, and siblings that nobody runs on."""
        pools = {name: cpus for name, cpus in self._state.pools.items() if name not in self._thinned}
        hidden = CpuSet.union(
            place.cpus - self._state.grants[key].exclusive for key, place in self._places.items() if place.cpus
        )
        return {
            **pools,
            **({_ISOLATED: self._supply.isolated} if self._isolated else {}),
            **({_HIDDEN: hidden} if hidden else {}),
        }

    def report_pools(self) -> Sequence[PoolReport]:
        """The reserved CPUs and the tree, with what is free and granted in each pool."""
        return [*report_tree(self._tree, self._supply, self._reserved, self._places)]

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """CPUs of its own as far as it is entitled to, a share of a pool else."""
        return self._decide(Action.ALLOCATE, request, held)

    def resize(self, request: Request) -> Decision:
        """The same for other amounts, in the same pool and next to the same CPUs if they are enough."""
        return self._decide(Action.RESIZE, request, None)

    def release(self, key: Key) -> Decision:
        """Its CPUs go back to the pools that they are in."""
        grant = self._state.drop(key)
        if grant is None:
            return Decision(action=Action.RELEASE, key=key, reason="it held nothing")
        place = self._places.pop(key)
        self._withdraw(place)
        self._zones.release(key)
        self._cold.pop(key, None)
        self._index.drop(key)
        self._pods.drop(key)
        self._inherit(key.pod_id)
        self._set_pools(place.cpus)
        free = f"{name_cpus(place.cpus)} {'is' if len(place.cpus) == 1 else 'are'} free again"
        reason = free if place.cpus else "it had no CPUs of its own"
        return Decision(action=Action.RELEASE, key=key, reason=reason, changed=self._state.changes())

    # -- memory that changes without a decision

    def widen(self, key: Key) -> tuple[Key, ...]:
        """The nearest further nodes for a container whose own are full; none if its memory is not ours to choose."""
        change = self._zones.widen(key)
        if change is None or change.zone == self._state.grants[key].mems:
            return ()
        self._state.put(key, replace(self._state.grants[key], mems=change.zone))
        return self._state.changes()

    def cold_starts(self) -> Mapping[Key, float]:
        """Containers that have no DRAM yet, and for how many seconds after their start."""
        return MappingProxyType(self._cold)

    def end_cold_start(self, key: Key) -> tuple[Key, ...]:
        """A container has started: it gets DRAM, too. Returns the containers that have other memory now."""
        if self._cold.pop(key, None) is None:
            return ()
        change, grant = self._zones.add_dram(key), self._state.grants[key]
        self._state.put(key, replace(grant, mems=change.zone, details=without_cold_start(grant.details)))
        self._move_memory(change)
        return self._state.changes()

    # -- deciding; nothing is written before it is clear that nothing is refused

    def _decide(self, action: Action, request: Request, held: Grant | None) -> Decision:
        key = request.key
        current = self._state.grants.get(key)
        before = current or held
        known = None if before is None else HeldGrant.of(before)
        try:
            wish = self._read_wish(request, known)
            affinities = read_affinities(request)
        except ValueError as error:
            return _refuse(action, key, RefusalKind.INVALID, str(error))
        mine = self._places.get(key)
        if mine is not None:
            self._withdraw(mine)
        carried = self._reduce_rests(request, wish)
        wish = self._add_rest(request, wish, known)
        found = self._find(request, wish, known, affinities)
        if isinstance(found, Misplacement):
            for other, rest in carried.items():
                self._carry(other, rest)
            if mine is not None:
                self._deposit(mine)
            return _refuse(action, key, RefusalKind.EXHAUSTED, found.message, found.candidates)
        change = self._find_memory(request, wish, found, known, mine)
        self._deposit(found)
        self._places[key] = found
        self._index.put(request, found.pool.id)
        self._book_pod(request, wish)
        self._cold.pop(key, None)
        if change is None:
            wish = replace(wish, memory=replace(wish.memory, cold_start=0))
        elif wish.memory.cold_start:
            self._cold[key] = wish.memory.cold_start
        mems = change.zone if change is not None else self._unbound(before)
        unbound = change is None and mems is not None
        grant = make_grant(self._topology, self._options, request, wish, found, mems, unbound=unbound)
        self._add_thinned(grant, found)
        self._state.put(key, grant)
        if change is not None:
            self._move_memory(change)
        self._set_pools(found.cpus if mine is None else found.cpus | mine.cpus)
        changed = tuple(other for other in self._state.changes() if other != key)
        return Decision(
            action=Action.KEEP if action is Action.ALLOCATE and grant == before else action,
            key=key,
            grant=grant,
            reason=_reason(request, wish, found),
            candidates=found.candidates,
            changed=changed,
        )

    def _read_wish(self, request: Request, known: HeldGrant | None) -> ContainerWish:
        wish = self._wishes.read(request, self._own_left(request, known))
        if known is not None and known.pool and not known.cold:  # it has started long ago
            wish = replace(wish, memory=replace(wish.memory, cold_start=0))
        return wish

    def _own_left(self, request: Request, known: HeldGrant | None) -> int:
        """How many CPUs of its own a container may have if its pod says what it needs as a whole."""
        if request.pod_amounts is None:
            return 0
        if known is not None and known.pool and not known.own and known.grant.milli - known.rest == request.milli:
            return 0  # it had none, and runs already
        pod = request.key.pod_id
        held = sum(len(place.cpus) for key, place in self._places.items() if key.pod_id == pod and key != request.key)
        return max(0, request.pod_amounts.milli // _MILLI - held)

    # -- pods that ask for CPUs as a whole

    def _reduce_rests(self, request: Request, wish: ContainerWish) -> dict[Key, int]:
        """Others of its pod carry less by what a container asks for itself: what they carried before."""
        if request.pod_amounts is None:
            return {}
        reduced = self._pods.reduced(request.key, request.pod_amounts, wish.cpu.own)
        bookings = self._pods.of_pod(request.key.pod_id)
        before = {key: bookings[key].rest for key in reduced}
        for key, rest in reduced.items():
            self._carry(key, rest)
        return before

    def _add_rest(self, request: Request, wish: ContainerWish, known: HeldGrant | None) -> ContainerWish:
        """A wish with what the container is to carry of the rest of its pod."""
        if request.pod_amounts is None or wish.cpu.offer is CpuOffer.PRESERVED:
            return wish
        held = known.rest if known is not None and known.pool else None
        rest = self._pods.rest_for(request.key, request.pod_amounts, wish.cpu.own, held)
        return replace(wish, cpu=replace(wish.cpu, rest=rest))

    def _book_pod(self, request: Request, wish: ContainerWish) -> None:
        """Remember what a container books of its pod."""
        if request.pod_amounts is None:
            self._pods.drop(request.key)
        else:
            total = request.pod_amounts.milli
            self._pods.put(request.key, PodBooking(total=total, own=wish.cpu.own, rest=wish.cpu.rest))

    def _inherit(self, pod_id: str) -> None:
        """Others of a pod carry what nobody of it books any more, as far as their pools have room."""
        for key, booking in tuple(self._pods.of_pod(pod_id).items()):
            more = min(self._pods.unbooked(pod_id), self._room(self._places[key]))
            if more > 0:
                self._carry(key, booking.rest + more)

    def _carry(self, key: Key, rest: int) -> None:
        """Let a container carry so much of the rest of its pod. What it has stays the same."""
        place, booking = self._places[key], self._pods.of_pod(key.pod_id)[key]
        self._pods.put(key, replace(booking, rest=rest))
        self._withdraw(place)
        self._places[key] = place.booking(booking.own - _MILLI * len(place.cpus) + rest)
        self._deposit(self._places[key])
        self._state.put(key, with_rest(self._state.grants[key], rest))

    def _room(self, place: Placement) -> int:
        """How much more can be booked where a container is."""
        if place.source is CpuSource.RESERVED:
            return _MILLI * len(self._reserved) - self._reserved_milli
        balances = self._supply.balances()
        return min(balances[number] for number in place.pool.path) if place.source is CpuSource.POOL else 0

    # -- places

    def _find(
        self, request: Request, wish: ContainerWish, known: HeldGrant | None, affinities: tuple[Affinity, ...]
    ) -> Placement | Misplacement:
        root = self._tree.root
        if wish.cpu.offer is CpuOffer.PRESERVED:
            return Placement(pool=root, source=CpuSource.PRESERVED, reason="its CPUs are left alone")
        if wish.cpu.offer is CpuOffer.RESERVED:
            return self._find_reserved(request, wish, known, affinities)
        asks = wish.cpu.own or wish.cpu.rest
        if known is not None and known.pool and known.is_spilled and not asks:
            return self._spilled()
        found = self._find_in_pool(request, wish, known, affinities)
        return self._spilled() if isinstance(found, Misplacement) and not asks else found

    def _find_reserved(
        self, request: Request, wish: ContainerWish, known: HeldGrant | None, affinities: tuple[Affinity, ...]
    ) -> Placement:
        """The reserved CPUs; a pool if they are in use; the reserved CPUs all the same if there is no room either."""
        part = wish.cpu.part + wish.cpu.rest
        reserved = Placement(
            pool=self._tree.root,
            source=CpuSource.RESERVED,
            milli=part,
            reason=f"the reserved {name_cpus(self._reserved)}",
        )
        overflows = known is not None and known.overflow
        fits = self._reserved_milli + part <= _MILLI * len(self._reserved)
        if (known is not None and known.is_reserved) or (fits and not overflows):
            return reserved
        found = self._find_in_pool(request, wish, known, affinities)
        if isinstance(found, Misplacement):
            return replace(reserved, reason=f"{reserved.reason}, which are overbooked, and no pool has room")
        return replace(found, reason=f"the reserved CPUs are in use, {found.reason}")

    def _spilled(self) -> Placement:
        reason = "no pool has a CPU to share, so the reserved ones"
        return Placement(pool=self._tree.root, source=CpuSource.SPILLED, reason=reason)

    def _find_in_pool(
        self, request: Request, wish: ContainerWish, known: HeldGrant | None, affinities: tuple[Affinity, ...]
    ) -> Placement | Misplacement:
        own = EMPTY if known is None else known.own & self._supply.free
        pool = None if known is None else self._tree.by_name.get(known.pool)
        if pool is None and own:
            pool = self._tree.narrowest(own)
        if pool is not None:
            kept = self._finder.keep(wish, HeldPlace(pool=pool, cpus=own))
            if kept is not None:
                return kept
        if affinities:
            weights = weigh_pools(request, affinities, self._index)
        elif self._options.colocate_pods or self._options.colocate_namespaces:
            weights = self._index.colocated(
                request, pods=self._options.colocate_pods, namespaces=self._options.colocate_namespaces
            )
        else:
            weights = {}
        return self._finder.choose(request, wish, own, weights)

    def _withdraw(self, place: Placement) -> None:
        if place.source is CpuSource.POOL:
            self._supply.remove(place.pool, place.cpus, place.milli)
        elif place.source is CpuSource.RESERVED:
            self._reserved_milli -= place.milli

    def _deposit(self, place: Placement) -> None:
        if place.source is CpuSource.POOL:
            self._supply.add(place.pool, place.cpus, place.milli)
        elif place.source is CpuSource.RESERVED:
            self._reserved_milli += place.milli

    # -- memory

    def _find_memory(
        self, request: Request, wish: ContainerWish, place: Placement, known: HeldGrant | None, mine: Placement | None
    ) -> MemoryChange | None:
        """Memory nodes near a pool, those that it has if it stays there; None: they are not written."""
        if not self._options.pin_memory or wish.memory.preserved or not place.pool.nodes:
            self._zones.release(request.key)
            return None
        asked = self._zones.ask(request, wish.memory, place.pool)
        zone = known.mems if known is not None and known.pool == place_name(place) else None
        if zone and zone <= self._tree.root.nodes and (mine is None or self._zones.has(asked)):
            return self._zones.restore(asked, zone)
        return self._zones.allocate(asked)

    def _unbound(self, before: Grant | None) -> CpuSet | None:
        """Nothing written would leave a container bound to where it was."""
        return all_memory(self._topology) or None if before is not None and before.mems is not None else None

    def _move_memory(self, change: MemoryChange) -> None:
        """Others made room: they have more memory nodes."""
        for key, zone in change.moved.items():
            self._state.put(key, replace(self._state.grants[key], mems=zone))

    # -- pools of the state

    def _add_thinned(self, grant: Grant, place: Placement) -> None:
        """Pools without siblings, as soon as somebody has one."""
        for name, pool in ((place.pool.name, place.pool), (RESERVED, None)):
            thin = thinned_name(name)
            if thin in grant.pools and thin not in self._thinned:
                self._thinned[thin] = pool
                self._set_thinned(thin)

    def _set_thinned(self, name: str) -> None:
        pool = self._thinned[name]
        cpus = self._reserved if pool is None else pool.cpus & self._supply.sharable
        self._state.set_pool(name, thinned(self._topology, cpus))

    def _set_pools(self, cpus: CpuSet) -> None:
        """Set the pools that have some of these CPUs to what is free in them."""
        for pool in self._tree.pools:
            if pool.cpus & cpus:
                self._state.set_pool(pool.name, pool.cpus & self._supply.sharable)
        for name, owner in self._thinned.items():
            if owner is not None and owner.cpus & cpus:
                self._set_thinned(name)


def _reason(request: Request, wish: ContainerWish, place: Placement) -> str:
    """One sentence on why a container has what it has."""
    unused = find_unused(request)
    ignored = f"; {', '.join(unused)} has no effect" if unused else ""
    if place.source is CpuSource.POOL:
        return f"{place.pool.name}: {describe_wish(wish)} ({wish.cpu.why}), {place.reason}{ignored}"
    return f"{wish.cpu.why}: {place.reason}{ignored}"


def _refuse(
    action: Action, key: Key, kind: RefusalKind, message: str, candidates: tuple[Candidate, ...] = ()
) -> Decision:
    refusal = Refusal(kind=kind, message=message)
    return Decision(action=action, key=key, refusal=refusal, reason=message, candidates=candidates)


def _pick_reserved(topology: Topology, cpus: CpuSet, count: int) -> CpuSet:
    """CPUs for the system: CPU 0 if one is enough, as interrupts go there first; else some that are near each other."""
    if count == 1 and 0 in cpus:
        return CpuSet.of((0,))
    return take(topology, cpus, count).cpus
