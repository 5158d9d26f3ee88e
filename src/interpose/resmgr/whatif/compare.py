"""What a container was really given, beside what it would have been given: the same, or not, and for how long.

Only sets of CPUs and memory nodes count. What nobody writes is what the caller asked for. Pure.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from interpose.core.model.pod import Container
from interpose.core.policy.decision import Assignment
from interpose.resmgr.existing_containers import to_assignment


class Verdict(StrEnum):
    """How then and now compare."""

    SAME = "same"
    OTHER = "other"
    NOTHING = "nothing given"  # then it had no set at all
    REFUSED_NOW = "refused now"  # then it ran
    REFUSED_THEN = "refused then"  # now it would run
    REFUSED_BOTH = "refused both times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A container as it was created; None: it was refused, or would be."""

    verdict: Verdict
    then: Assignment | None
    now: Assignment | None


def given(container: Container) -> Assignment:
    """The sets that a container has by its record."""
    return replace(to_assignment(container.resources), shares=None)


def effective(decided: Assignment, container: Container) -> Assignment:
    """The sets that a container has by a decision: where that says nothing, what its caller asked for."""
    asked = to_assignment(container.requested)
    return Assignment(cpus=decided.cpus or asked.cpus, mems=decided.mems or asked.mems)


def compared(then: Assignment | None, now: Assignment | None) -> Compared:
    """Two outcomes; None is a refusal."""
    return Compared(verdict=_verdict(then, now), then=then, now=now)


def _verdict(then: Assignment | None, now: Assignment | None) -> Verdict:
    if then is None or now is None:
        return Verdict.REFUSED_NOW if then else Verdict.REFUSED_THEN if now else Verdict.REFUSED_BOTH
    if then == now:
        return Verdict.SAME
    return Verdict.NOTHING if then == Assignment() else Verdict.OTHER


@dataclass(slots=True)
class Agreement:
    """For how long a container had what, in nanoseconds by verdict."""

    since: int
    verdict: Verdict
    spent: dict[Verdict, int] = field(default_factory=dict)

    def become(self, verdict: Verdict, now: int) -> None:
        """From now on it is this."""
        self.spent[self.verdict] = self.spent.get(self.verdict, 0) + now - self.since
        self.since, self.verdict = now, verdict
