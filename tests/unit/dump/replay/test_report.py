"""What came of a replay, as a document."""

from typing import Any

from interpose.dump.replay.adapt import Adaptation
from interpose.dump.replay.final_state import Condition, FinalState
from interpose.dump.replay.id_map import Reference, ReferenceKind
from interpose.dump.replay.plan import ReplayPlan, make_plan
from interpose.dump.replay.report import FinalObject, ReplayOutcome, has_differences, plan_document, report_document
from interpose.dump.replay.runner import message_of
from interpose.dump.replay.selection import ReplayChoices
from interpose.testing.recordings import story_frames
from tests.support.dump.recorded_node import calls_of

POD = Reference(ReferenceKind.POD, "p")


def plan() -> ReplayPlan:
    """That of the story."""
    return make_plan(calls_of(story_frames()), ReplayChoices(), message_of)


def state(found: FinalState) -> FinalObject:
    """A pod that should run."""
    expected = Condition(state=FinalState.RUNNING)
    return FinalObject(recorded=POD, id="new", subject="a/b", expected=expected, found=Condition(state=found))


def as_recorded(**more: Any) -> list[ReplayOutcome]:
    """Every call ended as it did."""
    return [ReplayOutcome(step=step, code=step.code or 0, elapsed=1_000_000, **more) for step in plan().steps]


def test_a_plan_says_what_waits_for_what() -> None:
    """By the numbers of the recording."""
    document = plan_document(plan())
    start = document["calls"][2]
    assert (start["method"], start["status"], start["after"]) == ("StartContainer", "OK", [7])
    assert document["calls"][-1]["status"] == ""
    assert document["calls"][0]["makes"]
    assert sum(document["omitted"].values()) == len(calls_of(story_frames())) - 8


def test_all_as_recorded() -> None:
    """A call without a recorded end is neither the same nor different."""
    report = report_document(plan(), as_recorded(), [state(FinalState.RUNNING)])
    assert not has_differences(report)
    summary = report["summary"]
    assert (summary["made"], summary["same"], summary["different"], summary["unknown"]) == (8, 7, 0, 1)
    assert report["calls"][-1]["recorded_ms"] is None
    by_method = {one["method"]: one for one in report["latency"]}
    assert by_method["CreateContainer"]["count"] == 2  # not the one that failed
    assert by_method["CreateContainer"]["recorded_p50_ms"] == 46.05
    assert by_method["CreateContainer"]["p50_ms"] == 1.0
    assert "StopContainer" not in by_method


def test_another_status_differs() -> None:
    """One is enough."""
    outcomes = as_recorded()
    outcomes[0] = ReplayOutcome(step=outcomes[0].step, code=14, message="away")
    report = report_document(plan(), outcomes, [])
    assert has_differences(report)
    assert (report["calls"][0]["status"], report["calls"][0]["same"]) == ("UNAVAILABLE", False)


def test_another_state_differs() -> None:
    """So does a replay that was stopped."""
    assert has_differences(report_document(plan(), as_recorded(), [state(FinalState.GONE)]))
    stopped = report_document(plan(), as_recorded(), [], stopped=True)
    assert has_differences(stopped)
    assert stopped["notes"] == ["it was stopped before its end"]


def test_what_was_skipped_on_the_way_is_told_with_the_rest() -> None:
    """In the order of the recording."""
    outcomes = as_recorded()
    outcomes[1] = ReplayOutcome(step=outcomes[1].step, skipped="pod p was not made this time")
    report = report_document(plan(), outcomes, [])
    assert report["summary"]["skipped"] == 1
    assert report["skipped"][0]["reason"] == "pod p was not made this time"
    assert report["summary"]["made"] == 7


def test_notes_say_what_is_not_as_it_was() -> None:
    """One sentence each; long lists are cut."""
    adapted = Adaptation(
        redacted=1, dropped_mounts=["/d", "/c", "/b", "/a"], missing_mounts=["/m"], dropped_logs=["/l", "/k"]
    )
    outcomes = as_recorded()
    outcomes[0] = ReplayOutcome(step=outcomes[0].step, code=0, adapted=adapted)
    notes = report_document(plan(), outcomes, [state(FinalState.RUNNING)], suffix="-r1")["notes"]
    assert notes == [
        "1 pod or container is left there (--cleanup removes them)",
        "uids of pods got the suffix '-r1'",
        "1 value was sent as redacted, not as recorded calls had them",
        "mounts that do not exist here were left out: /a, /b, /c and 1 more",
        "mounts do not exist here: /m (--drop-mounts leaves them out)",
        "no logs are kept for 2 pods: the directory is not here (--logs DIR)",
    ]
    assert report_document(plan(), as_recorded(), [state(FinalState.RUNNING)], removed=True)["notes"] == []


def test_what_could_not_be_removed_is_told() -> None:
    """It is another end than the recorded one, and so is one that nobody could see."""
    pod, container = Reference(ReferenceKind.POD, "p1"), Reference(ReferenceKind.CONTAINER, "c1")
    report = report_document(
        plan(), as_recorded(), [], removed=True, made=[pod, container], left=[pod], unseen="UNAVAILABLE: away"
    )
    assert report["notes"] == [
        "states at the end are not all known: UNAVAILABLE: away",
        "what may still be there: pod p1",
    ]
    assert report["made"] == [
        {"kind": "pod", "id": "p1", "left": True},
        {"kind": "container", "id": "c1", "left": False},
    ]
    assert has_differences(report)
    kept = report_document(plan(), as_recorded(), [], made=[pod])
    assert kept["made"] == [{"kind": "pod", "id": "p1", "left": None}]
    assert not has_differences(kept)
