"""Whether there is something to tell, and what."""

from typing import Any

import pytest

from interpose.kube.agent.config_choice import SelectedConfig
from interpose.kube.agent.node_document import SloPhase, SloState
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.kube.agent.report import annotation_patch, condition_patch, report_of
from interpose.kube.agent.report_sinks import (
    LAG,
    MOST_EVENTS,
    REPEATED_AFTER,
    ConfigSubject,
    EventBudget,
    EventReportSink,
    NodeReportSink,
    ReportInput,
    ReportWrite,
    SloSubject,
    annotation_sink,
    condition_sink,
)
from interpose.kube.client.api import PatchKind

NODE: dict[str, Any] = {"metadata": {"name": "n", "uid": "u"}}
NO_SLO = SloState(phase=SloPhase.NONE)
BAD_SLO = SloState(phase=SloPhase.REJECTED, problems=("x",))


def view(
    text: str = "one", *, node: Any = NODE, slo: SloState = NO_SLO, phase: PushPhase = PushPhase.APPLIED
) -> ReportInput:
    """A configuration is in force."""
    chosen = SelectedConfig(source="ns/a", version="1", data={"policy": text})
    return ReportInput(node, report_of(PushState(phase=phase, chosen=chosen)), slo)


NOTHING = view(phase=PushPhase.WAITING)


def shown(seen: ReportInput) -> dict[str, Any]:
    """The Node with everything on it."""
    assert seen.report is not None
    metadata = seen.node["metadata"] | annotation_patch(seen.report, seen.slo, seen.node)["metadata"]
    return {"metadata": metadata} | condition_patch(seen.report, seen.node, 0.0)


@pytest.fixture(params=[condition_sink, annotation_sink])
def desk(request: pytest.FixtureRequest) -> NodeReportSink:
    """Either of the two that write on the Node."""
    made: NodeReportSink = request.param()
    return made


def test_patches() -> None:
    """The condition is in the status, and a list of others' too."""
    condition = condition_sink().next(view(), 0.0, 0.0)
    annotation = annotation_sink().next(view(), 0.0, 0.0)
    assert condition is not None
    assert annotation is not None
    assert (condition.patch, condition.subresource) == (PatchKind.STRATEGIC, "status")
    assert (annotation.patch, annotation.subresource) == (PatchKind.MERGE, "")


def test_nothing_to_tell(desk: NodeReportSink) -> None:
    """Nothing is known, or all is shown."""
    assert desk.next(NOTHING, 0.0, 0.0) is None
    assert desk.next(view(node=shown(view())), 0.0, 0.0) is None


def seen_as(version: str, text: str = "one", uid: str = "u") -> ReportInput:
    """The Node at some version, without anything of ours on it."""
    return view(text, node={"metadata": {"name": "n", "uid": uid, "resourceVersion": version}})


def written(desk: NodeReportSink) -> NodeReportSink:
    """At 0, when the Node had version 1."""
    write = desk.next(seen_as("1"), 0.0, 0.0)
    assert write is not None
    assert desk.ready_at(seen_as("1"), 0.0) == 0.0
    desk.done(seen_as("1"), write, 0.0)
    return desk


@pytest.mark.parametrize(("version", "again"), [("1", None), ("2", LAG)])
def test_what_was_written_takes_a_moment_to_be_seen(desk: NodeReportSink, version: str, again: float | None) -> None:
    """It is not written twice for that. If the Node was seen without it, it is looked at again in time."""
    written(desk)
    assert desk.next(seen_as(version), LAG - 1, 0.0) is None
    assert desk.again_at(seen_as(version), LAG - 1) == again
    assert desk.next(seen_as(version, "two"), 1.0, 0.0) is not None


def test_what_somebody_took_away_is_written_again(desk: NodeReportSink) -> None:
    """After that moment."""
    written(desk)
    assert desk.next(seen_as("2"), LAG, 0.0) is not None


def test_what_is_not_seen_yet_is_not_written_again(desk: NodeReportSink) -> None:
    """A watch that is late is no news of the Node."""
    written(desk)
    assert desk.next(seen_as("1"), 10 * LAG, 0.0) is None


def test_node_of_the_same_name_is_told_at_once(desk: NodeReportSink) -> None:
    """It is another one."""
    written(desk)
    assert desk.next(seen_as("2", uid="v"), 1.0, 0.0) is not None


def test_what_is_shown_needs_no_further_look(desk: NodeReportSink) -> None:
    """All is told."""
    written(desk)
    assert desk.again_at(view(node=shown(seen_as("2"))), 1.0) is None


# -- events


def events(subject: ConfigSubject | SloSubject | None = None) -> EventReportSink:
    """With nothing spent."""
    return EventReportSink(subject or ConfigSubject(), EventBudget(0.0))


def tell(desk: EventReportSink, seen: ReportInput, now: float = 0.0) -> str | None:
    """Write what is to be written; its reason."""
    desk.look(seen)
    write = desk.next(seen, now, now)
    if write is None:
        return None
    desk.done(seen, write, now)
    reason: str = write.body["reason"]
    return reason


def test_event_per_change() -> None:
    """And none without one."""
    desk = events()
    told = [tell(desk, seen) for seen in (NOTHING, view(), view(), NOTHING, view("two"))]
    assert told == [None, "ConfigApplied", None, None, "ConfigApplied"]


@pytest.mark.parametrize("part", ["metadata", "status"])
def test_event_that_an_agent_before_us_wrote(part: str) -> None:
    """The Node says so, in one way or the other."""
    node = NODE | {part: shown(view())[part]}
    desk = events()
    assert tell(desk, view(node=node)) is None
    assert tell(desk, view("two", node=node)) == "ConfigApplied"


