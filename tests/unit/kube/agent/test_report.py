"""The words for the cluster."""

import json
from dataclasses import replace
from typing import Any

import pytest

from interpose.kube.agent.config_choice import SelectedConfig
from interpose.kube.agent.node_document import SloPhase, SloState
from interpose.kube.agent.node_keys import STATUS
from interpose.kube.agent.push_state import PushPhase, PushState
from interpose.kube.agent.report import (
    CONDITION,
    NodeReport,
    ReportedEvent,
    annotation,
    annotation_patch,
    clip,
    condition_patch,
    has_annotation,
    has_condition,
    make_event,
    repeat_event,
    report_of,
    reported_source,
    slo_event,
)

CHOSEN = SelectedConfig(source="kube-system/cri-resmgr-config", version="42", data={"policy": "Active: static"})
NODE: dict[str, Any] = {"metadata": {"name": "n", "uid": "u-1"}}
NO_SLO = SloState(phase=SloPhase.NONE)


def state(phase: PushPhase, *problems: str, chosen: SelectedConfig | None = CHOSEN) -> PushState:
    """At one o'clock."""
    return PushState(phase=phase, chosen=chosen, problems=problems, since=3600.0)


def report(
    phase: PushPhase = PushPhase.APPLIED, *problems: str, chosen: SelectedConfig | None = CHOSEN, before: str = ""
) -> NodeReport:
    """There is something to tell."""
    made = report_of(replace(state(phase, *problems, chosen=chosen), before=before))
    assert made is not None
    return made


def test_waiting_is_nothing_to_tell() -> None:
    """What is on the Node stays."""
    assert report_of(PushState()) is None


@pytest.mark.parametrize(
    ("made", "status", "told"),
    [
        (
            report(),
            "True",
            ReportedEvent(
                reason="ConfigApplied",
                message="ConfigMap kube-system/cri-resmgr-config is in force (hash 5271698d2e91)",
            ),
        ),
        (
            report(PushPhase.WITHDRAWN, chosen=None),
            "True",
            ReportedEvent(
                reason="ConfigWithdrawn",
                message="there is no configuration for this node, the relay has its own settings",
            ),
        ),
        (
            report(PushPhase.REJECTED, "a is wrong", "b is wrong"),
            "False",
            ReportedEvent(
                reason="ConfigRejected",
                message="ConfigMap kube-system/cri-resmgr-config was rejected, what was in force stays"
                " (hash 5271698d2e91): a is wrong; b is wrong",
                warning=True,
            ),
        ),
        (
            report(PushPhase.KEPT, chosen=None),
            "True",
            ReportedEvent(
                reason="ConfigKept", message="no configuration for this node is to be seen, what was in force stays"
            ),
        ),
        (
            report(PushPhase.KEPT, "a may not be read", chosen=None),
            "Unknown",
            ReportedEvent(
                reason="ConfigKept",
                message="no configuration for this node is to be seen, what was in force stays: a may not be read",
            ),
        ),
        (
            report(PushPhase.FORBIDDEN, "a may not be read", chosen=None),
            "Unknown",
            ReportedEvent(
                reason="ConfigForbidden",
                message="it is not known what is wanted, what was in force stays: a may not be read",
                warning=True,
            ),
        ),
        (
            report(PushPhase.UNREACHABLE, "refused", chosen=None),
            "Unknown",
            ReportedEvent(
                reason="RelayUnreachable",
                message="relay does not answer, an empty configuration is wanted (hash 44136fa355b3): refused",
                warning=True,
            ),
        ),
    ],
)
def test_words(made: NodeReport, status: str, told: ReportedEvent) -> None:
    """Each says what it is about, and what is wrong."""
    assert (made.status, made.event) == (status, told)


def test_many_problems_are_counted() -> None:
    """The first ones are enough."""
    made = report(PushPhase.REJECTED, *(f"p{number}" for number in range(9)))
    assert made.event.message.endswith("p0; p1; p2; p3; p4; and 4 more")


def test_long_message_is_cut() -> None:
    """The API server takes no longer ones."""
    made = report(PushPhase.REJECTED, "x" * 5000)
    assert len(made.event.message) == 1024


# -- the annotation

BAD_SLO = SloState(phase=SloPhase.REJECTED, problems=("x",))
UNKNOWN_SLO = SloState()


def test_annotation() -> None:
    """Everything that somebody looks for."""
    assert json.loads(annotation(report(), NO_SLO, NODE)) == {
        "state": "applied",
        "source": "kube-system/cri-resmgr-config",
        "resourceVersion": "42",
        "hash": "5271698d2e91",
        "message": "ConfigMap kube-system/cri-resmgr-config is in force (hash 5271698d2e91)",
        "time": "1970-01-01T01:00:00Z",
    }


