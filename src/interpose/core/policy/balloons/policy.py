"""The policy balloons: containers run in balloons, groups of CPUs that grow and shrink with what is in them.

Every balloon is a pool of the state by its name, TYPE[INDEX]. Beside it there is `NAME idle` if its type shares idle
CPUs, and `NAME threads` if one of its containers has one thread of each core only. Invariants: a container stays in its
balloon as long as it runs; a balloon with containers has as many CPUs as they request, one at least; what is refused
has changed nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.cpuallocator.bitmask import lowest_bits
from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cpuset import EMPTY, CpuSet, name_cpus
from interpose.core.policy.api import Setup
from interpose.core.policy.balloons.balloon import Balloon, PodUse, make_balloon
from interpose.core.policy.balloons.balloon_choice import (
    ChoiceContext,
    choose_balloon,
    count_containers,
    explain_misfit,
)
from interpose.core.policy.balloons.balloon_memory import BalloonMemory
from interpose.core.policy.balloons.balloon_set import BalloonCpus, BalloonSet
from interpose.core.policy.balloons.built_in import complete_options
from interpose.core.policy.balloons.container_wishes import ContainerWishes, is_preserved, read_wishes
from interpose.core.policy.balloons.options import DEFAULT, RESERVED, BalloonsOptions, BalloonType
from interpose.core.policy.balloons.placed_container import (
    BalloonRecord,
    PlacedContainer,
    grant_details,
    read_record,
)
from interpose.core.policy.balloons.problems import option_notes
from interpose.core.policy.balloons.shown_pools import IDLE, ShownPools
from interpose.core.policy.decision import NO_QUOTA, Action, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.pool_report import PoolReport
from interpose.core.policy.request import Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static.partition import CpuPartition, divide

_MOST_TOLD: Final = 4  # balloons in a refusal
_KEPT: Final = ("pools", "pinned", "mems", "details")  # what is the same in a grant that is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A balloon with the container counted in it, and the CPUs that its parts shall have."""

    balloon: Balloon
    sizes: Sequence[int]
    near: Sequence[CpuSet] = ()
    why: str
    candidates: tuple[Candidate, ...] = ()
    stays: bool = False  # the container is in it already


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoPlace:
    """Why there is no balloon for a container."""

    refusal: Refusal
    candidates: tuple[Candidate, ...] = ()