def test_event_of_a_state_that_comes_and_goes() -> None:
    """It is counted up for a while, so that the newest is the last one; then there is a new one."""
    desk = events()
    written = []
    for text, now in (
        ("one", 0.0),
        ("two", 1.0),
        ("one", 2.0),
        ("two", 3.0),
        ("one", 4.0),
        ("two", REPEATED_AFTER + 1.0),
    ):
        write = desk.next(view(text), now, now)
        assert write is not None
        assert desk.ready_at(view(text), now) == now
        desk.done(view(text), write, now)
        written.append((write.repeated, write.body["count"], write.body["metadata"]["name"]))
    one, two = written[0][2], written[1][2]
    assert written[:5] == [(False, 1, one), (False, 1, two), (True, 2, one), (True, 2, two), (True, 3, one)]
    assert written[5][:2] == (False, 1)
    assert written[5][2] not in (one, two)


def test_event_that_is_counted_up_keeps_its_beginning() -> None:
    """Only when it was last is new."""
    desk = events()
    assert tell(desk, view("one"), 0.0) is not None
    assert tell(desk, view("two"), 1.0) is not None
    again = desk.next(view("one"), 60.0, 60.0)
    assert again is not None
    assert (again.body["firstTimestamp"], again.body["lastTimestamp"]) == (
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:01:00Z",
    )


def test_events_that_are_counted_up_cost_nothing() -> None:
    """A state that comes and goes does not keep others from being told."""
    budget = EventBudget(0.0)
    desk = EventReportSink(ConfigSubject(), budget)
    for number in range(100):
        assert tell(desk, view(str(number % 2))) is not None
    assert budget.ready_at(0.0) == 0.0


def test_event_that_was_not_written_is_still_to_be_told() -> None:
    """Until it is done."""
    desk = events()
    assert desk.next(view(), 0.0, 0.0) is not None
    assert desk.next(view(), 0.0, 0.0) is not None


def test_memory_for_events_is_bounded() -> None:
    """The oldest are forgotten."""
    desk = events()
    for number in range(100):
        assert tell(desk, view(str(number))) is not None
    old, recent = desk.next(view("0"), 0.0, 0.0), desk.next(view("98"), 0.0, 0.0)
    assert old is not None
    assert recent is not None
    assert (old.repeated, recent.repeated) == (False, True)


def test_events_about_the_slo() -> None:
    """That it is wrong, and that it is mended."""
    desk = events(SloSubject())
    told = [tell(desk, view(slo=slo)) for slo in (SloState(), NO_SLO, BAD_SLO, BAD_SLO, NO_SLO, NO_SLO)]
    assert told == [None, None, "NodeSLORejected", None, "NodeSLOApplied", None]


def test_event_about_the_slo_that_an_agent_before_us_wrote() -> None:
    """The annotation says so."""
    desk = events(SloSubject())
    node = shown(view(slo=BAD_SLO))
    assert tell(desk, view(node=node, slo=BAD_SLO)) is None
    assert tell(desk, view(node=node, slo=NO_SLO)) == "NodeSLOApplied"


@pytest.mark.parametrize("subject", [ConfigSubject(), SloSubject()])
def test_asking_changes_nothing(subject: ConfigSubject | SloSubject) -> None:
    """Whoever looks at what is pending takes no part in it."""
    desk = events(subject)
    seen = view(node=shown(view(slo=BAD_SLO)), slo=BAD_SLO)
    assert desk.next(seen, 0.0, 0.0) is None
    fresh = view(slo=BAD_SLO)  # nothing is shown: the question before is forgotten
    assert desk.next(fresh, 0.0, 0.0) is not None
    desk.look(seen)
    assert desk.next(fresh, 0.0, 0.0) is None
    assert desk.again_at(fresh, 0.0) is None


@pytest.mark.parametrize("unseen", [True, False])
def test_first_event_of_a_run_has_a_name_that_lasts(unseen: bool) -> None:
    """Where the Node shows nothing, the API server knows whether it was told."""
    names = []
    for now in (1.0, 2.0):
        desk = EventReportSink(ConfigSubject(), EventBudget(0.0), unseen=unseen)
        for text in ("one", "two"):
            write = desk.next(view(text), now, now)
            assert write is not None
            names.append(write.body["metadata"]["name"])
            desk.done(view(text), write, now)
    assert (names[0] == names[2]) is unseen
    assert names[1] != names[3]


def test_event_tells_something() -> None:
    """A mistake of ours is not overlooked."""
    with pytest.raises(ValueError, match="a reason and a message"):
        events().done(view(), ReportWrite(body={}), 0.0)


def test_subject_without_a_report() -> None:
    """Nothing was told."""
    subject = ConfigSubject()
    subject.mark_reported(NOTHING)
    assert subject.pending_event(view()) is not None


def test_budget() -> None:
    """Some at once, and then one now and then."""
    budget = EventBudget(0.0)
    for _ in range(MOST_EVENTS):
        assert budget.ready_at(0.0) == 0.0
        budget.spend(0.0)
    assert budget.ready_at(0.0) == pytest.approx(3600.0 / MOST_EVENTS)
    assert events().ready_at(NOTHING, 5.0) == 5.0
    assert budget.ready_at(200.0) == 200.0


def test_budget_does_not_grow_without_end() -> None:
    """A quiet day is no reason for a storm."""
    budget = EventBudget(0.0)
    budget.ready_at(1e6)
    for _ in range(MOST_EVENTS):
        budget.spend(1e6)
    assert budget.ready_at(1e6) > 1e6
