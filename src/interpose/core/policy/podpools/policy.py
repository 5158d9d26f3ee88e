"""The policy podpools: a pod as a whole runs in one instance of the pool that it names.

The CPUs of an instance never change while a configuration is in force, and all containers of the pods in it share them;
every instance is a pool of the state, by its name. Invariants: the containers of a pod are in one instance; an instance
has at most as many pods as its pool allows, those left aside that were there before under other options.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from interpose.core.cpuallocator.allocator import take
from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.text import quoted
from interpose.core.policy.annotations import POD_SCOPES, find_annotation
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.pod_amounts import PodTotals
from interpose.core.policy.podpools.layout import PlacedPool, PoolInstance, place_pools
from interpose.core.policy.podpools.options import BUILT_IN, DEFAULT, RESERVED, FillOrder, PodPoolsOptions
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static.partition import all_memory, divide
from interpose.core.topology.topology import Topology

ANNOTATION: Final = "pool.podpools"  # of a pod: containers have no pool of their own
SYSTEM_NAMESPACE: Final = "kube-system"

_MOST_SHOWN: Final = 16  # candidates: they are stored with the last decisions about each container
_HELD: Final = ("exclusive", "pools", "pinned")  # what is the same in a grant that is kept
# In a grant's details: the CPUs of the instance, by which it is found again under other options, and the pool that was
# full, so that a pod in its place in pool default stays there.
_CPUS: Final = "cpus"
_FULL: Final = "full"
_WHY: Final[Mapping[FillOrder, str]] = {
    FillOrder.BALANCED: "it has the fewest pods",
    FillOrder.PACKED: "it has the most pods of those with room",
    FillOrder.FIRST_FREE: "the first with room",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _PodPlace:
    """The instance for a pod, or why there is none."""

    instance: PoolInstance | None = None
    full: str = ""  # the pool in whose place this is
    reason: str
    candidates: tuple[Candidate, ...] = ()


class PodPoolsPolicy:
    """Decides by the pool that a pod names; how much it asks for does not matter."""

    name: Final = "podpools"

    def __init__(self, setup: Setup, options: PodPoolsOptions) -> None:
        topology = self._topology = setup.topology
        self._options = options
        partition = divide(setup, partial(_pick_reserved, topology), strict=False)
        free = partition.ordinary - partition.reserved
        self._pools = place_pools(topology, free, partition.reserved, options.pools)
        instances = [instance for pool in self._pools.values() for instance in pool.instances]
        self._state = PolicyState({instance.name: instance.cpus for instance in instances})
        self._mems = {instance.name: topology.memory_near(instance.cpus) or None for instance in instances}
        self._pods: dict[str, dict[str, int]] = {instance.name: {} for instance in instances}  # containers by pod
        self._places: dict[str, tuple[PoolInstance, str]] = {}  # by pod: its instance, and the pool that was full
        self._totals = PodTotals()
        self._notes = tuple(_find_notes(topology.isolated & (setup.available or topology.online), self._pools))

    @property
    def state(self) -> PolicyState:
        """Instances of pools, and grants."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """The CPUs of pool default."""
        return self._state.pool(DEFAULT)

    @property
    def notes(self) -> tuple[str, ...]:
        """CPUs that no pool has, and pools that are overbooked easily."""
        return self._notes

    def pools(self) -> Mapping[str, CpuSet]:
        """The CPUs of all instances."""
        return self._state.pools

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """The instance of its pod; for the first container of a pod one is chosen."""
        return self._decide(Action.ALLOCATE, request, held)

    def resize(self, request: Request) -> Decision:
        """It stays where it is: amounts of CPU do not choose a pool."""
        return self._decide(Action.RESIZE, request, None)

    def release(self, key: Key) -> Decision:
        """With the last container of a pod, its place is free again."""
        grant = self._state.drop(key)
        if grant is None:
            return Decision(action=Action.RELEASE, key=key, reason="it held nothing")
        name = grant.pools[0]
        pods = self._pods[name]
        if (heir := self._totals.heir(key, grant, self._state.grants)) is not None:
            held = self._state.grants[heir]
            self._state.put(heir, replace(held, milli=held.milli + grant.milli))
            self._state.changes()  # it has the same CPUs
        pods[key.pod_id] -= 1
        if pods[key.pod_id]:
            return Decision(action=Action.RELEASE, key=key, reason=f"other containers of its pod are in {name}")
        del pods[key.pod_id], self._places[key.pod_id]
        return Decision(action=Action.RELEASE, key=key, reason=f"the last of its pod in {name}, which has room again")

    # -- deciding

    def _decide(self, action: Action, request: Request, held: Grant | None) -> Decision:
        key = request.key
        current = self._state.grants.get(key)
        before = current or held
        place = self._find_place(request, before)
        if place.instance is None:
            hopeless = not any(self._pools[name].takes_pods for name in (place.full, DEFAULT))
            kind = RefusalKind.INVALID if hopeless else RefusalKind.EXHAUSTED
            return Decision(
                action=action,
                key=key,
                refusal=Refusal(kind=kind, message=place.reason),
                reason=place.reason,
                candidates=place.candidates,
            )
        grant = self._grant(request, place.instance, place.full, before)
        if current is None:
            pods = self._pods[place.instance.name]
            pods[key.pod_id] = pods.get(key.pod_id, 0) + 1
            self._places[key.pod_id] = place.instance, place.full
        self._totals.add(request)
        self._state.put(key, grant)
        self._state.changes()  # of others there are none: the CPUs of instances stay as they are
        same = before is not None and all(getattr(before, name) == getattr(grant, name) for name in _HELD)
        return Decision(
            action=Action.KEEP if same and action is Action.ALLOCATE else action,
            key=key,
            grant=grant,
            reason=place.reason + self._describe_load(place.instance),
            candidates=place.candidates,
        )

    def _find_place(self, request: Request, before: Grant | None) -> _PodPlace:
        known = self._places.get(request.key.pod_id)
        if known is not None:
            instance, full = known
            return _PodPlace(instance=instance, full=full, reason=f"{instance.name}: its pod is there")
        wanted, why = self._choose_pool(request)
        cpus = EMPTY if before is None else _held_cpus(before)
        rooms = self._list_rooms(wanted)
        if before is not None and before.details.get(_FULL) == wanted:
            rooms += self._list_rooms(DEFAULT)
        pool = self._pools[wanted]
        rooms.sort(key=lambda instance: (-len(instance.cpus & cpus), self._rank(pool, instance)))
        candidates = self._list_candidates(pool, rooms)
        if rooms:
            chosen = rooms[0]
            full = wanted if chosen.name == DEFAULT != wanted else ""
            reason = "it runs there already" if chosen.cpus & cpus else _WHY[pool.fill_order]
            if len(pool.instances) == 1 and not chosen.cpus & cpus:
                reason = "the only one of its pool"
            return _PodPlace(
                instance=chosen, full=full, reason=f"{chosen.name}: {why}; {reason}", candidates=candidates
            )
        is_full = f"{why}, which {_describe_limit(pool)}"
        if wanted != DEFAULT and (rooms := self._list_rooms(DEFAULT)):
            reason = f"{DEFAULT}: {is_full}"
            return _PodPlace(instance=rooms[0], full=wanted, reason=reason, candidates=candidates)
        if wanted != DEFAULT:
            is_full += f"; pool {DEFAULT} {_describe_limit(self._pools[DEFAULT])}"
        return _PodPlace(full=wanted, reason=f"no place: {is_full}", candidates=candidates)

    def _choose_pool(self, request: Request) -> tuple[str, str]:
        """The pool of a pod, and why it is that."""
        if (annotation := find_annotation(request, ANNOTATION, POD_SCOPES)) is not None:
            key, name = annotation.key, annotation.text
            if name in self._pools:
                return name, f"annotation {key} names pool {name}"
            return DEFAULT, f"annotation {key} names pool {quoted(name)}, which does not exist, so pool {DEFAULT}"
        if request.namespace == SYSTEM_NAMESPACE:
            return RESERVED, f"namespace {SYSTEM_NAMESPACE} has pool {RESERVED}"
        return DEFAULT, f"its pod names no pool, so pool {DEFAULT}"

    def _list_rooms(self, name: str) -> list[PoolInstance]:
        """Instances of a pool that take one more pod."""
        pool = self._pools[name]
        return [instance for instance in pool.instances if self._has_room(pool, instance)]

    def _has_room(self, pool: PlacedPool, instance: PoolInstance) -> bool:
        return pool.has_room(len(self._pods[instance.name]))

    def _rank(self, pool: PlacedPool, instance: PoolInstance) -> int:
        """The less, the rather the next pod goes there; of the same rank, to the first."""
        pods = len(self._pods[instance.name])
        return {FillOrder.BALANCED: pods, FillOrder.PACKED: -pods, FillOrder.FIRST_FREE: 0}[pool.fill_order]

    def _grant(self, request: Request, instance: PoolInstance, full: str, before: Grant | None) -> Grant:
        mems = self._mems[instance.name] if self._options.pin_memory else None
        if mems is None and before is not None and before.mems is not None:
            mems = all_memory(self._topology) or None  # nothing written would leave it bound to where it was
        return Grant(
            pools=(instance.name,),
            pinned=self._options.pin_cpu,
            mems=mems,
            milli=self._totals.count(request, self._state.grants),
            details={_CPUS: str(instance.cpus), **({_FULL: full} if full else {})},
        )

    # -- for people

    def _list_candidates(self, pool: PlacedPool, rooms: Sequence[PoolInstance]) -> tuple[Candidate, ...]:
        """Instances that the pod can go to, the one for it first, then those of its pool that are full."""
        listed = [(instance, index == 0, "") for index, instance in enumerate(rooms[:_MOST_SHOWN])]
        limit = _describe_limit(pool)
        full = [(instance, False, limit) for instance in pool.instances if not self._has_room(pool, instance)]
        return tuple(
            Candidate(
                name=f"pool {instance.name}",
                cpus=instance.cpus,
                score=f"{_counted(len(self._pods[instance.name]))}, {self._load(instance)}m asked for",
                chosen=chosen,
                reason=reason,
            )
            for instance, chosen, reason in [*listed, *full][:_MOST_SHOWN]
        )

    def _load(self, instance: PoolInstance) -> int:
        """What the containers in an instance ask for, in thousandths of a CPU."""
        grants = self._state.grants
        return sum(grants[key].milli for key in self._state.members(instance.name))

    def _describe_load(self, instance: PoolInstance) -> str:
        """A remark if more is asked for than an instance has."""
        milli, there_are = self._load(instance), 1000 * len(instance.cpus)
        return f"; overbooked, its containers ask for {milli}m of {there_are}m" if milli > there_are else ""


def _held_cpus(grant: Grant) -> CpuSet:
    """The CPUs that a container has by an earlier grant, of this policy or of another one."""
    try:
        return CpuSet.parse(grant.details.get(_CPUS, "")) or grant.exclusive
    except ValueError:
        return grant.exclusive  # not ours


def _describe_limit(pool: PlacedPool) -> str:
    if not pool.takes_pods:
        return "takes no pods"
    pods = _counted(pool.max_pods)
    return f"is full: {pods} in each of {len(pool.instances)}" if len(pool.instances) > 1 else f"is full: {pods}"


def _counted(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"


def _find_notes(isolated: CpuSet, pools: Mapping[str, PlacedPool]) -> Iterator[str]:
    if isolated:
        yield f"CPUs {isolated} are isolated, so no pool has them"
    if pools[DEFAULT].instances[0].cpus == pools[RESERVED].instances[0].cpus:
        yield f"no CPU is left for pool {DEFAULT}: its pods run on the reserved ones"
    if len(pools) > len(BUILT_IN) + 1:
        yield "the scheduler does not know which of several pools has room: pods may find theirs full"


def _pick_reserved(topology: Topology, cpus: CpuSet, count: int) -> CpuSet:
    """CPUs for the system: CPU 0 if one is enough, as interrupts go there first; else some that are near each other."""
    if count == 1 and 0 in cpus:
        return CpuSet.of((0,))
    return take(topology, cpus, count).cpus
