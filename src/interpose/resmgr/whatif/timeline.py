"""The account of a policy that is told what happened long ago: its decisions in order, and what they come to.

Everything here is counted as it comes, so a long day needs no more room than its decisions. Pure.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import Policy
from interpose.core.policy.decision import Assignment, Decision
from interpose.core.policy.request import Key, Request
from interpose.resmgr.whatif.compare import Agreement, Compared, Verdict


class What(StrEnum):
    """Why something was decided."""

    CREATE = "create"
    TAKE_OVER = "take over"  # it was there already
    RESIZE = "resize"
    RELEASE = "release"
    UNDO = "undo"  # the runtime did not make it


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Somebody else whose CPUs or memory nodes are others now."""

    title: str
    before: Assignment
    after: Assignment
    running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """One decision and what it did."""

    time_ns: int
    what: What
    request: Request
    decision: Decision
    before: Assignment
    after: Assignment
    moved: tuple[Move, ...]
    running: bool  # the container itself
    exclusive: int  # CPUs that somebody has alone, afterwards
    pools: Mapping[str, CpuSet]  # afterwards

    @property
    def title(self) -> str:
        """The container."""
        return self.request.title

    @property
    def refused(self) -> bool:
        """Whether it was a no."""
        return self.decision.refusal is not None

    @property
    def reason(self) -> str:
        """In one sentence."""
        return self.decision.reason if self.decision.refusal is None else self.decision.refusal.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A container had these CPUs alone for a while."""

    title: str
    cpus: CpuSet
    since_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What it comes to."""

    began_ns: int
    ended_ns: int
    calls: int
    placed: int  # containers that were created and got something
    refused: int  # containers that were not
    taken_over: int  # containers that were there before
    without_place: int  # of these, at the end
    resized: int
    resizes_refused: int
    moves: int  # another CPU set for a container that runs
    moves_then: int  # so many were written in fact
    exclusive_peak: int  # CPUs that somebody has alone
    exclusive_average: float  # over time
    verdicts: Mapping[Verdict, int]  # of containers, as they were created
    agreement: float | None  # part of the time in which containers had the very same; None: there were none
    failures: int  # decisions that the policy could not make
    unreadable: int  # messages that were none
    strangers: int  # containers of which too little is known to decide about them
    guessed: int  # pods and containers from before, of which not everything is known


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineOutcome:
    """Everything about one policy."""

    steps: tuple[TimelineStep, ...]
    compared: Mapping[Key, tuple[str, Compared]]  # with the names of the containers
    stays: tuple[Stay, ...]
    summary: Summary


@dataclass(slots=True)
class Counts:
    """What is counted by whoever tells."""

    calls: int = 0
    moves_then: int = 0
    failures: int = 0
    unreadable: int = 0


@dataclass(slots=True)
class _Exclusive:
    """CPUs with an owner, over time."""

    count: int = 0
    peak: int = 0
    area: int = 0  # CPUs times nanoseconds


@dataclass(slots=True)
class _Holding:
    title: str
    cpus: CpuSet
    since: int


