"""Who holds what, and how it came to be: a policy with the containers it decided about and its last decisions.

Everything here happens at once, without waiting: between two calls of a ledger the books are complete. A container the
policy refused although it runs (found at start, or after the machine changed) is kept without a place: it has what the
policy gives to those it cannot decide about, and shows as a problem. One that was resized although the policy had no
room for it keeps its grant, and gets another one when there is room.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from interpose.core.model.cpuset import EMPTY
from interpose.core.policy.api import Policy
from interpose.core.policy.decision import Action, Assignment, Decision, Grant, Refusal, Why
from interpose.core.policy.request import Key, Request

_REMEMBERED: Final = 8  # decisions per container: how it came, and what was done to it last


class Event(NamedTuple):
    """One decision, when it was made, and what the container had after it."""

    at: float
    decision: Decision
    request: Request | None
    assignment: Assignment


class Held:
    """A container in the books."""

    __slots__ = ("events", "id", "place", "request", "unmet")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.id = ""  # the runtime's; empty as long as nobody knows it
        self.place = True  # False: the policy could not take it
        self.unmet: Request | None = None  # what it has at the runtime, if the policy has no room for that
        self.events: deque[Event] = deque(maxlen=_REMEMBERED)

    @property
    def latest(self) -> Request:
        """What it has at the runtime, whether the policy could grant that or not."""
        return self.unmet or self.request


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A container that runs already and has to be taken into the books."""

    request: Request
    id: str
    held: Grant | None = None


