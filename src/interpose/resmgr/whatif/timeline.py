"""The time line of a replay: the decisions of a policy in order, and their summary.

Everything is counted as it comes, so a long recording needs no more room than its decisions. Pure.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import Policy
from interpose.core.policy.decision import Assignment, Decision
from interpose.core.policy.request import Key, Request
from interpose.resmgr.whatif.compare import Agreement, Comparison, ComparisonResult


class TimelineStepKind(StrEnum):
    """The event that led to a decision."""

    CREATE = "create"
    TAKE_OVER = "take over"  # the container ran before the recording
    RESIZE = "resize"
    RELEASE = "release"
    UNDO = "undo"  # the runtime did not create the container


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Another container whose CPUs or memory nodes changed by a decision."""

    title: str
    before: Assignment
    after: Assignment
    running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStep:
    """One decision and its effects."""

    time_ns: int
    kind: TimelineStepKind
    request: Request
    decision: Decision
    before: Assignment
    after: Assignment
    moved: tuple[Move, ...]
    running: bool  # the container itself
    exclusive: int  # exclusive CPUs of all containers, afterwards
    pools: Mapping[str, CpuSet]  # afterwards

    @property
    def title(self) -> str:
        """The display name of the container."""
        return self.request.title

    @property
    def refused(self) -> bool:
        """Whether the policy refused the request."""
        return self.decision.refusal is not None

    @property
    def reason(self) -> str:
        """The reason of the decision, one sentence."""
        return self.decision.reason if self.decision.refusal is None else self.decision.refusal.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A period in which a container had these CPUs exclusively."""

    title: str
    cpus: CpuSet
    since_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Counts of a whole replay."""

    began_ns: int
    ended_ns: int
    calls: int
    placed: int  # containers that were created and granted something
    refused: int  # containers that were not
    taken_over: int  # containers that were there before
    without_place: int  # of these, at the end
    resized: int
    resizes_refused: int
    moves: int  # another CPU set for a container that runs
    moves_then: int  # as recorded
    exclusive_peak: int  # exclusive CPUs of all containers
    exclusive_average: float  # over time
    results: Mapping[ComparisonResult, int]  # of containers, as they were created
    agreement: float | None  # part of the time in which containers had the very same; None: there were none
    failures: int  # decisions that the policy could not make
    unreadable: int  # messages that could not be read
    strangers: int  # containers of which too little is known to decide about them
    guessed: int  # pods and containers from before, of which not everything is known


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineOutcome:
    """All decisions of one policy, and their summary."""

    steps: tuple[TimelineStep, ...]
    comparisons: Mapping[Key, tuple[str, Comparison]]  # with the names of the containers
    stays: tuple[Stay, ...]
    summary: Summary


@dataclass(slots=True)
class Counts:
    """Counters that the replay increments."""

    calls: int = 0
    moves_then: int = 0
    failures: int = 0
    unreadable: int = 0


@dataclass(slots=True)
class _Exclusive:
    """Exclusive CPUs over time."""

    count: int = 0
    peak: int = 0
    area: int = 0  # CPUs times nanoseconds


@dataclass(slots=True)
class _Holding:
    title: str
    cpus: CpuSet
    since: int


