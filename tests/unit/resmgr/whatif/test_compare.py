"""What was given, beside what would be."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.decision import Assignment
from interpose.resmgr.whatif.compare import Agreement, ComparisonResult, compare, effective, recorded_assignment

NOTHING = Assignment()
SOME = Assignment(cpus=CpuSet.parse("1-2"))
OTHER = Assignment(cpus=CpuSet.parse("3"))
MEMS = Assignment(cpus=CpuSet.parse("1-2"), mems=CpuSet.parse("0"))


@pytest.mark.parametrize(
    ("then", "now", "verdict"),
    [
        (SOME, SOME, ComparisonResult.SAME),
        (NOTHING, NOTHING, ComparisonResult.SAME),
        (SOME, OTHER, ComparisonResult.OTHER),
        (SOME, MEMS, ComparisonResult.OTHER),
        (SOME, NOTHING, ComparisonResult.OTHER),
        (NOTHING, SOME, ComparisonResult.NOTHING),
        (SOME, None, ComparisonResult.REFUSED_NOW),
        (NOTHING, None, ComparisonResult.REFUSED_NOW),
        (None, SOME, ComparisonResult.REFUSED_THEN),
        (None, NOTHING, ComparisonResult.REFUSED_THEN),
        (None, None, ComparisonResult.REFUSED_BOTH),
    ],
)
def test_two_outcomes_compare(then: Assignment | None, now: Assignment | None, verdict: ComparisonResult) -> None:
    """None is a refusal, which is not the same as nothing."""
    assert compare(then, now).result is verdict


def test_what_nobody_writes_is_what_was_asked_for() -> None:
    """The kubelet's own CPU manager sends sets, too; shares are not compared."""
    asked = LinuxResources(cpuset_cpus="1-2", cpuset_mems="0", cpu_shares=5)
    container = Container(id="c", requested=asked, resources=LinuxResources(cpuset_cpus="3", cpu_shares=7))
    assert recorded_assignment(container) == OTHER
    assert effective(Assignment(shares=9), container) == MEMS
    assert effective(OTHER, container).cpus == OTHER.cpus


def test_time_is_kept_by_verdict() -> None:
    """Each for as long as it was so."""
    agreement = Agreement(10, ComparisonResult.SAME)
    agreement.set(ComparisonResult.OTHER, 15)
    agreement.set(ComparisonResult.SAME, 16)
    agreement.set(ComparisonResult.SAME, 20)
    assert agreement.spent == {ComparisonResult.SAME: 9, ComparisonResult.OTHER: 1}