@pytest.mark.parametrize("char", ["x", "ü", '"', "\\", "\n", "\u2028"])
def test_annotation_is_short(char: str) -> None:
    """Whatever the problems and names are made of."""
    chosen = SelectedConfig(source="n" * 317, version="9" * 20, data={})
    slo = SloState(phase=SloPhase.REJECTED, problems=(char * 5000,))
    text = annotation(report(PushPhase.REJECTED, char * 5000, chosen=chosen), slo, NODE)
    assert len(text.encode()) < 1024
    assert json.loads(text)["state"] == "rejected"


def test_annotation_without_room_for_words() -> None:
    """Somebody else's text in the place of ours is no reason to go on for ever."""
    node = {"metadata": {"name": "n", "annotations": {STATUS: json.dumps({"source": "s" * 2000, "message": "m"})}}}
    assert json.loads(annotation(None, BAD_SLO, node))["message"] == ""


def shown(made: NodeReport | None, slo: SloState = NO_SLO, node: dict[str, Any] = NODE) -> dict[str, Any]:
    """A Node that shows a report."""
    return node | {"metadata": node["metadata"] | annotation_patch(made, slo, node)["metadata"]}


def test_annotation_that_is_there() -> None:
    """Times and versions do not count, however long they are."""
    long = ("x" * 5000,)
    later = SelectedConfig(source=CHOSEN.source, version="43" * 9, data=CHOSEN.data)
    for phase, problems in ((PushPhase.APPLIED, ()), (PushPhase.REJECTED, long)):
        again = report_of(PushState(phase=phase, chosen=later, problems=problems, since=9999.0))
        assert has_annotation(again, NO_SLO, shown(report(phase, *problems)))


@pytest.mark.parametrize("slo", [NO_SLO, SloState(phase=SloPhase.REJECTED, problems=("y",))])
def test_annotation_that_says_something_else(slo: SloState) -> None:
    """Another state, another content, another problem of the NodeSLO, or none any more."""
    node = shown(report(), BAD_SLO)
    assert has_annotation(report(), BAD_SLO, node)
    assert not has_annotation(report(PushPhase.REJECTED, "x"), BAD_SLO, node)
    other = SelectedConfig(source=CHOSEN.source, version="42", data={})
    assert not has_annotation(report(chosen=other), BAD_SLO, node)
    assert not has_annotation(report(), slo, node)


def test_unknown_slo_takes_nothing_back() -> None:
    """What was wrong with it before may still be."""
    node = shown(report(), BAD_SLO)
    assert has_annotation(report(), UNKNOWN_SLO, node)
    assert json.loads(annotation(report(PushPhase.REJECTED), UNKNOWN_SLO, node))["nodeSLO"] == "x"


def test_annotation_about_the_slo_alone() -> None:
    """Nobody pushes a configuration, or it is not known yet how that goes; what is there about it stays."""
    assert has_annotation(None, NO_SLO, NODE)
    assert has_annotation(None, UNKNOWN_SLO, NODE)
    assert json.loads(annotation(None, BAD_SLO, NODE)) == {"nodeSLO": "x"}
    assert has_annotation(None, BAD_SLO, shown(None, BAD_SLO))
    before = shown(report())
    assert json.loads(annotation(None, BAD_SLO, before)) == json.loads(annotation(report(), BAD_SLO, NODE))


def test_annotation_with_nothing_left_to_say() -> None:
    """It is removed."""
    node = shown(None, BAD_SLO)
    assert not has_annotation(None, NO_SLO, node)
    assert annotation_patch(None, NO_SLO, node) == {"metadata": {"annotations": {STATUS: None}}}


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"nodeSLO": 3}', 7])
def test_annotation_that_cannot_be_read(text: Any) -> None:
    """It is written anew."""
    node = {"metadata": {"name": "n", "annotations": {STATUS: text}}}
    assert not has_annotation(report(), UNKNOWN_SLO, node)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (None, None),
        (report(), "kube-system/cri-resmgr-config"),
        (report(PushPhase.REJECTED), "kube-system/cri-resmgr-config"),
        (report(PushPhase.WITHDRAWN, chosen=None), ""),
        (report(PushPhase.KEPT, chosen=None), None),
        (report(PushPhase.FORBIDDEN, chosen=None, before="ns/a"), "ns/a"),
    ],
)
def test_map_that_an_agent_before_us_noted(made: NodeReport | None, expected: str | None) -> None:
    """Also if it could not tell what it says."""
    assert reported_source(shown(made)) == expected


# -- the condition


def with_condition(**fields: Any) -> dict[str, Any]:
    """A Node that has one."""
    others = [{"type": "Ready", "status": "True"}, "garbage"]
    return NODE | {"status": {"conditions": [*others, {"type": CONDITION, **fields}]}}