class Timeline:
    """Collects the decisions of a replay."""

    def __init__(self, policy: Policy) -> None:
        self.counts = Counts()
        self._policy = policy
        self._steps: list[TimelineStep] = []
        self._began: int | None = None
        self._now = 0
        self._assignments: dict[Key, Assignment] = {}  # of each container by its last step
        self._exclusive = _Exclusive()
        self._holdings: dict[Key, _Holding] = {}
        self._stays: list[Stay] = []
        self._comparisons: dict[Key, tuple[str, Comparison]] = {}
        self._agreements: dict[Key, Agreement] = {}
        self._spent: Counter[ComparisonResult] = Counter()

    # -- time

    def advance(self, now: int) -> None:
        """Set the time, in nanoseconds since the epoch."""
        if self._began is None:
            self._began = now
        else:
            self._exclusive.area += self._exclusive.count * (now - self._now)
        self._now = now

    # -- decisions

    def add(
        self,
        kind: TimelineStepKind,
        decision: Decision,
        request: Request,
        before: Assignment,
        assignment: Callable[[Key], Assignment],
        others: Mapping[Key, tuple[str, bool]],
    ) -> tuple[Key, ...]:
        """Add a decision; `assignment` returns what a container has now, `others` are their names and whether they run.

        Returns the other containers whose CPUs or memory nodes changed.
        """
        key = request.key
        after = assignment(key)
        moved = []
        keys = []
        for other in decision.changed:
            was, now = self._assignments.get(other, Assignment()), assignment(other)
            if other == key or other not in others or (was.cpus, was.mems) == (now.cpus, now.mems):
                continue
            title, running = others[other]
            moved.append(Move(title=title, before=was, after=now, running=running))
            keys.append(other)
            self._assignments[other] = now
        if key in others:
            self._assignments[key] = after
        else:
            self._assignments.pop(key, None)
        self._update_holdings((key, *decision.changed), others)
        exclusive = CpuSet.union(grant.exclusive for grant in self._policy.state.grants.values())
        self._exclusive.count = len(exclusive)
        self._exclusive.peak = max(self._exclusive.peak, len(exclusive))
        self._steps.append(
            TimelineStep(
                time_ns=self._now,
                kind=kind,
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

    def _update_holdings(self, keys: tuple[Key, ...], others: Mapping[Key, tuple[str, bool]]) -> None:
        """Begin and end periods of exclusive CPUs."""
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

    # -- comparisons

    def add_created(self, key: Key, title: str, comparison: Comparison) -> None:
        """Compare a container at its creation; the first time counts."""
        self._comparisons.setdefault(key, (title, comparison))

    def set_result(self, key: Key, result: ComparisonResult) -> None:
        """This result holds for a container from now on."""
        agreement = self._agreements.get(key)
        if agreement is None:
            self._agreements[key] = Agreement(self._now, result)
        elif agreement.result is not result:
            agreement.set(result, self._now)

    def remove(self, key: Key) -> None:
        """A container has no allocation any more."""
        if (agreement := self._agreements.pop(key, None)) is not None:
            self._spend(agreement)

    def _spend(self, agreement: Agreement) -> None:
        agreement.set(agreement.result, self._now)
        self._spent.update(agreement.spent)
        agreement.spent.clear()

    # -- the outcome

    def outcome(self, *, strangers: int, guessed: int, without_place: int) -> TimelineOutcome:
        """The decisions and their summary so far."""
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
            taken_over=len({step.request.key for step in self._steps if step.kind is TimelineStepKind.TAKE_OVER}),
            without_place=without_place,
            resized=sum(step.kind is TimelineStepKind.RESIZE and not step.refused for step in self._steps),
            resizes_refused=sum(step.kind is TimelineStepKind.RESIZE and step.refused for step in self._steps),
            moves=moves,
            moves_then=self.counts.moves_then,
            exclusive_peak=self._exclusive.peak,
            exclusive_average=self._exclusive.area / duration if duration else float(self._exclusive.count),
            results=dict(Counter(found.result for _, found in self._comparisons.values())),
            agreement=self._spent[ComparisonResult.SAME] / total if total else None,
            failures=self.counts.failures,
            unreadable=self.counts.unreadable,
            strangers=strangers,
            guessed=guessed,
        )
        stays = [*self._stays, *(self._stay(holding) for holding in self._holdings.values())]
        return TimelineOutcome(
            steps=tuple(self._steps),
            comparisons=dict(self._comparisons),
            stays=tuple(sorted(stays, key=lambda stay: (stay.since_ns, stay.title))),
            summary=summary,
        )


def _moves(step: TimelineStep) -> int:
    """Running containers that get another CPU set by a decision."""
    itself = step.kind is TimelineStepKind.RESIZE and step.running and step.before.cpus != step.after.cpus
    return itself + sum(move.running and move.before.cpus != move.after.cpus for move in step.moved)


def _placed(steps: Iterable[TimelineStep]) -> set[Key]:
    """Containers that were created and granted something; not those that the runtime did not create."""
    placed: set[Key] = set()
    for step in steps:
        if step.kind is TimelineStepKind.UNDO:
            placed.discard(step.request.key)
        elif step.kind is TimelineStepKind.CREATE and not step.refused:
            placed.add(step.request.key)
    return placed


def _refused(step: TimelineStep) -> bool:
    return step.kind is TimelineStepKind.CREATE and step.refused
