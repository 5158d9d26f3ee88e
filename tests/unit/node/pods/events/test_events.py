"""What happened with a pod, in the words of Kubernetes."""

import json
from dataclasses import replace

import pytest

from interpose.node.pods.events.events import (
    EventType,
    PodEvent,
    event_of,
    from_lines,
    make_scheduled_event,
    merge_repeated,
    to_line,
)
from interpose.node.pods.sync.result import ProgressEvent, ProgressPhase, StepReason

STARTED = PodEvent(type=EventType.NORMAL, reason="Started", message="m", container="main", first=1, last=1)


def news(
    moment: ProgressPhase, detail: str = "", reason: StepReason = StepReason.NONE, container: str = "main"
) -> ProgressEvent:
    return ProgressEvent(pod="default/web", phase=moment, container=container, detail=detail, reason=reason)


@pytest.mark.parametrize(
    ("heard", "reason", "message"),
    [
        (news(ProgressPhase.PULLING, "b:1"), "Pulling", "Pulling image 'b:1'"),
        (news(ProgressPhase.PULLED, "b:1"), "Pulled", "Successfully pulled image 'b:1'"),
        (news(ProgressPhase.IMAGE_PRESENT, "b:1"), "Pulled", "Container image 'b:1' already present on machine"),
        (news(ProgressPhase.STARTING), "Created", "Created container main"),
        (news(ProgressPhase.STARTED, "id"), "Started", "Started container main"),
        (news(ProgressPhase.STOPPING), "Killing", "Stopping container main"),
        (news(ProgressPhase.STOPPING, "because it is old"), "Killing", "Stopping container main because it is old"),
        (news(ProgressPhase.RESIZED), "ResizeCompleted", "Resized container main"),
    ],
)
def test_what_goes_well_is_normal(heard: ProgressEvent, reason: str, message: str) -> None:
    """With the reasons of a kubelet."""
    event = PodEvent(type=EventType.NORMAL, reason=reason, message=message, container="main", first=5, last=5)
    assert event_of(heard, 5) == event


@pytest.mark.parametrize(
    ("heard", "reason", "message"),
    [
        (
            news(ProgressPhase.WAITING, "back-off 10 s: next start in 8 s", StepReason.CRASH_LOOP),
            "BackOff",
            "Back-off restarting failed container main",
        ),
        (
            news(ProgressPhase.WAITING, "Back-off pulling image 'b': no: next try in 8 s", StepReason.IMAGE_BACKOFF),
            "BackOff",
            "Back-off pulling image 'b': no",
        ),
        (news(ProgressPhase.FAILED, "Failed to pull image", StepReason.IMAGE_PULL), "Failed", "Failed to pull image"),
        (news(ProgressPhase.FAILED, "not present", StepReason.IMAGE_NEVER_PULL), "ErrImageNeverPull", "not present"),
        (news(ProgressPhase.FAILED, "no such key", StepReason.CREATE_CONFIG), "Failed", "Error: no such key"),
        (news(ProgressPhase.FAILED, "no sandbox", StepReason.FAILED_SANDBOX), "FailedCreatePodSandBox", "no sandbox"),
        (
            news(ProgressPhase.FAILED, "postStart hook: no", StepReason.POST_START),
            "FailedPostStartHook",
            "postStart hook: no",
        ),
        (news(ProgressPhase.FAILED, "hangs", StepReason.FAILED_KILL), "FailedKillPod", "hangs"),
        (news(ProgressPhase.PRE_STOP_FAILED, "exit code 1"), "FailedPreStopHook", "exit code 1"),
        (news(ProgressPhase.UNHEALTHY, "Liveness probe failed: no"), "Unhealthy", "Liveness probe failed: no"),
        (news(ProgressPhase.EXPIRED, "Pod was active"), "DeadlineExceeded", "Pod was active"),
    ],
)
def test_what_fails_or_waits_is_a_warning(heard: ProgressEvent, reason: str, message: str) -> None:
    """Without how long it still waits, so that equal waits are equal events."""
    event = event_of(heard, 5)
    assert event is not None
    assert (event.type, event.reason, event.message) == (EventType.WARNING, reason, message)


@pytest.mark.parametrize("reason", [one for one in StepReason if one is not StepReason.NONE])
def test_every_failure_has_a_reason(reason: StepReason) -> None:
    """In one word."""
    event = event_of(news(ProgressPhase.FAILED, "m", reason), 5)
    assert event is not None
    assert event.reason.isalnum()


@pytest.mark.parametrize(
    "moment",
    [ProgressPhase.CREATING_SANDBOX, ProgressPhase.SANDBOX_READY, ProgressPhase.CREATING, ProgressPhase.STOPPED],
)
def test_what_kubernetes_has_no_event_for_is_none(moment: ProgressPhase) -> None:
    """Events are not a log of steps."""
    assert event_of(news(moment), 5) is None


def test_messages_are_one_line_of_bounded_length() -> None:
    """Whatever a runtime says."""
    event = event_of(news(ProgressPhase.FAILED, "a\n b " + "x" * 5000, StepReason.IMAGE_PULL), 5)
    assert event is not None
    assert event.message.startswith("a b x")
    assert (len(event.message), event.message[-1]) == (1024, "…")


def test_a_pod_begins_with_who_wants_it() -> None:
    """The node, and the manifest."""
    event = make_scheduled_event("node-1", "/etc/pods/web.yaml", 5)
    assert (event.reason, event.message) == ("Scheduled", "Assigned to node-1 by manifest /etc/pods/web.yaml")


def test_equal_events_are_counted() -> None:
    """With the first and the last time, in the order of the latter; another container is another event."""
    other = replace(STARTED, container="side", first=2, last=2)
    again = replace(STARTED, first=3, last=3, count=2)
    assert merge_repeated([STARTED, other, again]) == [other, replace(STARTED, first=1, last=3, count=3)]


def test_only_the_newest_are_kept() -> None:
    """A pod may live for years."""
    events = [replace(STARTED, message=str(number), last=number) for number in range(5)]
    assert [one.message for one in merge_repeated(reversed(events), most=2)] == ["3", "4"]
    assert len(merge_repeated(events)) == 5


def test_lines_are_read_as_they_were_written() -> None:
    """What is no event is left out: a line that was cut off, one of another release, another document."""
    more = replace(STARTED, message='with "quotes" and \u2026', count=3, last=9)
    data = to_line(STARTED) + b"[]\n{}\n\xff\n\n" + to_line(more)
    strange = json.loads(to_line(STARTED)) | {"type": "Odd"}
    data += json.dumps(strange).encode() + b"\n" + b"[" * 100_000 + b"\n" + to_line(STARTED)[:-9]
    assert from_lines(data) == [STARTED, more]
