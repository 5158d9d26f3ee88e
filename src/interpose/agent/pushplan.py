"""When the relay is sent which configuration, and what is known about it. Pure: whoever has a clock tells the time.

A push has a reason: something else is wanted, the relay is there anew and may have forgotten everything, or the last
one has not succeeded and its pause is over. Invariants: one push at a time, the newest wish wins, two pushes are never
closer than the interval, and what the relay has confirmed is not sent again without a reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interpose.agent.choice import Choice, Chosen, Verdict
from interpose.kube.backoff import Backoff
from interpose.model.resources import nothing

# A relay that restarts is back within a few seconds; nobody needs to hear of that.
PATIENCE: Final = 15.0
# A relay that goes down whenever it is sent something is not sent it at once each time it is back.
_AT_ONCE: Final = 2
_FAILED: Final = {"first": 1.0, "most": 60.0}
# A refusal may be about the moment: containers that are there now. It is asked again, with patience.
_REJECTED: Final = {"first": 30.0, "most": 600.0}


class Phase(StrEnum):
    """How the node stands to its configuration."""

    WAITING = "waiting"  # for the cluster to say what is wanted, or for the relay's answer
    APPLIED = "applied"
    WITHDRAWN = "withdrawn"  # there is none; the relay has its own settings
    REJECTED = "rejected"  # by the relay, or since it cannot be sent; what was in force stays
    UNREACHABLE = "unreachable"  # the relay has not answered for a while


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What reports tell. `chosen` is what it is about, `last_good` what this agent saw accepted last."""

    phase: Phase = Phase.WAITING
    chosen: Chosen | None = None
    problems: tuple[str, ...] = ()
    since: float = 0.0  # wall clock
    last_good: Chosen | None = None

    def alike(self, other: "State") -> bool:
        """Whether they tell the same, whatever the time."""
        return (self.phase, self.chosen, self.problems) == (other.phase, other.chosen, other.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A call to make."""

    data: Mapping[str, str] = field(default_factory=nothing)
    session: int = 0
    chosen: Chosen | None = None  # none: what was sent before is taken back


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    data: Mapping[str, str]
    problems: tuple[str, ...] = ()  # none: it is in force


@dataclass(frozen=True, slots=True)
class _Target:
    chosen: Chosen | None

    @property
    def data(self) -> Mapping[str, str]:
        return self.chosen.data if self.chosen is not None else nothing()


class PushPlan:
    """Told what happens, it says what to do. Times are seconds of one clock that never goes back."""

    def __init__(
        self,
        *,
        interval: float,
        grace: float,
        withdraw: bool,
        chance: Callable[[], float],
        patience: float = PATIENCE,
    ) -> None:
        """`grace` is how long a configuration may be missing before it is taken back, if `withdraw` allows that."""
        self.last_good: Chosen | None = None
        self._interval = interval
        self._grace = grace
        self._withdraw = withdraw
        self._patience = patience
        self._after_failure = Backoff(chance, **_FAILED)
        self._after_rejection = Backoff(chance, **_REJECTED)
        self._target: _Target | None = None
        self._unusable: Choice | None = None
        self._withdraw_at: float | None = None
        self._session: int | None = None
        self._flying: Push | None = None
        self._attempt: Push | None = None  # the last one that was begun
        self._begun_at: float | None = None
        self._retry_at: float | None = None  # of the attempt; none: it was accepted, or is in flight
        self._failures = 0  # in a row
        self._answer: _Answer | None = None
        self._trouble = ""
        self._trouble_since: float | None = None

    # -- what happens

    def consider(self, choice: Choice, now: float) -> None:
        """The cluster says something about what is wanted."""
        if choice.verdict is Verdict.MISSING:
            self._consider_missing(now)
            return
        self._withdraw_at = None
        if choice.verdict is Verdict.UNUSABLE:
            self._unusable, self._target = choice, None
        elif choice.chosen is not None:
            self._unusable = None
            self._want(choice.chosen)

    def connection(self, session: int | None, trouble: str, now: float) -> None:
        """Whether the relay is there, and which connection it is."""
        if session is None:
            self._note_trouble(trouble, now)
        elif session != self._session and not self._failures:
            self._trouble_since = None
        self._session = session

    def accepted(self) -> None:
        """The push that was begun is in force."""
        push = self._landed()
        self._retry_at = self._trouble_since = None
        self._forget_failures()
        self.last_good = push.chosen
        self._answer = _Answer(data=push.data)

    def rejected(self, problems: tuple[str, ...], now: float) -> None:
        """The relay keeps what it had."""
        push = self._landed()
        self._trouble_since = None
        self._failures = 0
        self._after_failure.reset()
        self._retry_at = now + self._after_rejection.next()
        self._answer = _Answer(data=push.data, problems=problems)

    def failed(self, trouble: str, now: float) -> None:
        """Nobody knows what became of it."""
        self._landed()
        self._failures += 1
        self._retry_at = now + self._after_failure.next()
        self._note_trouble(trouble, now)

    # -- what to do

    def begin(self, now: float) -> Push | None:
        """The push that is due now, which is in flight from here on."""
        if self._withdraw_at is not None and self._withdraw_at <= now:
            self._withdraw_at = self._unusable = None
            self._set_target(_Target(None))
        due = self._push_due(now)
        if due is None or due > now or self._target is None or self._session is None:
            return None
        push = Push(data=self._target.data, session=self._session, chosen=self._target.chosen)
        self._flying = self._attempt = push
        self._begun_at, self._retry_at = now, None
        return push

    def due(self, now: float) -> float | None:
        """When there is something to do or to tell next, if nothing happens before."""
        moments = [self._push_due(now), self._withdraw_at]
        if self._target is not None and self._trouble_since is not None:
            late = self._trouble_since + self._patience
            moments.append(late if late > now else None)
        return min((moment for moment in moments if moment is not None), default=None)

    def state(self, now: float, wall: float) -> State:
        """How things stand."""
        phase, chosen, problems = self._standing(now)
        return State(phase=phase, chosen=chosen, problems=problems, since=wall, last_good=self.last_good)

    def _standing(self, now: float) -> tuple[Phase, Chosen | None, tuple[str, ...]]:
        if self._unusable is not None:
            return Phase.REJECTED, self._unusable.chosen, self._unusable.problems
        if self._target is None:
            return Phase.WAITING, None, ()
        chosen = self._target.chosen
        if self._trouble_since is not None and now >= self._trouble_since + self._patience:
            return Phase.UNREACHABLE, chosen, (self._trouble,)
        if self._answer is None or not self._is_wanted(self._answer.data):
            return Phase.WAITING, chosen, ()
        if self._answer.problems:
            return Phase.REJECTED, chosen, self._answer.problems
        # An empty map and none at all are the same to the relay, not to people.
        return Phase.APPLIED if chosen is not None else Phase.WITHDRAWN, chosen, ()

    # -- inside

    def _consider_missing(self, now: float) -> None:
        if not self._withdraw:
            self._unusable = None
        elif self._withdraw_at is None and self._target != _Target(None):
            self._withdraw_at = now + self._grace

    def _want(self, chosen: Chosen) -> None:
        # Another version that says the same is no news: maps change for the sake of other nodes.
        if self._target is None or not chosen.same(self._target.chosen):
            self._set_target(_Target(chosen))

    def _set_target(self, target: _Target) -> None:
        if not self._is_wanted(target.data):
            self._forget_failures()
        self._target = target

    def _forget_failures(self) -> None:
        self._failures = 0
        self._after_failure.reset()
        self._after_rejection.reset()

    def _push_due(self, now: float) -> float | None:
        if self._target is None or self._session is None or self._flying is not None:
            return None
        begun, attempt = self._begun_at, self._attempt
        if begun is None or attempt is None:
            return now
        earliest = begun + self._interval
        if self._is_wanted(attempt.data) and (attempt.session == self._session or self._failures > _AT_ONCE):
            return max(earliest, self._retry_at) if self._retry_at is not None else None
        return earliest

    def _is_wanted(self, data: Mapping[str, str]) -> bool:
        return self._target is not None and self._target.data == data

    def _landed(self) -> Push:
        push, self._flying = self._flying, None
        if push is None:
            raise RuntimeError("no push was begun")
        return push

    def _note_trouble(self, trouble: str, now: float) -> None:
        self._trouble = trouble
        if self._trouble_since is None:
            self._trouble_since = now
