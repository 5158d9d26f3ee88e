"""The policy dynamic-pools: pools of CPUs that grow and shrink with requests and load.

A container is in the pool that its annotation or its namespace says. Every CPU but the reserved ones is in one pool; a
pool has at least the CPUs that its containers request, and what is left is in pool shared until loads are known
(`rebalance`), then where there is most to do. CPUs move only as far as sizes change. Invariants: no CPU is in two
pools, except that containers of pool shared run on the reserved ones while it has none; a pool without containers has
no CPUs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Final

from interpose.core.cpuallocator.allocator import take
from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.text import quoted
from interpose.core.policy.annotations import find_annotation
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.dynamic_pools.options import RESERVED, SHARED, DynamicPoolsOptions, type_problems
from interpose.core.policy.dynamic_pools.sizes import is_worth_moving, sizes_after_change, sizes_by_load
from interpose.core.policy.pod_amounts import PodTotals
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static.partition import all_memory, divide
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError

ANNOTATION: Final = "dynamic-pool.dynamic-pools"
SYSTEM_NAMESPACE: Final = "kube-system"

_CPUS: Final = "cpus"  # in a grant's details: the CPUs of its pool, so that a restart gives the pool the same ones
_HELD: Final = ("exclusive", "pools", "pinned")  # what is the same in a grant that is kept


class DynamicPoolsPolicy:
    """Decides by annotation and namespace which pool a container is in, and by requests and load what that has."""

    name: Final = "dynamic-pools"

    def __init__(self, setup: Setup, options: DynamicPoolsOptions) -> None:
        if problems := type_problems(options.types):
            raise ConfigError([f"policy.dynamic-pools.DynamicPoolTypes: {problem}" for problem in problems])
        topology = self._topology = setup.topology
        self._options = options
        partition = divide(setup, partial(_pick_reserved, topology), strict=False)
        self._ordinary = partition.ordinary - partition.reserved
        self._priorities = {pool.name: pool.priority for pool in options.types if pool.name not in (RESERVED, SHARED)}
        self._names = (SHARED, *self._priorities)  # pools with a size
        self._cpus: dict[str, CpuSet] = dict.fromkeys(self._names, EMPTY)
        self._cpus[SHARED] = self._ordinary
        self._milli = dict.fromkeys(self._names, 0)  # what the containers of a pool request
        self._count = dict.fromkeys(self._names, 0)  # how many there are
        self._totals = PodTotals()
        self._state = PolicyState(
            {RESERVED: partition.reserved, **self._cpus, SHARED: self._ordinary or partition.reserved}
        )
        self._mems = {name: topology.memory_near(cpus) or None for name, cpus in self._state.pools.items()}
        # Before the last decision, if that was about a new container: the runtime may refuse it.
        self._undo: tuple[Key, Mapping[str, CpuSet]] | None = None
        self._system = (SYSTEM_NAMESPACE, *options.reserved_namespaces)
        builtin = {pool.name: pool for pool in options.types if pool.name in (RESERVED, SHARED)}
        ordered = [builtin[name] for name in (RESERVED, SHARED) if name in builtin]
        self._namespaces = [(pool.name, pool.namespaces) for pool in (*ordered, *options.types)]
        isolated = topology.isolated & (setup.available or topology.online)
        self._notes = (
            *([f"CPUs {isolated} are isolated, so no pool has them"] if isolated else ()),
            *(
                f"pool {pool.name}: CpuClass {quoted(pool.cpu_class)} has no effect, frequencies of CPUs are not set"
                for pool in options.types
                if pool.cpu_class
            ),
        )

    @property
    def state(self) -> PolicyState:
        """Pools and grants, to be read only."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """Pool shared; the reserved CPUs while that has none."""
        return self._state.pool(SHARED)

    @property
    def notes(self) -> tuple[str, ...]:
        """CPUs that no pool has, and classes of CPUs, which are not known here."""
        return self._notes

    def pools(self) -> Mapping[str, CpuSet]:
        """The pools of the state."""
        return self._state.pools

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """The CPUs of its pool, which grows if its containers request more than it has."""
        return self._decide(Action.ALLOCATE, request, held)

    def resize(self, request: Request) -> Decision:
        """The same for other amounts. One that requested nothing at all may change its pool by that."""
        return self._decide(Action.RESIZE, request, None)

    def release(self, key: Key) -> Decision:
        """With the last container of a pool, its CPUs go to pool shared; until then they stay.

        One that goes before anything else has happened leaves all pools as they were before it came.
        """
        grant = self._state.drop(key)
        if grant is None:
            return Decision(action=Action.RELEASE, key=key, reason="it held nothing")
        (name,) = grant.pools
        heir = self._totals.heir(key, grant, self._state.grants)
        self._count_container(name, -grant.milli if heir is None else 0, -1)
        if heir is not None:
            held = self._state.grants[heir]
            self._state.put(heir, replace(held, milli=held.milli + grant.milli))
        if self._undo is not None and self._undo[0] == key:
            self._set_cpus(self._undo[1])
        self._undo = None
        self._set_sizes(sizes_after_change(self._needs(), self._sizes(), len(self._ordinary)))
        left = self._state.pool(name)
        reason = f"pool {name} keeps CPUs {left}" if left else f"it was the last of pool {name}, which has no CPUs now"
        return Decision(action=Action.RELEASE, key=key, reason=reason, changed=self._state.changes())

    def rebalance(self, load: Mapping[int, float]) -> tuple[Key, ...]:
        """Fit the sizes of pools to the load of each CPU; returns containers whose assignment is another one now."""
        loads = {name: sum(load.get(cpu, 0.0) for cpu in self._cpus[name]) for name in self._names}
        weights = {name: round(100 * loads[name]) if self._count[name] else 0 for name in self._names}
        if self._count[SHARED]:
            weights[SHARED] = max(1, weights[SHARED])
        before, after = self._sizes(), sizes_by_load(self._needs(), weights, len(self._ordinary))
        if not is_worth_moving(before, after, loads):
            return ()
        self._undo = None
        self._set_sizes(after)
        return self._state.changes()

    # -- deciding; nothing is written before it is clear that nothing is refused

    def _decide(self, action: Action, request: Request, held: Grant | None) -> Decision:
        key = request.key
        current = self._state.grants.get(key)
        before = current or held
        try:
            name, why = self._choose_pool(request)
        except ValueError as error:
            return _refuse(action, key, RefusalKind.INVALID, str(error))
        milli = self._totals.count(request, self._state.grants)
        if refusal := self._explain_shortage(name, milli, current):
            return _refuse(action, key, RefusalKind.EXHAUSTED, refusal, self._candidates(""))
        self._undo = (key, dict(self._cpus)) if before is None else None
        if current is not None:
            self._count_container(current.pools[0], -current.milli, -1)
        if held is not None and current is None and name in self._priorities and not self._count[name]:
            self._set_cpus({name: self._recorded_cpus(held)})
        self._count_container(name, milli, 1)
        self._totals.add(request)
        near = EMPTY if held is None else self._recorded_cpus(held) | held.exclusive
        self._set_sizes(sizes_after_change(self._needs(), self._sizes(), len(self._ordinary)), name, near)
        self._state.put(key, self._grant(name, milli, before))
        changed = tuple(other for other in self._state.changes() if other != key)
        grant = self._state.grants[key]
        same = before is not None and all(getattr(before, field) == getattr(grant, field) for field in _HELD)
        return Decision(
            action=Action.KEEP if same and action is Action.ALLOCATE else action,
            key=key,
            grant=grant,
            reason=f"pool {name}: {why}; {self._describe(name)}",
            candidates=self._candidates(name),
            changed=changed,
        )

    def _choose_pool(self, request: Request) -> tuple[str, str]:
        """The pool of a container and why it is that; ValueError if its annotation names none that there is."""
        system = any(fnmatchcase(request.namespace, pattern) for pattern in self._system)
        amounts = request.amounts if request.pod_amounts is None else request.pod_amounts
        if not system and not amounts.milli and not amounts.limit_milli:
            return SHARED, "it has neither CPU request nor limit"
        if (annotation := find_annotation(request, ANNOTATION)) is not None:
            if (name := annotation.text) not in self._state.pools:
                known = ", ".join(self._state.pools)
                raise ValueError(f"annotation {annotation.key}: pool {quoted(name)} does not exist; there are {known}")
            return name, f"annotation {annotation.key}"
        if system:
            return RESERVED, f"namespace {request.namespace}"
        for name, patterns in self._namespaces:
            for pattern in patterns:
                if fnmatchcase(request.namespace, pattern):
                    return name, f"namespace {request.namespace} is one of {pattern}"
        return SHARED, f"no other pool has namespace {request.namespace}"

    def _explain_shortage(self, name: str, milli: int, current: Grant | None) -> str:
        """Why a container cannot be in a pool; empty if it can."""
        if name not in self._milli:
            return ""
        was = current.pools[0] if current is not None else ""
        requested, containers = dict(self._milli), dict(self._count)
        if current is not None and was in requested:
            requested[was] -= current.milli
            containers[was] -= 1
        requested[name] += milli
        containers[name] += 1
        needs = _needs(requested, containers)
        if sum(needs.values()) <= len(self._ordinary):
            return ""
        needed = ", ".join(f"{pool} {number}" for pool, number in needs.items() if number)
        return f"pool {name} would need {needs[name]} CPUs: of {len(self._ordinary)} in all, pools need {needed}"

    def _needs(self) -> dict[str, int]:
        """The fewest CPUs of each pool. Pool shared keeps one for its containers, unless the others need all."""
        needs = _needs(self._milli, self._count)
        if self._count[SHARED] and not needs[SHARED] and sum(needs.values()) < len(self._ordinary):
            needs[SHARED] = 1
        return needs

    def _sizes(self) -> dict[str, int]:
        """What each pool has; one without containers needs none of it."""
        return {name: len(self._cpus[name]) if name == SHARED or self._count[name] else 0 for name in self._names}

    def _count_container(self, name: str, milli: int, number: int) -> None:
        if name in self._milli:
            self._milli[name] += milli
            self._count[name] += number

    # -- CPUs of pools

    def _recorded_cpus(self, held: Grant) -> CpuSet:
        """The CPUs that a pool had by the grant of a container, as far as they are still to be had."""
        try:
            recorded = CpuSet.parse(held.details.get(_CPUS, ""))
        except ValueError:
            return EMPTY  # not ours
        return recorded & self._cpus[SHARED]

    def _set_sizes(self, sizes: Mapping[str, int], nearest: str = "", near: CpuSet = EMPTY) -> None:
        """Move CPUs so that pools have these sizes, and no more than that; `nearest` would rather have those `near`."""
        free, found = EMPTY, dict(self._cpus)
        for name, priority in self._priorities.items():
            if sizes[name] < len(found[name]):
                kept = take(self._topology, found[name], sizes[name], prefer=priority).cpus
                free, found[name] = free | (found[name] - kept), kept
        if sizes[SHARED] < len(found[SHARED]):
            free |= found[SHARED]
        for name, priority in self._priorities.items():
            if sizes[name] > len(found[name]):
                own = found[name]
                wanted = own | (near & free) if name == nearest else own
                source, keep = (wanted, own) if len(wanted) >= sizes[name] else (free | own, wanted)
                cpus = take(self._topology, source, sizes[name], keep=keep, prefer=priority).cpus
                free, found[name] = free - cpus, cpus
        self._set_cpus(found)

    def _set_cpus(self, cpus: Mapping[str, CpuSet]) -> None:
        """Set the CPUs of pools; pool shared has what is left. Grants of a pool that has others say so."""
        found = {**self._cpus, **cpus}
        found[SHARED] = self._ordinary - CpuSet.union(found[name] for name in self._priorities)
        for name in self._names:
            if found[name] != self._cpus[name]:
                self._cpus[name] = found[name]
                self._state.set_pool(name, found[name] or (self._state.pool(RESERVED) if name == SHARED else EMPTY))
                self._mems[name] = self._topology.memory_near(self._state.pool(name)) or None
                for key in self._state.members(name):
                    grant = self._state.grants[key]
                    written = replace(grant, mems=self._mems_of(name, grant), details=self._details(name))
                    if written != grant:
                        self._state.put(key, written)

    # -- grants

    def _grant(self, name: str, milli: int, before: Grant | None) -> Grant:
        return Grant(
            pools=(name,),
            pinned=self._options.pin_cpu,
            mems=self._mems_of(name, before),
            milli=milli,
            details=self._details(name),
        )

    def _mems_of(self, name: str, before: Grant | None) -> CpuSet | None:
        if self._options.pin_memory:
            return self._mems[name]
        # Nothing written would leave it bound to where it was.
        return all_memory(self._topology) or None if before is not None and before.mems is not None else None

    def _details(self, name: str) -> Mapping[str, str]:
        return {_CPUS: str(self._cpus[name])} if name in self._priorities else {}

    # -- for people

    def _describe(self, name: str) -> str:
        cpus = self._state.pool(name)
        if name not in self._milli:
            return f"the reserved CPUs {cpus}"
        held = f"CPUs {cpus}" if self._cpus[name] else f"the reserved CPUs {cpus}, as no other is left"
        return f"{held} for {self._milli[name]}m of {_counted(self._count[name])}"

    def _candidates(self, chosen: str) -> tuple[Candidate, ...]:
        return tuple(
            Candidate(
                name=f"pool {name}",
                cpus=self._cpus[name],
                score=f"{self._milli[name]}m of {_counted(self._count[name])}",
                chosen=name == chosen,
            )
            for name in self._names
        )


def _needs(requested: Mapping[str, int], containers: Mapping[str, int]) -> dict[str, int]:
    """CPUs that pools cannot do without: those requested, rounded up, and one at least for whoever is there.

    Pool shared has the reserved CPUs to fall back on.
    """
    return {
        name: max(-(-milli // 1000), 1 if containers[name] and name != SHARED else 0)
        for name, milli in requested.items()
    }


def _refuse(
    action: Action, key: Key, kind: RefusalKind, message: str, candidates: Iterable[Candidate] = ()
) -> Decision:
    refusal = Refusal(kind=kind, message=message)
    return Decision(action=action, key=key, refusal=refusal, reason=message, candidates=tuple(candidates))


def _counted(containers: int) -> str:
    return "1 container" if containers == 1 else f"{containers} containers"


def _pick_reserved(topology: Topology, cpus: CpuSet, count: int) -> CpuSet:
    """CPUs for the system: CPU 0 if one is enough, as interrupts go there first; else some that are near each other."""
    if count == 1 and 0 in cpus:
        return CpuSet.of((0,))
    return take(topology, cpus, count).cpus