class BalloonsPolicy:
    """Decides by type which balloon a container goes to, and by requests how many CPUs that has."""

    name: Final = "balloons"

    def __init__(self, setup: Setup, options: BalloonsOptions) -> None:
        topology = setup.topology
        partition = divide(setup, _lowest, strict=False)
        named = partition.reserved if isinstance(setup.reserved, CpuSet) else EMPTY
        self._options = complete_options(options, named or len(partition.reserved))
        ordinary = (partition.ordinary | partition.isolated) - named
        self._balloons = BalloonSet(topology, self._options, BalloonCpus(ordinary=ordinary, reserved=named))
        self._isolated = topology.isolated
        self._state = PolicyState()
        self._shown = ShownPools(topology, self._balloons, self._state)
        self._shown.update(self._balloons.list_changed())
        self._memory = BalloonMemory(topology)
        self._placed: dict[Key, PlacedContainer] = {}
        self._containers: dict[str, dict[Key, None]] = {}  # by balloon
        self._pods: dict[str, dict[Key, None]] = {}
        self._seen: dict[str, Balloon] = {}  # balloons as the grants of their containers have them
        self._notes = (*option_notes(self._options), *_isolated_notes(self._options, partition))

    @property
    def state(self) -> PolicyState:
        """Pools and grants, to be read only."""
        return self._state

    @property
    def fallback(self) -> CpuSet:
        """The CPUs of balloon `default`; those of no balloon while that has none, or else those of the system."""
        pool = self._state.pool
        ordinary = self._balloons.usable(self._balloons.kinds[DEFAULT])
        idle = (self._balloons.idle & ordinary) - self._isolated
        return pool(f"{DEFAULT}[0]") or idle or pool(f"{RESERVED}[0]") or ordinary

    @property
    def notes(self) -> tuple[str, ...]:
        """Options without an effect, and isolated CPUs."""
        return self._notes

    def pools(self) -> Mapping[str, CpuSet]:
        """The CPUs of every balloon, and those of none."""
        found = {balloon.name: balloon.cpus for balloon in self._balloons.all()}
        return {**found, IDLE: self._balloons.idle}

    def report_pools(self) -> Sequence[PoolReport]:
        """Every balloon with what is requested of it and its containers, and the CPUs of none."""
        return [*self._shown.report(self._containers)]

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """A balloon of its type: the one where it was, else the one that its type says."""
        return self._decide(Action.ALLOCATE, request, held)

    def resize(self, request: Request) -> Decision:
        """It stays in its balloon, which has as many CPUs as are needed then, those it has among them."""
        return self._decide(Action.RESIZE, request, None)

    def release(self, key: Key) -> Decision:
        """Its balloon gives back the CPUs that are not needed any more."""
        grant = self._state.drop(key)
        placed = self._placed.pop(key, None)
        if placed is None:
            reason = "it held nothing" if grant is None else "it was left alone"
            return Decision(action=Action.RELEASE, key=key, reason=reason)
        balloon = self._balloon_of(placed)
        for found, name in ((self._containers, balloon.name), (self._pods, key.pod_id)):
            del found[name][key]
            if not found[name]:
                del found[name]
        use = balloon.pods[key.pod_id]
        left = use.milli - placed.request.milli
        counted = min(use.counted, self._count(placed.request, balloon, left)) if use.containers > 1 else 0
        after = balloon.without_container(placed.request, placed.wishes.group, counted)
        if after.containers:
            grown = self._balloons.put(after, after.sizes_for(after.milli) or ())
            reason = f"balloon {after.name}: {_describe(grown)}"
        else:
            self._balloons.remove(after)
            reason = f"it was the last in balloon {after.name}"
        self._memory.release(key)
        if placed.wishes.hides_hyperthreads:
            self._shown.add_hiding(after.name, -1)
        self._publish(key)
        return Decision(action=Action.RELEASE, key=key, reason=reason, changed=self._state.changes())

    def widen(self, key: Key) -> tuple[Key, ...]:
        """Let a container use the next nearest memory of its kinds as well, as its own nodes are full."""
        grant = self._state.grants[key]
        if key not in self._placed or grant.mems is None:
            return ()
        self._state.put(key, replace(grant, mems=self._memory.add_nodes(key)))
        return self._state.changes()

    # -- deciding; nothing is written before it is clear that nothing is refused

    def _decide(self, action: Action, request: Request, held: Grant | None) -> Decision:
        placed = self._placed.get(request.key)
        try:
            if placed is None and (reason := is_preserved(request, self._options)):
                return self._leave_alone(action, request, reason)
            wishes = read_wishes(request, self._options, self._balloons.kinds) if placed is None else placed.wishes
        except ValueError as error:
            return _refuse(action, request.key, Refusal(kind=RefusalKind.INVALID, message=str(error)))
        place = self._find_place(request, wishes, held) if placed is None else self._stay(request, placed)
        if isinstance(place, _NoPlace):
            return _refuse(action, request.key, place.refusal, place.candidates)
        before = self._state.grants.get(request.key) or held
        remark = self._write(request, wishes, place, before)
        changed = tuple(other for other in self._state.changes() if other != request.key)
        grant = self._state.grants[request.key]
        same = before is not None and all(getattr(before, field) == getattr(grant, field) for field in _KEPT)
        return Decision(
            action=Action.KEEP if same and action is Action.ALLOCATE else action,
            key=request.key,
            grant=grant,
            reason=f"balloon {place.balloon.name}: {wishes.why}; {place.why}; "
            f"{_describe(self._balloon_of(self._placed[request.key]))}{remark}",
            candidates=place.candidates,
            changed=changed,
        )

    def _leave_alone(self, action: Action, request: Request, reason: str) -> Decision:
        grant = Grant(pinned=False, milli=request.milli)
        self._state.put(request.key, grant)
        self._state.changes()
        return Decision(action=action, key=request.key, grant=grant, reason=f"it is left alone: {reason}")

    def _stay(self, request: Request, placed: PlacedContainer) -> _Place | _NoPlace:
        """The balloon where it is, with other amounts."""
        balloon = self._balloon_of(placed)
        counted = self._count(
            request, balloon, balloon.pods[request.key.pod_id].milli + request.milli - placed.request.milli
        )
        without = balloon.without_container(placed.request, placed.wishes.group, 0)
        after = without.with_container(request, placed.wishes.group, counted)
        sizes = after.sizes_for(after.milli)
        if sizes is None or (missing := self._balloons.missing(after, sizes)):
            limit = "more than its maxCPUs allow" if sizes is None else f"{missing} CPUs for that cannot be had"
            message = f"balloon {balloon.name} cannot grow: {after.milli}m would be requested of it, {limit}"
            return _NoPlace(refusal=self._refusal(request, placed.wishes.kind, message))
        return _Place(balloon=after, sizes=sizes, why="it stays there", stays=True)

    def _find_place(self, request: Request, wishes: ContainerWishes, held: Grant | None) -> _Place | _NoPlace:
        """The balloon where it was, or the one that its type says."""
        record = None if held is None else read_record(held)
        if record is not None and record.type == wishes.kind.name:
            found = self._find_recorded(request, wishes, record)
            if found is not None:
                return found
        there = self._balloons.of_type(wishes.kind)
        context = ChoiceContext(
            balloons=self._balloons,
            request=request,
            wishes=wishes,
            there=there,
            counted=lambda balloon: self._count_new(request, balloon),
        )
        choice = choose_balloon(context)
        if choice.balloon is None:
            tried = "; ".join(
                f"{candidate.name}: {explain_misfit(context, candidate)}" for candidate in there[:_MOST_TOLD]
            )
            more = f"; and {len(there) - _MOST_TOLD} more" if len(there) > _MOST_TOLD else ""
            told = tried + more or f"{wishes.kind.name} can have none"
            message = f"no suitable balloon of type {wishes.kind.name} for {request.milli}m ({wishes.why}): {told}"
            return _NoPlace(refusal=self._refusal(request, wishes.kind, message), candidates=choice.candidates)
        near = EMPTY if held is None else held.exclusive | CpuSet.union(record.cpus if record is not None else ())
        balloon = choice.balloon
        if near and not balloon.containers:  # it would rather have the CPUs that the container had
            balloon = balloon.with_cpus([EMPTY] * len(balloon.parts))
        after = balloon.with_container(request, wishes.group, self._count_new(request, balloon))
        return _Place(
            balloon=after,
            sizes=after.sizes_for(after.milli) or (),
            near=[self._balloons.acceptable(part.kind, near) for part in balloon.parts],
            why=choice.why,
            candidates=choice.candidates,
        )

    def _find_recorded(self, request: Request, wishes: ContainerWishes, record: BalloonRecord) -> _Place | None:
        """The balloon of an earlier grant, with the CPUs that it had; None if that cannot be."""
        balloon = self._balloons.find(wishes.kind, record.index)
        recorded: Sequence[CpuSet] = ()
        if balloon is None or not balloon.containers:
            balloon, recorded = self._make_recorded(wishes.kind, record), record.cpus
        if balloon is None:
            return None
        counted = self._count_new(request, balloon)
        counted = counted if record.counted is None else min(record.counted, counted)
        after = balloon.with_container(request, wishes.group, counted)
        needed = after.sizes_for(after.milli)
        if needed is None:
            return None
        had = [len(cpus) for cpus in recorded or [part.cpus for part in after.parts]]
        most = [
            size if part.most is None else min(size, part.most) for part, size in zip(after.parts, had, strict=True)
        ]
        # The first container brings back the CPUs of all of them: the others come one after the other.
        for sizes in ([max(pair) for pair in zip(needed, most, strict=True)], needed):
            if not self._balloons.missing(after, sizes):
                return _Place(balloon=after, sizes=sizes, near=recorded, why="it was there already", stays=True)
        return None

    def _make_recorded(self, kind: BalloonType, record: BalloonRecord) -> Balloon | None:
        """The balloon of an earlier grant without CPUs and containers; None if there cannot be such a one now."""
        if not self._balloons.may_create(kind):
            return None
        picked = iter(record.picked)

        def pick(composite: BalloonType) -> str:
            name = next(picked, "")
            return name if name in composite.components else composite.components[0]

        balloon = make_balloon(self._balloons.kinds, kind, record.index, pick)
        same = balloon.picked == record.picked and len(balloon.parts) == len(record.cpus)
        return balloon if same else None

    def _refusal(self, request: Request, kind: BalloonType, message: str) -> Refusal:
        """Final if no balloon of the type can ever have so much."""
        largest = make_balloon(self._balloons.kinds, kind, 0, lambda composite: composite.components[0])
        possible = largest.sizes_for(request.milli) is not None
        return Refusal(kind=RefusalKind.EXHAUSTED if possible else RefusalKind.INVALID, message=message)

    # -- what counts of a pod

    def _count_new(self, request: Request, balloon: Balloon) -> int:
        """What a balloon counts of a pod with one more container of it."""
        return self._count(request, balloon, balloon.pods.get(request.key.pod_id, PodUse()).milli + request.milli)

    def _count(self, request: Request, balloon: Balloon, milli: int) -> int:
        """What a balloon counts of a pod whose containers in it request so much.

        All balloons together count what the pod as a whole asks for, if it does.
        """
        if request.pod_amounts is None:
            return milli
        pod = request.key.pod_id
        others = {self._placed[key].balloon: self._placed[key] for key in self._pods.get(pod, ())}
        elsewhere = sum(
            self._balloon_of(placed).pods[pod].counted for name, placed in others.items() if name != balloon.name
        )
        return max(0, request.pod_amounts.milli - elsewhere)

    # -- writing

    def _write(self, request: Request, wishes: ContainerWishes, place: _Place, before: Grant | None) -> str:
        """Put a container into its balloon; a remark about its memory."""
        key = request.key
        balloon = self._balloons.put(place.balloon, place.sizes, place.near)
        earlier = self._placed.get(key)
        self._placed[key] = PlacedContainer(request=request, wishes=wishes, index=balloon.index)
        if earlier is None:
            self._containers.setdefault(balloon.name, {})[key] = None
            self._pods.setdefault(key.pod_id, {})[key] = None
            if wishes.hides_hyperthreads:
                self._shown.add_hiding(balloon.name, 1)
        same_amount = earlier is None or earlier.request.amounts.memory_limit == request.amounts.memory_limit
        mems = None if before is None else before.mems
        memory = self._memory.place(request, wishes, balloon.cpus, mems, keep=place.stays and same_amount)
        grant = Grant(
            pools=self._shown.names(balloon, hides=wishes.hides_hyperthreads),
            pinned=self._options.pin_cpu,
            mems=memory.mems,
            milli=request.milli,
        )
        self._state.put(key, grant)
        for other, zone in memory.moved.items():
            self._state.put(other, replace(self._state.grants[other], mems=zone))
        self._publish(key)
        return memory.remark

    def _publish(self, key: Key) -> None:
        """Write what has become of balloons: pools, and the grants of containers in them that say something else now.

        `key` is the container because of which they changed.
        """
        changed = self._balloons.list_changed()
        self._shown.update(changed)
        for name, balloon in changed.items():
            before = self._seen.pop(name, None)
            if balloon is None or not balloon.containers:
                continue
            self._seen[name] = balloon
            alone = 1 in (balloon.containers, balloon.containers if before is None else before.containers)
            if before is None or alone or before.cpus != balloon.cpus:
                self._revise(balloon, self._containers[name])
            else:
                self._revise(
                    balloon, [other for other in self._pods.get(key.pod_id, ()) if self._placed[other].balloon == name]
                )

    def _revise(self, balloon: Balloon, keys: Iterable[Key]) -> None:
        """Write the grants of containers anew where they are about their balloon.

        There can be hundreds in it. Those with equal grants have the same one, made once.
        """
        near = self._memory.near(balloon.cpus)
        usual = grant_details(balloon)
        made: dict[tuple[object, ...], Grant] = {}
        for key in keys:
            old, placed = self._state.grants[key], self._placed[key]
            counted = balloon.counted_of(key.pod_id)
            quota = self._quota(placed, balloon)
            shape = old.pools, old.mems, old.milli, quota, counted
            new = made.get(shape)
            if new is None:
                details = usual if counted is None else grant_details(balloon, counted)
                new = made[shape] = replace(old, quota=quota, details=details)
            if new.mems is not None and not near <= new.mems:
                new = replace(new, mems=self._memory.widen(key, new.mems, near, placed.wishes))
            self._state.put(key, new)

    def _quota(self, placed: PlacedContainer, balloon: Balloon) -> int | None:
        """No CFS quota for one that is alone in its balloon and could use no more than its limit without."""
        limit = placed.request.amounts.limit_milli
        if not self._options.lift_quota or not placed.request.amounts.quota or limit is None:
            return None
        if balloon.containers > 1 or balloon.kind.share_idle is not None or not self._options.pin_cpu:
            return None
        cpus = self._shown.cpus(balloon, hides=placed.wishes.hides_hyperthreads)
        return NO_QUOTA if 1000 * len(cpus) <= limit else None

    def _balloon_of(self, placed: PlacedContainer) -> Balloon:
        return self._balloons.occupied(placed.wishes.kind, placed.index)


def _refuse(action: Action, key: Key, refusal: Refusal, candidates: tuple[Candidate, ...] = ()) -> Decision:
    return Decision(action=action, key=key, refusal=refusal, reason=refusal.message, candidates=candidates)


def _describe(balloon: Balloon) -> str:
    return f"{name_cpus(balloon.cpus)} for {balloon.milli}m of {count_containers(balloon.containers)}"


def _lowest(cpus: CpuSet, count: int) -> CpuSet:
    """So many CPUs: only their number counts, the type says which."""
    return CpuSet(lowest_bits(cpus.mask, count))


def _isolated_notes(options: BalloonsOptions, partition: CpuPartition) -> Iterator[str]:
    if partition.isolated and not any(kind.prefer_isolated for kind in options.types):
        yield f"CPUs {partition.isolated} are isolated, so balloons get them only when no others are left"
