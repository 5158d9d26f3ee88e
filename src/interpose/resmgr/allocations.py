"""Allocations: a policy with the containers it decided about and its last decisions about each.

Everything here is synchronous: between two calls the allocations are complete. A container the policy refused although
it runs (found at start, or after the machine changed) is kept without a place: it has the policy's fallback CPUs, and
shows as a problem. One that was resized although the policy had no room for it keeps its grant, and gets another one
when there is room.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import MemoryWidener, Policy
from interpose.core.policy.decision import Action, Assignment, Decision, Grant, Refusal, RefusalKind
from interpose.core.policy.request import Key, Request

_MAX_EVENTS: Final = 8  # decisions per container


class AllocationEvent(NamedTuple):
    """One decision, when it was made, and what the container had after it."""

    at: float
    decision: Decision
    request: Request | None
    assignment: Assignment


class MemoryWidening(NamedTuple):
    """The memory nodes that a container may use beyond those of its grant, since when, and why."""

    nodes: CpuSet  # empty if they are in the grant by now
    at: float
    reason: str


class Allocation:
    """A container under the policy: what it asked for, and the last decisions about it."""

    __slots__ = ("deferred_request", "events", "has_place", "id", "request", "widening")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.id = ""  # the runtime's; empty as long as it is unknown
        self.has_place = True  # False: the policy could not take it
        self.deferred_request: Request | None = None  # what it has at the runtime, if the policy has no room for that
        self.widening: MemoryWidening | None = None  # if its memory nodes ran short
        self.events: deque[AllocationEvent] = deque(maxlen=_MAX_EVENTS)

    @property
    def runtime_request(self) -> Request:
        """The request that the container has at the runtime, whether the policy could grant it or not."""
        return self.deferred_request or self.request


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationCandidate:
    """A container that runs already and has to be admitted; `held` is what it holds, if anything.

    `granted` is the same container with the smaller amounts that it was granted for, if it was resized to more since.
    """

    request: Request
    id: str
    held: Grant | None = None
    granted: "AllocationCandidate | None" = None
    extra_mems: CpuSet = EMPTY  # memory nodes that it may use beyond those of its grant


class Allocations:
    """All allocations of one policy. `now` is the time of day."""

    def __init__(self, policy: Policy, now: Callable[[], float]) -> None:
        self.policy = policy
        self.by_key: dict[Key, Allocation] = {}
        self.by_id: dict[str, Key] = {}
        self.outcomes: Counter[tuple[str, str]] = Counter()  # (action, granted | refused | failed)
        self._now = now
        self._without_place: dict[Key, None] = {}
        self._fallback = policy.fallback

    # -- queries

    def assignment(self, key: Key) -> Assignment:
        """What a container should have by its allocation."""
        if key in self._without_place:
            return Assignment(cpus=self._fallback)
        assignment, entry = self.policy.state.assignment(key), self.by_key.get(key)
        if entry is None or entry.widening is None or assignment.mems is None:
            return assignment
        return replace(assignment, mems=assignment.mems | entry.widening.nodes)

    def find(self, container_id: str) -> Allocation | None:
        """The allocation of the container with this id; None if there is none."""
        key = self.by_id.get(container_id)
        return None if key is None else self.by_key[key]

    @property
    def without_place(self) -> tuple[Key, ...]:
        """Containers the policy could not take."""
        return tuple(self._without_place)

    @property
    def deferred(self) -> tuple[Key, ...]:
        """Containers that were resized although the policy has no room for it."""
        return tuple(key for key, held in self.by_key.items() if held.deferred_request is not None)

    def siblings(self, key: Key) -> tuple[Request, ...]:
        """The requests of the other containers of a container's pod."""
        return tuple(
            held.runtime_request for other, held in self.by_key.items() if other.pod_id == key.pod_id and other != key
        )

    def titles(self) -> Mapping[Key, str]:
        """Display names of all containers: namespace/pod/container."""
        return {key: held.request.title for key, held in self.by_key.items()}

    # -- decisions

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """Decide about a new container. Refused, it has no allocation."""
        return self._record(request, self.policy.allocate(request, held))

    def _record(self, request: Request, decision: Decision) -> Decision:
        self._count(decision)
        if decision.refusal is None:
            self._write(request, decision)
        return self._with_fallback_changes(decision)

    def _write(self, request: Request, decision: Decision) -> None:
        entry = self.by_key.get(request.key)
        if entry is None:
            entry = self.by_key[request.key] = Allocation(request)
        entry.request, entry.deferred_request = request, None
        entry.has_place = True
        self._without_place.pop(request.key, None)
        self._add_event(entry, decision)

    def admit(self, candidate: AllocationCandidate) -> Decision:
        """Decide about a container that runs. Refused, its allocation is without a place."""
        decision = self.allocate(candidate.request, candidate.held)
        if decision.refusal is not None:
            self._add_without_place(candidate, decision)
        self._identify(candidate)
        return decision

    def keep(self, candidate: AllocationCandidate) -> Decision | None:
        """Admit a container that keeps all its exclusive CPUs; None if it cannot, and nothing has changed.

        Called for all containers first, so that none that has to move takes CPUs of one that can stay.
        """
        own = candidate.held.exclusive if candidate.held is not None else EMPTY
        decision = self.policy.allocate(candidate.request, candidate.held)
        if decision.grant is None:
            return None
        if not own <= decision.grant.exclusive:
            self.policy.release(candidate.request.key)
            return None
        decision = self._record(candidate.request, decision)
        self._identify(candidate)
        return decision

    def admit_without_place(self, candidate: AllocationCandidate, error: Exception) -> Decision:
        """The policy failed about a container that runs: its allocation is without a place."""
        self.outcomes[Action.ALLOCATE.value, "failed"] += 1
        message = f"the policy failed: {type(error).__name__}: {error}"
        refusal = Refusal(kind=RefusalKind.INVALID, message=message)
        decision = Decision(action=Action.ALLOCATE, key=candidate.request.key, refusal=refusal, reason=message)
        self._add_without_place(candidate, decision)
        self._identify(candidate)
        return decision

    def resize(self, request: Request) -> Decision:
        """Decide about other amounts. Refused, the allocation stays as it is."""
        entry = self.by_key[request.key]
        if not entry.has_place:
            return self.allocate(request)
        decision = self.policy.resize(request)
        self._count(decision)
        if decision.refusal is None:
            entry.request, entry.deferred_request = request, None
        self._add_event(entry, decision)
        return self._with_fallback_changes(decision)

    def observe(self, request: Request) -> Decision | None:
        """Decide about amounts that a container has at the runtime already; None if there is nothing to decide.

        Refused, it keeps what it was granted until there is room.
        """
        entry = self.by_key[request.key]
        if _same_amounts(request, entry.request):
            entry.deferred_request = None
            return None
        if _same_amounts(request, entry.runtime_request):
            return None
        decision = self.resize(request)
        if decision.refusal is not None:
            if entry.has_place:
                entry.deferred_request = request
            else:
                entry.request = request
        return decision

    def release(self, key: Key) -> Decision:
        """Forget a container that is gone; containers without a place or room may get one by it."""
        decision = self.policy.release(key)  # first: should it fail, the container still has its allocation
        entry = self.by_key.pop(key, None)
        self._without_place.pop(key, None)
        if entry is not None and entry.id:
            self.by_id.pop(entry.id, None)
        if entry is not None:
            self.outcomes[Action.RELEASE.value, "granted"] += 1
        placed = [changed for other in (*self._without_place, *self.deferred) for changed in self._place_again(other)]
        if placed:
            decision = replace(decision, changed=tuple(dict.fromkeys((*decision.changed, *placed))))
        return self._with_fallback_changes(decision)

    def _place_again(self, key: Key) -> tuple[Key, ...]:
        """Try again to place a container, or to grant its deferred request."""
        entry = self.by_key[key]
        request = entry.runtime_request
        decision = self.policy.resize(request) if entry.has_place else self.policy.allocate(request)
        if decision.refusal is not None:
            return ()  # not counted: it was refused before
        self._count(decision)
        self._write(request, decision)
        return (key, *decision.changed)

    # -- memory nodes that ran short

    def widen_memory(self, key: Key, everything: CpuSet, reason: str) -> tuple[Key, ...]:
        """Let a container use more memory nodes; returns those whose assignment is another one now.

        The policy says which if it knows them, otherwise it is everything. They are its own until it ends.
        """
        entry = self.by_key[key]
        if isinstance(self.policy, MemoryWidener):
            nodes, changed = EMPTY, self.policy.widen(key)
        else:
            nodes, changed = everything, (key,)
        if changed:
            entry.widening = MemoryWidening(nodes, self._now(), reason)
        return changed

    def inherit_widenings(self, old: "Allocations", everything: CpuSet) -> None:
        """Take over from other allocations what their containers may use beyond their grants."""
        for key, entry in self.by_key.items():
            if (before := old.by_key.get(key)) is not None and before.widening is not None:
                entry.widening = before.widening._replace(nodes=before.widening.nodes & everything)

    def confirm(self, key: Key, container_id: str) -> None:
        """The runtime has created the container."""
        if (entry := self.by_key.get(key)) is not None:
            if entry.id:
                self.by_id.pop(entry.id, None)
            entry.id = container_id
            self.by_id[container_id] = key

    def _add_without_place(self, candidate: AllocationCandidate, decision: Decision) -> None:
        entry = self.by_key[candidate.request.key] = Allocation(candidate.request)
        entry.has_place = False
        self._without_place[candidate.request.key] = None
        self._add_event(entry, decision)

    def _identify(self, candidate: AllocationCandidate) -> None:
        if candidate.extra_mems:
            widening = MemoryWidening(candidate.extra_mems, self._now(), "they were short before the relay started")
            self.by_key[candidate.request.key].widening = widening
        if candidate.id:
            self.confirm(candidate.request.key, candidate.id)

    def _count(self, decision: Decision) -> None:
        self.outcomes[decision.action.value, "granted" if decision.refusal is None else "refused"] += 1

    def _add_event(self, entry: Allocation, decision: Decision) -> None:
        entry.events.append(AllocationEvent(self._now(), decision, entry.request, self.assignment(decision.key)))

    def _with_fallback_changes(self, decision: Decision) -> Decision:
        """A decision with the containers without a place added if their fallback CPUs have changed."""
        fallback = self.policy.fallback
        if fallback == self._fallback or not self._without_place:
            self._fallback = fallback
            return decision
        self._fallback = fallback
        others = tuple(key for key in self._without_place if key != decision.key)
        return replace(decision, changed=tuple(dict.fromkeys((*decision.changed, *others))))


def _same_amounts(request: Request, other: Request) -> bool:
    return (request.amounts, request.pod_amounts) == (other.amounts, other.pod_amounts)
