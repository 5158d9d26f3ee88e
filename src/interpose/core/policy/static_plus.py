"""The policy static-plus: whole CPUs of their own for all containers that ask for some, shares of the rest.

Every CPU is in one of three pools of the state, or in one grant: `reserved` (never given away), `isolated` and `shared`
(what is left of them). Invariants besides those of every policy: containers of kube-system have the reserved pool and
nothing else; containers that share CPUs have pool shared, and those that no longer fit in there, by their order of
creation, have the reserved pool too; a container with whole CPUs only has these alone, whatever the others do.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from interpose.core.cpuallocator.allocator import take
from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cgroup import shares_of
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.annotations import prefers_isolated
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import NO_QUOTA, Action, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.pod_amounts import exclusive_room
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static.options import StaticPlusOptions
from interpose.core.policy.static.partition import all_memory, divide
from interpose.core.topology.topology import Topology

SYSTEM_NAMESPACE: Final = "kube-system"
RESERVED: Final = "reserved"
ISOLATED: Final = "isolated"
SHARED: Final = "shared"
_TITLES: Final[Mapping[str, str]] = {ISOLATED: "isolated CPUs", SHARED: "pool shared"}
_FITTING: Final = (SHARED,)
_SPILLED: Final = (SHARED, RESERVED)
_ARRIVAL: Final = "came"  # in a grant's details: the container's number in the order of creation
_MAX_ARRIVAL: Final = 18  # digits; whatever is longer was not written here
_NOTHING: Final = Grant()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """CPUs found for a container, or why none were."""

    cpus: CpuSet = EMPTY
    candidates: tuple[Candidate, ...] = ()
    reason: str = ""
    refusal: Refusal | None = None


class StaticPlusPolicy:
    """Decides by the amount a container asks for; its QoS class does not matter."""

    notes: Final[tuple[str, ...]] = ()

    def __init__(self, setup: Setup, options: StaticPlusOptions) -> None:
        self._topology = setup.topology
        self._options = options
        partition = divide(setup, partial(_pick_reserved, setup.topology), strict=False)
        self._kinds: Mapping[str, CpuSet] = {
            ISOLATED: partition.isolated,
            SHARED: partition.ordinary - partition.reserved,
        }
        self._state = PolicyState({RESERVED: partition.reserved, **self._kinds})
        # Grants are in the order of the calls, which after a restart is not the order in which containers were created.
        self._arrivals: dict[Key, int] = {}
        self._last = 0

    @property
    def name(self) -> str:
        """The name of the policy in settings."""
        return "static-plus"

    @property
    def state(self) -> PolicyState:
        """Pools and grants, to be read only."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """The shared pool; the reserved one while that is empty."""
        return self._state.pool(SHARED) or self._state.pool(RESERVED)

    def pools(self) -> Mapping[str, CpuSet]:
        """The pools of the state: reserved, isolated, shared."""
        return self._state.pools

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """Whole CPUs as far as it asks for some, a share of the pool for what is left over."""
        return self._decide(Action.ALLOCATE, request, held)

    def resize(self, request: Request) -> Decision:
        """The same for other amounts; CPUs of its own stay as long as it needs so many."""
        return self._decide(Action.RESIZE, request, None)

    def release(self, key: Key) -> Decision:
        """Its CPUs go back to where they came from."""
        grant = self._state.drop(key)
        if grant is None:
            return Decision(action=Action.RELEASE, key=key, reason="it held nothing")
        del self._arrivals[key]
        self._update_pools(self._free(grant.exclusive))
        reason = f"CPUs {grant.exclusive} are free again" if grant.exclusive else "it had no CPUs of its own"
        return Decision(action=Action.RELEASE, key=key, reason=reason, changed=self._state.changes())

    # -- deciding; nothing is written before it is clear that nothing is refused

    def _decide(self, action: Action, request: Request, held: Grant | None) -> Decision:
        current = self._state.grants.get(request.key)
        before = current or held or _NOTHING
        # CPUs of its grant are its own, CPUs of an earlier run only if no other container has them now.
        free = self._free(current.exclusive if current else EMPTY)
        own = before.exclusive & CpuSet.union(free.values())
        if request.namespace == SYSTEM_NAMESPACE:
            grant = self._grant(before, pools=(RESERVED,), milli=request.milli, shares=shares_of(request.milli))
            choice = _Choice(reason=f"namespace {SYSTEM_NAMESPACE}: the reserved CPUs")
        else:
            full, part = self._split(request, _NOTHING if current else before)
            choice = self._choose(request, full, part, own, free)
            grant = self._grant(
                before,
                exclusive=choice.cpus,
                pools=_FITTING if part or not full else (),
                milli=part,
                # One that asks for nothing itself has the kubelet's shares, which are those of its pod.
                shares=shares_of(part or request.milli) if request.milli or request.pod_amounts is None else None,
                quota=self._quota(request, whole=bool(full) and not part),
            )
        if choice.refusal is not None:
            return Decision(
                action=action,
                key=request.key,
                refusal=choice.refusal,
                reason=choice.refusal.message,
                candidates=choice.candidates,
            )
        arrival = self._arrival_number(before)
        self._arrivals[request.key] = arrival
        self._last = max(self._last, arrival)
        self._state.put(request.key, replace(grant, details={_ARRIVAL: str(arrival)}))
        self._update_pools({name: cpus - choice.cpus for name, cpus in free.items()})
        changed = tuple(key for key in self._state.changes() if key != request.key)
        written = self._state.grants[request.key]
        spilled = SHARED in written.pools and RESERVED in written.pools
        return Decision(
            action=Action.KEEP if action is Action.ALLOCATE and written == (current or held) else action,
            key=request.key,
            grant=written,
            reason=choice.reason + ("; pool shared is full, so the reserved CPUs too" if spilled else ""),
            candidates=choice.candidates,
            changed=changed,
        )

    def _split(self, request: Request, held: Grant) -> tuple[int, int]:
        """Whole CPUs and thousandths of one that a container asks for; none whole if its pod asks for fewer in all.

        One that shared for that reason before a restart goes on to share, although others of its pod have ended.
        """
        full, part = divmod(request.milli, 1000)
        room = exclusive_room(request, self._state.grants)
        if room is not None and _ARRIVAL in held.details and not held.exclusive and held.milli == request.milli:
            room = 0
        return (full, part) if room is None or full <= room else (0, request.milli)

    def _choose(self, request: Request, full: int, part: int, own: CpuSet, free: Mapping[str, CpuSet]) -> _Choice:
        """`full` CPUs: those it has, the others all of one kind."""
        if not full:
            crowded = request.milli >= 1000
            why = "other containers have the CPUs that its pod asks for in all" if crowded else "less than one CPU"
            return _Choice(reason=f"{why}: a share of pool shared")
        try:
            usual = prefers_isolated(request) is not False
        except ValueError as error:
            return _Choice(refusal=Refusal(kind=RefusalKind.INVALID, message=str(error)))
        if not usual:
            own -= free[ISOLATED]
        tail = f", and {part}m of pool shared" if part else ""
        if len(own) >= full:
            cpus = take(self._topology, own, full, keep=own).cpus
            verb = "keeps CPUs" if cpus == own else "gives CPUs back and keeps"
            return _Choice(cpus=cpus, reason=f"{verb} {cpus} of its own{tail}")
        rejected: list[Candidate] = []
        # Isolated ones first, unless it has others already.
        for name in sorted(_TITLES, key=lambda name: -len(own & free[name])):
            kind = Candidate(name=_TITLES[name], cpus=free[name], score=f"{len(free[name])} free")
            if name == ISOLATED and not usual:
                rejected.append(replace(kind, reason="the pod does not want them"))
                continue
            if len(free[name] | own) < full:
                rejected.append(replace(kind, reason=f"{_cpus(full)} needed"))
                continue
            taken = take(self._topology, free[name] | own, full, keep=own)
            if reason := self._explain_crowding(request.key, part, free[SHARED] - own, taken.cpus):
                rejected.append(replace(kind, reason=reason))
                continue
            place = next((f", {candidate.name}" for candidate in taken.candidates if candidate.chosen), "")
            return _Choice(
                cpus=taken.cpus,
                candidates=(*rejected, replace(kind, chosen=True, reason=f"{_cpus(full)} needed"), *taken.candidates),
                reason=f"{_cpus(full)} of its own: {kind.name}{place}{tail}",
            )
        summary = "; ".join(f"{kind.name}: {kind.score}, {kind.reason}" for kind in rejected)
        message = f"{_cpus(full)} of its own cannot be had: {summary}"
        return _Choice(candidates=tuple(rejected), refusal=Refusal(kind=RefusalKind.EXHAUSTED, message=message))

    def _explain_crowding(self, key: Key, part: int, shared: CpuSet, taken: CpuSet) -> str:
        """What is wrong with taking these from pool shared; empty if nothing is.

        Containers that share use the reserved CPUs when no other is left, so these must be enough for all of them.
        """
        if not taken & shared or shared - taken:
            return ""
        milli = part + sum(grant.milli for other, grant in self._sharers() if other != key)
        room = 1000 * len(self._state.pool(RESERVED))
        if milli <= room:
            return ""
        return f"the last of them are needed by those that share: {milli}m do not fit in the reserved {room}m"

    def _grant(
        self,
        before: Grant,
        *,
        exclusive: CpuSet = EMPTY,
        pools: tuple[str, ...],
        milli: int,
        shares: int | None,
        quota: int | None = None,
    ) -> Grant:
        mems = None
        if self._options.pin_memory and not pools:
            mems = self._topology.memory_near(exclusive) or None
        if mems is None and before.mems is not None:
            # It was bound to some nodes, and stays so until others are written.
            mems = all_memory(self._topology) or None
        return Grant(exclusive=exclusive, pools=pools, mems=mems, shares=shares, quota=quota, milli=milli)

    def _quota(self, request: Request, *, whole: bool) -> int | None:
        """No CFS quota for one with CPUs of its own only; one that shares some as well must not take more of these."""
        return NO_QUOTA if self._options.lift_quota and whole and request.amounts.quota else None

    # -- pools

    def _free(self, own: CpuSet) -> Mapping[str, CpuSet]:
        """Free CPUs by kind, the CPUs in `own` counted as free."""
        return {name: self._state.pool(name) | (own & cpus) for name, cpus in self._kinds.items()}

    def _sharers(self) -> Iterator[tuple[Key, Grant]]:
        """Containers that have pool shared, with their grants."""
        return ((key, grant) for key, grant in self._state.grants.items() if SHARED in grant.pools)

    def _arrival_number(self, before: Grant) -> int:
        """A container's number in the order of creation: the one in its grant, else the next one."""
        text = before.details.get(_ARRIVAL, "")
        return int(text) if text.isdecimal() and len(text) <= _MAX_ARRIVAL else self._last + 1

    def _update_pools(self, free: Mapping[str, CpuSet]) -> None:
        """Set the pools to what is free, and give the reserved CPUs to the containers that no longer fit."""
        for name, cpus in free.items():
            self._state.set_pool(name, cpus)
        shared = self._state.pool(SHARED)
        room = 1000 * len(shared) if shared else -1
        for key, grant in sorted(self._sharers(), key=lambda sharer: self._arrivals[sharer[0]]):
            room -= grant.milli
            pools = _FITTING if room >= 0 else _SPILLED
            if grant.pools != pools:
                self._state.put(key, replace(grant, pools=pools))


def _pick_reserved(topology: Topology, cpus: CpuSet, count: int) -> CpuSet:
    """CPUs for the system: CPU 0 if one is enough, as interrupts go there first; else some that are near each other."""
    if count == 1 and 0 in cpus:
        return CpuSet.of((0,))
    return take(topology, cpus, count).cpus


def _cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"
