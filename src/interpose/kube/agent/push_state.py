"""When the relay is sent which configuration, and what is known about it. Pure: whoever has a clock tells the time.

A push has a reason: something else is wanted, the relay is there anew and may have forgotten everything, or the last
one has not succeeded and its pause is over. A relay that is there anew while what is wanted cannot be had is given back
first what it accepted last. A map that is gone may be on its way back: what follows from that waits for the grace, and
for as long as nobody can know. A map that appears or changes counts at once.

Invariants: one push at a time, the newest wish wins, two pushes are never closer than the interval, and what the relay
has confirmed is not sent again without a reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interpose.core.backoff import Backoff
from interpose.core.model.resources import empty_map
from interpose.kube.agent.config_choice import ChoiceResult, ConfigChoice, SelectedConfig

# A relay that restarts is back within a few seconds; nobody needs to hear of that.
UNREACHABLE_AFTER: Final = 15.0
# A relay that goes down whenever it is sent something is not sent it at once each time it is back.
_AT_ONCE: Final = 2
_FAILED: Final = (1.0, 60.0)
# A refusal may be about the moment: containers that are there now. It is asked again, with patience.
_REJECTED: Final = (30.0, 600.0)


class PushPhase(StrEnum):
    """State of the node's configuration."""

    WAITING = "waiting"  # for the cluster to say what is wanted, or for the relay's answer
    APPLIED = "applied"
    WITHDRAWN = "withdrawn"  # there is none; the relay has its own settings
    KEPT = "kept"  # there is none that we may see; what was in force stays
    FORBIDDEN = "forbidden"  # what is wanted may not be read; what was in force stays
    REJECTED = "rejected"  # by the relay, or since it cannot be sent; what was in force stays
    UNREACHABLE = "unreachable"  # the relay has not answered for a while