def test_condition_is_a_patch_of_its_own_type() -> None:
    """Those of others stay."""
    assert condition_patch(report(), NODE, 7200.0) == {
        "status": {
            "conditions": [
                {
                    "type": "InterposeConfigured",
                    "status": "True",
                    "reason": "ConfigApplied",
                    "message": "ConfigMap kube-system/cri-resmgr-config is in force (hash 5271698d2e91)",
                    "lastHeartbeatTime": "1970-01-01T02:00:00Z",
                    "lastTransitionTime": "1970-01-01T01:00:00Z",
                }
            ]
        }
    }


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "True", "lastTransitionTime": "then"}, "then"),
        ({"status": "False", "lastTransitionTime": "then"}, "1970-01-01T01:00:00Z"),
        ({"status": "True", "lastTransitionTime": None}, "1970-01-01T01:00:00Z"),
    ],
)
def test_time_of_transition_is_that_of_the_status(fields: dict[str, Any], expected: str) -> None:
    """It stays while the status does."""
    patch = condition_patch(report(), with_condition(**fields), 7200.0)
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == expected


def test_condition_that_is_there() -> None:
    """Times do not count."""
    told = report().event
    assert has_condition(report(), with_condition(status="True", reason=told.reason, message=told.message))
    assert not has_condition(report(), with_condition(status="True", reason=told.reason, message="else"))
    assert not has_condition(report(), NODE)
    assert not has_condition(report(), NODE | {"status": {"conditions": None}})


# -- events


def test_event() -> None:
    """About the Node, as kubectl describe looks for it."""
    made = make_event(ReportedEvent(reason="ConfigRejected", message="m", warning=True), NODE, 3600.5)
    assert made == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "n.3464e860500", "namespace": "default"},
        "involvedObject": {"kind": "Node", "apiVersion": "v1", "name": "n", "uid": "u-1"},
        "reason": "ConfigRejected",
        "message": "m",
        "type": "Warning",
        "source": {"component": "interpose-agent", "host": "n"},
        "reportingComponent": "interpose-agent",
        "reportingInstance": "n",
        "firstTimestamp": "1970-01-01T01:00:00Z",
        "lastTimestamp": "1970-01-01T01:00:00Z",
        "count": 1,
    }


def test_event_of_a_node_with_a_long_name() -> None:
    """No object may have a longer one."""
    made = make_event(ReportedEvent(reason="r", message="m"), {"metadata": {"name": "a" * 240 + "." + "b" * 12}}, 1e9)
    assert len(made["metadata"]["name"]) <= 253
    assert ".." not in made["metadata"]["name"]
    assert made["type"] == "Normal"
    assert "uid" not in made["involvedObject"]


def test_event_that_is_told_once() -> None:
    """Its name says what it tells to which Node, and not when."""
    told = ReportedEvent(reason="r", message="m")
    names = [make_event(told, NODE, wall, once=True)["metadata"]["name"] for wall in (1.0, 2.0)]
    assert names[0] == names[1]
    other = {"metadata": {"name": "n", "uid": "u-2"}}
    assert make_event(told, other, 1.0, once=True)["metadata"]["name"] != names[0]
    assert make_event(ReportedEvent(reason="r", message="other"), NODE, 1.0, once=True)["metadata"]["name"] != names[0]


def test_event_that_is_told_again() -> None:
    """It is counted up; when it was first told stays."""
    body = make_event(ReportedEvent(reason="r", message="m"), NODE, 0.0)
    assert repeat_event(body, 60.0) == body | {"count": 2, "lastTimestamp": "1970-01-01T00:01:00Z"}


@pytest.mark.parametrize(
    ("slo", "before", "reason"),
    [
        (SloState(), "x", None),
        (SloState(problems=("forbidden",)), "", None),
        (NO_SLO, "", None),
        (NO_SLO, "x", "NodeSLOApplied"),
        (SloState(phase=SloPhase.REJECTED, problems=("x",)), "x", None),
        (SloState(phase=SloPhase.REJECTED, problems=("x",)), "", "NodeSLORejected"),
    ],
)
def test_what_is_told_about_a_slo(slo: SloState, before: str, reason: str | None) -> None:
    """What is new about it."""
    told = slo_event(slo, before)
    assert (told.reason if told is not None else None) == reason


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abc..."),
        ("a\nb\0", 9, "a b "),
        ("üüü", 5, "ü..."),
        ("abc", 0, ""),
        ("\ud800", 9, " "),
    ],
)
def test_shortening(text: str, most: int, expected: str) -> None:
    """Whole characters, on one line."""
    assert clip(text, most) == expected
