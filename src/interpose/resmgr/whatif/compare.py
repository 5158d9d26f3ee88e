"""What a container had by the recording, compared with what a policy would have given it, and for how long.

Only sets of CPUs and memory nodes count. What no decision sets is what the caller asked for. Pure.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from interpose.core.model.pod import Container
from interpose.core.policy.decision import Assignment
from interpose.resmgr.existing_containers import to_assignment


class ComparisonResult(StrEnum):
    """How the recorded and the decided assignment compare."""

    SAME = "same"
    OTHER = "other"
    NOTHING = "nothing given"  # then it had no set at all
    REFUSED_NOW = "refused now"  # then it ran
    REFUSED_THEN = "refused then"  # now it would run
    REFUSED_BOTH = "refused both times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both assignments of a container at its creation; None: it was refused, or would be."""

    result: ComparisonResult
    then: Assignment | None
    now: Assignment | None


def recorded_assignment(container: Container) -> Assignment:
    """The CPUs and memory nodes of a container by its record."""
    return replace(to_assignment(container.resources), shares=None, quota=None)


def effective(decided: Assignment, container: Container) -> Assignment:
    """The CPUs and memory nodes of a container by a decision; what that does not set is what its caller requested."""
    requested = to_assignment(container.requested)
    return Assignment(cpus=decided.cpus or requested.cpus, mems=decided.mems or requested.mems)


def compare(then: Assignment | None, now: Assignment | None) -> Comparison:
    """Compare two assignments; None is a refusal."""
    return Comparison(result=_result(then, now), then=then, now=now)


def _result(then: Assignment | None, now: Assignment | None) -> ComparisonResult:
    if then is None or now is None:
        return (
            ComparisonResult.REFUSED_NOW
            if then
            else ComparisonResult.REFUSED_THEN
            if now
            else ComparisonResult.REFUSED_BOTH
        )
    if then == now:
        return ComparisonResult.SAME
    return ComparisonResult.NOTHING if then == Assignment() else ComparisonResult.OTHER


@dataclass(slots=True)
class Agreement:
    """For how long each result held for a container, in nanoseconds."""

    since: int
    result: ComparisonResult
    spent: dict[ComparisonResult, int] = field(default_factory=dict)

    def set(self, result: ComparisonResult, now: int) -> None:
        """This result holds from `now` on."""
        self.spent[self.result] = self.spent.get(self.result, 0) + now - self.since
        self.since, self.result = now, result