class Ledger:
    """The books of one policy. `now` is the time of day."""

    def __init__(self, policy: Policy, now: Callable[[], float]) -> None:
        self.policy = policy
        self.held: dict[Key, Held] = {}
        self.by_id: dict[str, Key] = {}
        self.outcomes: Counter[tuple[str, str]] = Counter()  # (action, granted | refused | failed)
        self._now = now
        self._without_place: dict[Key, None] = {}
        self._fallback = policy.fallback

    # -- asking

    def assignment(self, key: Key) -> Assignment:
        """What a container has by the books."""
        if key in self._without_place:
            return Assignment(cpus=self._fallback)
        return self.policy.book.assignment(key)

    def find(self, container_id: str) -> Held | None:
        """The container with this id."""
        key = self.by_id.get(container_id)
        return None if key is None else self.held[key]

    @property
    def without_place(self) -> tuple[Key, ...]:
        """Containers the policy could not take."""
        return tuple(self._without_place)

    @property
    def unmet(self) -> tuple[Key, ...]:
        """Containers that were resized although the policy has no room for it."""
        return tuple(key for key, one in self.held.items() if one.unmet is not None)

    def titles(self) -> Mapping[Key, str]:
        """What people call the containers."""
        return {key: one.request.title for key, one in self.held.items()}

    # -- deciding

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """Decide about a new container. Refused, it is not in the books."""
        return self._booked(request, self.policy.allocate(request, held))

    def _booked(self, request: Request, decision: Decision) -> Decision:
        self._count(decision)
        if decision.refusal is None:
            self._write(request, decision)
        return self._with_others(decision)

    def _write(self, request: Request, decision: Decision) -> None:
        entry = self.held.get(request.key)
        if entry is None:
            entry = self.held[request.key] = Held(request)
        entry.request, entry.unmet = request, None
        entry.place = True
        self._without_place.pop(request.key, None)
        self._remember(entry, decision)

    def take_over(self, coming: Coming) -> Decision:
        """Decide about a container that runs. Refused, it is in the books without a place."""
        decision = self.allocate(coming.request, coming.held)
        if decision.refusal is not None:
            self._shelter(coming, decision)
        self._identify(coming)
        return decision

    def keep(self, coming: Coming) -> Decision | None:
        """Take over a container that keeps all CPUs it has alone; None if it cannot, and nothing has changed.

        Asked of everybody first, so that nobody who has to move takes CPUs of one who need not.
        """
        own = coming.held.exclusive if coming.held is not None else EMPTY
        decision = self.policy.allocate(coming.request, coming.held)
        if decision.grant is None:
            return None
        if not own <= decision.grant.exclusive:
            self.policy.release(coming.request.key)
            return None
        decision = self._booked(coming.request, decision)
        self._identify(coming)
        return decision

    def give_shelter(self, coming: Coming, error: Exception) -> Decision:
        """Deciding about a container that runs has failed: it is in the books without a place."""
        self.outcomes[Action.ALLOCATE.value, "failed"] += 1
        message = f"the policy failed: {type(error).__name__}: {error}"
        refusal = Refusal(why=Why.INVALID, message=message)
        decision = Decision(action=Action.ALLOCATE, key=coming.request.key, refusal=refusal, reason=message)
        self._shelter(coming, decision)
        self._identify(coming)
        return decision

    def resize(self, request: Request) -> Decision:
        """Decide about other amounts. Refused, everything stays."""
        entry = self.held[request.key]
        if not entry.place:
            return self.allocate(request)
        decision = self.policy.resize(request)
        self._count(decision)
        if decision.refusal is None:
            entry.request, entry.unmet = request, None
        self._remember(entry, decision)
        return self._with_others(decision)

    def accept(self, request: Request) -> Decision | None:
        """Decide about amounts that a container has at the runtime already; None if there is nothing to decide.

        Refused, it keeps what it was granted until there is room.
        """
        entry = self.held[request.key]
        if request.amounts == entry.request.amounts:
            entry.unmet = None
            return None
        if request.amounts == entry.latest.amounts:
            return None
        decision = self.resize(request)
        if decision.refusal is not None:
            if entry.place:
                entry.unmet = request
            else:
                entry.request = request
        return decision

    def release(self, key: Key) -> Decision:
        """A container is gone."""
        decision = self.policy.release(key)  # first: should it fail, the container is still in the books
        entry = self.held.pop(key, None)
        self._without_place.pop(key, None)
        if entry is not None and entry.id:
            self.by_id.pop(entry.id, None)
        if entry is not None:
            self.outcomes[Action.RELEASE.value, "granted"] += 1
        placed = [one for other in (*self._without_place, *self.unmet) for one in self._place(other)]
        if placed:
            decision = replace(decision, changed=tuple(dict.fromkeys((*decision.changed, *placed))))
        return self._with_others(decision)

    def _place(self, key: Key) -> tuple[Key, ...]:
        """Something became free: perhaps it is what a container was waiting for."""
        entry = self.held[key]
        request = entry.latest
        decision = self.policy.resize(request) if entry.place else self.policy.allocate(request)
        if decision.refusal is not None:
            return ()  # not counted: it was refused before
        self._count(decision)
        self._write(request, decision)
        return (key, *decision.changed)

    def confirm(self, key: Key, container_id: str) -> None:
        """The runtime has made the container."""
        if (entry := self.held.get(key)) is not None:
            if entry.id:
                self.by_id.pop(entry.id, None)
            entry.id = container_id
            self.by_id[container_id] = key

    def _shelter(self, coming: Coming, decision: Decision) -> None:
        entry = self.held[coming.request.key] = Held(coming.request)
        entry.place = False
        self._without_place[coming.request.key] = None
        self._remember(entry, decision)

    def _identify(self, coming: Coming) -> None:
        if coming.id:
            self.confirm(coming.request.key, coming.id)

    def _count(self, decision: Decision) -> None:
        self.outcomes[decision.action.value, "granted" if decision.refusal is None else "refused"] += 1

    def _remember(self, entry: Held, decision: Decision) -> None:
        entry.events.append(Event(self._now(), decision, entry.request, self.assignment(decision.key)))

    def _with_others(self, decision: Decision) -> Decision:
        """Those without a place have another CPU set when there are others to fall back on."""
        fallback = self.policy.fallback
        if fallback == self._fallback or not self._without_place:
            self._fallback = fallback
            return decision
        self._fallback = fallback
        others = tuple(key for key in self._without_place if key != decision.key)
        return replace(decision, changed=tuple(dict.fromkeys((*decision.changed, *others))))