@dataclass(frozen=True, slots=True, kw_only=True)
class PushState:
    """What reports tell. `chosen` is what it is about, `last_good` what this agent saw accepted last."""

    phase: PushPhase = PushPhase.WAITING
    chosen: SelectedConfig | None = None
    problems: tuple[str, ...] = ()
    since: float = 0.0  # wall clock
    last_good: SelectedConfig | None = None
    before: str = ""  # the map that the node goes by while there is none to choose

    @property
    def source(self) -> str:
        """The source that the node goes by; empty if there is none."""
        return self.chosen.source if self.chosen is not None else self.before

    def is_same(self, other: "PushState") -> bool:
        """Whether two states are the same, apart from their times."""
        mine = (self.phase, self.chosen, self.problems, self.before)
        return mine == (other.phase, other.chosen, other.problems, other.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A SetConfig call to make."""

    data: Mapping[str, str] = field(default_factory=empty_map)
    session: int = 0
    chosen: SelectedConfig | None = None  # none: what was sent before is taken back
    again: bool = False  # what was accepted last is given back to a relay that may have forgotten it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    data: Mapping[str, str]
    problems: tuple[str, ...] = ()  # none: it is in force


@dataclass(frozen=True, slots=True)
class _Target:
    chosen: SelectedConfig | None

    @property
    def data(self) -> Mapping[str, str]:
        return self.chosen.data if self.chosen is not None else empty_map()


@dataclass(frozen=True, slots=True)
class _Standing:
    """Phase and problems as reports show them, also while nothing of the cluster can be sent."""

    phase: PushPhase
    chosen: SelectedConfig | None = None
    problems: tuple[str, ...] = ()
    before: str = ""


class PushPlan:
    """Decides what to push and when. Times are seconds of a monotonic clock."""

    def __init__(
        self,
        *,
        interval: float,
        grace: float,
        withdraw: bool,
        chance: Callable[[], float],
        unreachable_after: float = UNREACHABLE_AFTER,
    ) -> None:
        """`grace` is how long a map may be missing before that counts; `withdraw`: what it said is then taken back."""
        self.last_good: SelectedConfig | None = None
        self.went_by: str | None = None  # the map that counts; empty: none does. None: there was no choice yet
        self._interval = interval
        self._grace = grace
        self._withdraw = withdraw
        self._unreachable_after = unreachable_after
        self._after_failure = Backoff(*_FAILED, random=chance)
        self._after_rejection = Backoff(*_REJECTED, random=chance)
        self._target: _Target | None = None
        self._fixed_standing: _Standing | None = None
        self._pending_choice: tuple[float, ConfigChoice] | None = (
            None  # what counts from then on, if nothing is said before
        )
        self._session: int | None = None
        self._restored_session: int | None = None  # the session that has had what was accepted last
        self._in_flight: Push | None = None
        self._attempt: Push | None = None  # the last one that was begun
        self._begun_at: float | None = None
        self._retry_at: float | None = None  # of the attempt; none: it was accepted, or is in flight
        self._failures = 0  # in a row
        self._answer: _Answer | None = None
        self._problem = ""
        self._problem_since: float | None = None

    # -- what happens

    def consider(self, choice: ConfigChoice, now: float) -> None:
        """Take over a choice, or wait with it for the grace period."""
        missing = choice.verdict is ChoiceResult.MISSING
        if not (missing or choice.gone) or (missing and self._is_without_map()):
            self._pending_choice = None
            self._adopt(choice)
        elif not choice.sure:
            self._pending_choice = None  # nobody can know; it begins again when somebody can
        else:
            at = self._pending_choice[0] if self._pending_choice is not None else now + self._grace
            self._pending_choice = (at, choice)

    def connection(self, session: int | None, problem: str, now: float) -> None:
        """Whether the relay is there, and which connection it is."""
        if session is None:
            self._note_trouble(problem, now)
        elif session != self._session and not self._failures:
            self._problem_since = None
        self._session = session

    def accepted(self) -> None:
        """The push that was begun is in force."""
        push = self._finish_push()
        self._retry_at = self._problem_since = None
        self._failures = 0
        self._after_failure.reset()
        self._restored_session = push.session
        if push.again:
            self._attempt = None  # what is wanted comes next, also if it is the same
            return
        self._after_rejection.reset()
        self.last_good = push.chosen
        self._answer = _Answer(data=push.data)

    def rejected(self, problems: tuple[str, ...], now: float) -> None:
        """The push was rejected: the relay keeps the configuration in force."""
        push = self._finish_push()
        self._problem_since = None
        self._failures = 0
        self._after_failure.reset()
        if push.again:  # what was good once is so no more, and nothing better is known
            self._restored_session, self._attempt = push.session, None
            return
        self._retry_at = now + self._after_rejection.next()
        self._answer = _Answer(data=push.data, problems=problems)

    def failed(self, problem: str, now: float) -> None:
        """The push failed with unknown outcome."""
        self._finish_push()
        self._failures += 1
        self._retry_at = now + self._after_failure.next()
        self._note_trouble(problem, now)

    # -- what to do

    def begin(self, now: float) -> Push | None:
        """The push that is due now, which is in flight from here on."""
        if self._pending_choice is not None and self._pending_choice[0] <= now:
            choice, self._pending_choice = self._pending_choice[1], None
            self._adopt(choice)
        due, push = self._push_due(now), self._next()
        if due is None or due > now or push is None:
            return None
        self._in_flight = self._attempt = push
        self._begun_at, self._retry_at = now, None
        return push

    def due(self, now: float) -> float | None:
        """When there is something to do or to tell next, if nothing happens before."""
        moments = [self._push_due(now), self._pending_choice[0] if self._pending_choice is not None else None]
        if self._target is not None and self._problem_since is not None:
            late = self._problem_since + self._unreachable_after
            moments.append(late if late > now else None)
        return min((moment for moment in moments if moment is not None), default=None)

    def state(self, now: float, wall: float) -> PushState:
        """The state for reports at this time."""
        standing = self._fixed_standing or self._standing(now)
        return PushState(
            phase=standing.phase,
            chosen=standing.chosen,
            problems=standing.problems,
            since=wall,
            last_good=self.last_good,
            before=standing.before,
        )

    def _standing(self, now: float) -> _Standing:
        if self._target is None:
            return _Standing(PushPhase.WAITING)
        chosen = self._target.chosen
        if self._problem_since is not None and now >= self._problem_since + self._unreachable_after:
            return _Standing(PushPhase.UNREACHABLE, chosen, (self._problem,))
        if self._answer is None or not self._is_target(self._answer.data):
            return _Standing(PushPhase.WAITING, chosen)
        if self._answer.problems:
            return _Standing(PushPhase.REJECTED, chosen, self._answer.problems)
        # An empty map and none at all are the same to the relay, not to people.
        return _Standing(PushPhase.APPLIED if chosen is not None else PushPhase.WITHDRAWN, chosen)

    # -- what is wanted

    def _is_without_map(self) -> bool:
        """Whether we go by it already that there is no map."""
        if self._fixed_standing is not None:
            return self._fixed_standing.phase is PushPhase.KEPT and not self._withdraw
        return self._target == _Target(None)

    def _adopt(self, choice: ConfigChoice) -> None:
        """Go by a choice from now on. What is not known changes nothing."""
        if choice.verdict is ChoiceResult.CHOSEN and choice.chosen is not None:
            self._fixed_standing, self.went_by = None, choice.chosen.source
            self._select(choice.chosen)
        elif choice.verdict is ChoiceResult.UNUSABLE and choice.chosen is not None:
            self.went_by, self._target = choice.chosen.source, None
            self._fixed_standing = _Standing(PushPhase.REJECTED, choice.chosen, choice.problems)
        elif choice.verdict is ChoiceResult.MISSING and self._withdraw:
            self._fixed_standing, self.went_by = None, ""
            self._set_target(_Target(None))
        elif choice.verdict is not ChoiceResult.WAIT:
            phase = PushPhase.FORBIDDEN if choice.verdict is ChoiceResult.FORBIDDEN else PushPhase.KEPT
            self._fixed_standing = _Standing(phase, None, choice.problems or choice.notes, choice.before or "")

    def _select(self, chosen: SelectedConfig) -> None:
        # Another version that says the same is no news: maps change for the sake of other nodes.
        if self._target is None or not chosen.same(self._target.chosen):
            self._set_target(_Target(chosen))

    def _set_target(self, target: _Target) -> None:
        if not self._is_target(target.data):
            self._forget_failures()
        self._target = target

    def _is_target(self, data: Mapping[str, str]) -> bool:
        return self._target is not None and self._target.data == data

    # -- pushes

    def _next(self) -> Push | None:
        """What the relay that is there is sent next, now or later."""
        if self._session is None or self._in_flight is not None:
            return None
        good = self.last_good
        if good is not None and self._restored_session != self._session and self._needs_fallback(good):
            return Push(data=good.data, session=self._session, chosen=good, again=True)
        if self._target is None:
            return None
        return Push(data=self._target.data, session=self._session, chosen=self._target.chosen)

    def _needs_fallback(self, good: SelectedConfig) -> bool:
        """Whether there is nothing to send, or something else that the relay has refused."""
        if self._target is None:
            return True
        refused = self._answer is not None and bool(self._answer.problems) and self._is_target(self._answer.data)
        return refused and not self._is_target(good.data)

    def _push_due(self, now: float) -> float | None:
        push, attempt = self._next(), self._attempt
        if push is None:
            return None
        earliest = self._begun_at + self._interval if self._begun_at is not None else now
        if attempt is None or push.data != attempt.data:
            return earliest
        if attempt.session != self._session and self._failures <= _AT_ONCE:
            return earliest
        return max(earliest, self._retry_at) if self._retry_at is not None else None

    def _finish_push(self) -> Push:
        push, self._in_flight = self._in_flight, None
        if push is None:
            raise RuntimeError("no push was begun")
        return push

    def _forget_failures(self) -> None:
        self._failures = 0
        self._after_failure.reset()
        self._after_rejection.reset()

    def _note_trouble(self, problem: str, now: float) -> None:
        self._problem = problem
        if self._problem_since is None:
            self._problem_since = now
