"""The policy `static`: whole CPUs of their own for Guaranteed containers, as the kubelet's static CPU manager.

Pools: `shared` (CPUs without an exclusive owner; every other container runs there, from its start on),
`reserved` (never exclusive; part of `shared` unless strict-cpu-reservation is on) and `isolated` (those
of the kernel's isolated CPUs that are free). Invariants: what containers hold alone, `shared` and `isolated` together
are all CPUs of the policy, and no CPU is in two of them; `shared` is never empty.
"""

from collections.abc import Mapping
from typing import Final

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import NO_QUOTA, Action, Decision, Grant
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.partition import all_memory, check_options, divide
from interpose.core.policy.static.reasons import shared_reason
from interpose.core.policy.static.search import CpuSearch, CpuSearchResult, CpuStock, CpuTaker
from interpose.core.topology.topology import Topology

SHARED: Final = "shared"
RESERVED: Final = "reserved"
ISOLATED: Final = "isolated"
ASSIGNABLE: Final = "assignable"


def exclusive_count(request: Request) -> int:
    """How many exclusive CPUs a container gets; 0: it shares CPUs, as all do whose pod has amounts of its own."""
    if request.pod_amounts is not None:
        return 0
    whole = request.qos is KubeQos.GUARANTEED and request.milli > 0 and request.milli % 1000 == 0
    return request.milli // 1000 if whole else 0


class StaticPolicy:
    """The policy `static` on one machine, with one set of options."""

    name: Final = "static"
    notes: Final[tuple[str, ...]] = ()

    def __init__(self, setup: Setup, options: StaticOptions) -> None:
        check_options(options)
        self._topology: Topology = setup.topology
        self._options = options
        self._chooser = CpuTaker(setup.topology, options)
        self._search = CpuSearch(setup.topology, options, self._chooser)
        partition = divide(setup, self._chooser.pick, strict=options.strict_cpu_reservation)
        self._isolated, self._reserved = partition.isolated, partition.reserved
        self._state = PolicyState(
            {
                SHARED: partition.ordinary - partition.reserved
                if options.strict_cpu_reservation
                else partition.ordinary,
                RESERVED: partition.reserved,
                ISOLATED: partition.isolated,
            }
        )

    @property
    def state(self) -> PolicyState:
        """Pools and grants, to be read only."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """The shared pool, which is never empty."""
        return self._state.pool(SHARED)

    def pools(self) -> Mapping[str, CpuSet]:
        """The pools of the state, and the CPUs that can still become exclusive, isolated ones not counted."""
        return {**self._state.pools, ASSIGNABLE: self._assignable}

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """CPUs of its own or the shared pool. One that is known already is treated as by `resize`."""
        if request.key in self._state.grants:
            return self.resize(request)
        own = EMPTY
        if held is not None:
            own = self._chooser.usable(held.exclusive & (self._assignable | self._state.pool(ISOLATED)))
        return self._decide(Action.ALLOCATE, request, held, own)

    def resize(self, request: Request) -> Decision:
        """It keeps its own CPUs as far as it may, gives back what is too much, and takes more next to them."""
        grant = self._state.grants.get(request.key)
        if grant is None:
            return self.allocate(request)
        if len(grant.exclusive) == exclusive_count(request) and grant.quota == self._quota(request):
            return Decision(action=Action.KEEP, key=request.key, grant=grant, reason="it has what it asks for")
        return self._decide(Action.RESIZE, request, grant, grant.exclusive)

    def release(self, key: Key) -> Decision:
        """Its own CPUs go back to where they came from."""
        grant = self._state.drop(key)
        if grant is None:
            return Decision(action=Action.RELEASE, key=key, reason="it held nothing")
        self._move(grant.exclusive, EMPTY)
        reason = f"gives back CPUs {grant.exclusive}" if grant.exclusive else "it held no CPUs of its own"
        return Decision(action=Action.RELEASE, key=key, reason=reason, changed=self._state.changes())

    # -- deciding

    def _decide(self, action: Action, request: Request, before: Grant | None, own: CpuSet) -> Decision:
        """`before`: what it has or had; `own`: those of its CPUs that it may keep."""
        count = exclusive_count(request)
        found = (
            self._search.find(request, count, self._stock(own))
            if count
            else CpuSearchResult(reason=shared_reason(request))
        )
        grant = None
        changed: tuple[Key, ...] = ()
        if found.refusal is None:
            pools = () if count else (SHARED,)
            mems = self._mems(found.cpus, before)
            grant = Grant(exclusive=found.cpus, pools=pools, mems=mems, quota=self._quota(request))
            changed = self._commit(request.key, grant, own)
            if before is not None and (before.exclusive, before.pools) == (grant.exclusive, grant.pools):
                action = Action.KEEP
        return Decision(
            action=action,
            key=request.key,
            grant=grant,
            refusal=found.refusal,
            reason=found.reason,
            candidates=found.candidates,
            changed=changed,
        )

    def _stock(self, own: CpuSet) -> CpuStock:
        isolated = self._state.pool(ISOLATED) | (own & self._isolated)
        return CpuStock(ordinary=self._assignable | (own - self._isolated), isolated=isolated, own=own)

    def _mems(self, exclusive: CpuSet, before: Grant | None) -> CpuSet | None:
        near = self._topology.memory_near(exclusive) if exclusive and self._options.pin_memory else EMPTY
        if not near and before is not None and before.mems is not None:
            near = all_memory(self._topology)  # nothing written would leave it bound to where it was
        return near or None

    def _quota(self, request: Request) -> int | None:
        """No CFS quota for one with CPUs of its own: nobody else could use what it takes away."""
        lifted = self._options.lift_quota and request.amounts.quota and exclusive_count(request)
        return NO_QUOTA if lifted else None

    def _commit(self, key: Key, grant: Grant, own: CpuSet) -> tuple[Key, ...]:
        self._move(own - grant.exclusive, grant.exclusive)
        self._state.put(key, grant)
        return tuple(other for other in self._state.changes() if other != key)

    def _move(self, back: CpuSet, out: CpuSet) -> None:
        """CPUs that come back to their pools, and CPUs that leave them."""
        state, isolated = self._state, self._isolated
        state.set_pool(SHARED, (state.pool(SHARED) | (back - isolated)) - out)
        state.set_pool(ISOLATED, (state.pool(ISOLATED) | (back & isolated)) - out)

    @property
    def _assignable(self) -> CpuSet:
        return self._state.pool(SHARED) - self._reserved