class Retrospect:
    """Takes steps as they come."""

    def __init__(self, policy: Policy) -> None:
        self.counts = Counts()
        self._policy = policy
        self._steps: list[TimelineStep] = []
        self._began: int | None = None
        self._now = 0
        self._has: dict[Key, Assignment] = {}  # by the last step about it
        self._exclusive = _Exclusive()
        self._holdings: dict[Key, _Holding] = {}
        self._stays: list[Stay] = []
        self._compared: dict[Key, tuple[str, Compared]] = {}
        self._agreements: dict[Key, Agreement] = {}
        self._spent: Counter[Verdict] = Counter()

    # -- time

    def pass_until(self, now: int) -> None:
        """So late it is."""
        if self._began is None:
            self._began = now
        else:
            self._exclusive.area += self._exclusive.count * (now - self._now)
        self._now = now

    # -- decisions

    def add(
        self,
        what: What,
        decision: Decision,
        request: Request,
        before: Assignment,
        assignment: Callable[[Key], Assignment],
        others: Mapping[Key, tuple[str, bool]],
    ) -> tuple[Key, ...]:
        """A decision; `assignment` is what containers have by now, `others` their names and whether they run.

        Returns whose CPUs or memory nodes are others now.
        """
        key = request.key
        after = assignment(key)
        moved = []
        keys = []
        for other in decision.changed:
            was, now = self._has.get(other, Assignment()), assignment(other)
            if other == key or other not in others or (was.cpus, was.mems) == (now.cpus, now.mems):
                continue
            title, running = others[other]
            moved.append(Move(title=title, before=was, after=now, running=running))
            keys.append(other)
            self._has[other] = now
        if key in others:
            self._has[key] = after
        else:
            self._has.pop(key, None)
        self._hold((key, *decision.changed), others)
        exclusive = CpuSet.union(grant.exclusive for grant in self._policy.state.grants.values())
        self._exclusive.count = len(exclusive)
        self._exclusive.peak = max(self._exclusive.peak, len(exclusive))
        self._steps.append(
            TimelineStep(
                time_ns=self._now,
                what=what,
                request=request,
                decision=decision,
                before=before,
                after=after,
                moved=tuple(moved),
                running=others.get(key, ("", False))[1],
                exclusive=len(exclusive),
                pools=dict(self._policy.pools()),
            )
        )
        return tuple(keys)

    def _hold(self, keys: tuple[Key, ...], others: Mapping[Key, tuple[str, bool]]) -> None:
        """Who has which CPUs alone, from when on."""
        for key in keys:
            grant = self._policy.state.grants.get(key)
            own = EMPTY if grant is None else grant.exclusive
            held = self._holdings.get(key)
            if held is not None and held.cpus != own:
                self._stays.append(self._stay(self._holdings.pop(key)))
                held = None
            if held is None and own:
                self._holdings[key] = _Holding(others[key][0], own, self._now)

    def _stay(self, held: _Holding) -> Stay:
        return Stay(title=held.title, cpus=held.cpus, since_ns=held.since, until_ns=self._now)

    # -- comparing

    def created(self, key: Key, title: str, compared: Compared) -> None:
        """A container, as it was created; the first time counts."""
        self._compared.setdefault(key, (title, compared))

    def has(self, key: Key, verdict: Verdict) -> None:
        """How what a container has compares from now on."""
        agreement = self._agreements.get(key)
        if agreement is None:
            self._agreements[key] = Agreement(self._now, verdict)
        elif agreement.verdict is not verdict:
            agreement.become(verdict, self._now)

    def gone(self, key: Key) -> None:
        """It has nothing any more."""
        if (agreement := self._agreements.pop(key, None)) is not None:
            self._spend(agreement)

    def _spend(self, agreement: Agreement) -> None:
        agreement.become(agreement.verdict, self._now)
        self._spent.update(agreement.spent)
        agreement.spent.clear()

    # -- the end

    def outcome(self, *, strangers: int, guessed: int, without_place: int) -> TimelineOutcome:
        """What it came to so far."""
        for agreement in self._agreements.values():
            self._spend(agreement)
        began = self._now if self._began is None else self._began
        duration = self._now - began
        moves = sum(_moves(step) for step in self._steps)
        placed = _placed(self._steps)
        total = sum(self._spent.values())
        summary = Summary(
            began_ns=began,
            ended_ns=self._now,
            calls=self.counts.calls,
            placed=len(placed),
            refused=len({step.request.key for step in self._steps if _refused(step)} - placed),
            taken_over=len({step.request.key for step in self._steps if step.what is What.TAKE_OVER}),
            without_place=without_place,
            resized=sum(step.what is What.RESIZE and not step.refused for step in self._steps),
            resizes_refused=sum(step.what is What.RESIZE and step.refused for step in self._steps),
            moves=moves,
            moves_then=self.counts.moves_then,
            exclusive_peak=self._exclusive.peak,
            exclusive_average=self._exclusive.area / duration if duration else float(self._exclusive.count),
            verdicts=dict(Counter(one.verdict for _, one in self._compared.values())),
            agreement=self._spent[Verdict.SAME] / total if total else None,
            failures=self.counts.failures,
            unreadable=self.counts.unreadable,
            strangers=strangers,
            guessed=guessed,
        )
        stays = [*self._stays, *(self._stay(one) for one in self._holdings.values())]
        return TimelineOutcome(
            steps=tuple(self._steps),
            compared=dict(self._compared),
            stays=tuple(sorted(stays, key=lambda one: (one.since_ns, one.title))),
            summary=summary,
        )


def _moves(step: TimelineStep) -> int:
    """Containers that run and have another CPU set by this."""
    itself = step.what is What.RESIZE and step.running and step.before.cpus != step.after.cpus
    return itself + sum(one.running and one.before.cpus != one.after.cpus for one in step.moved)


def _placed(steps: Iterable[TimelineStep]) -> set[Key]:
    """Containers that came and got something; not those that the runtime did not make."""
    placed: set[Key] = set()
    for step in steps:
        if step.what is What.UNDO:
            placed.discard(step.request.key)
        elif step.what is What.CREATE and not step.refused:
            placed.add(step.request.key)
    return placed


def _refused(step: TimelineStep) -> bool:
    return step.what is What.CREATE and step.refused
