"""What is seen while pods are brought up."""

import io
from typing import Any

import pytest

from interpose.cli.pod.progress import ProgressBoard, describe_container, describe_pod
from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState, PodPhase
from interpose.node.pods.status.pod_state import REPLACING, STOPPED, PodState, StartOutcome, StartResult
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.result import ProgressEvent, ProgressPhase, StepReason
from tests.support.node.managed_node import pod

WAITING = StartResult(outcome=StartOutcome.WAITING)
READY = StartResult(outcome=StartOutcome.READY)


def view(**fields: Any) -> ContainerView:
    """A container."""
    return ContainerView(
        **{"name": "main", "role": ContainerRole.MAIN, "image": "x", "state": ContainerViewState.RUNNING, **fields}
    )


def state(*views: ContainerView, **fields: Any) -> PodState:
    """A pod."""
    return PodState(**{"pod": pod(), "status": PodStatus(uid="1", ips=("10.0.0.1",)), "containers": views, **fields})


def made(**options: bool) -> tuple[ProgressBoard, io.StringIO]:
    """A board and what it writes."""
    stream = io.StringIO()
    board = ProgressBoard(stream, **{"in_place": False, **options})
    board.expect(["default/web"])
    return board, stream


def test_without_a_terminal_there_are_lines() -> None:
    """What passes quickly is left out, and so is what was said before."""
    board, stream = made()
    for moment, detail in [
        (ProgressPhase.PULLING, "busybox"),
        (ProgressPhase.CREATING, ""),
        (ProgressPhase.STARTED, "id"),
        (ProgressPhase.STARTED, "id"),
        (ProgressPhase.WAITING, "back-off 10 s: next start in 10 s"),
        (ProgressPhase.WAITING, "back-off 10 s: next start in 9 s"),
        (ProgressPhase.STARTED, "other id"),
        (ProgressPhase.UNHEALTHY, "Liveness probe failed: HTTP status 500"),
        (ProgressPhase.STARTED, "third id"),
    ]:
        reason = StepReason.CRASH_LOOP if moment is ProgressPhase.WAITING else StepReason.NONE
        board.on_progress(
            ProgressEvent(pod="default/web", phase=moment, container="main", detail=detail, reason=reason)
        )
    board.observe(state(view(ready=True)), READY)
    board.draw()
    assert stream.getvalue().splitlines() == [
        "default/web/main: pulling busybox",
        "default/web/main: started",
        "default/web/main: CrashLoopBackOff: next start in 10 s",
        "default/web/main: started",
        "default/web/main: started",
        "default/web: ready 10.0.0.1",
    ]


def test_ends_are_told_when_they_are_seen() -> None:
    """A failure of the pod as a whole is told by the report at first, later by the board."""
    board, stream = made()
    failed = StartResult(outcome=StartOutcome.FAILED, reason="so")
    board.observe(state(view(state=ContainerViewState.TERMINATED, exit_code=3, reason="Error")), failed)
    board.finish(alone=True)
    board.observe(state(), failed)
    assert stream.getvalue().splitlines() == ["default/web/main: Error, exit code 3", "default/web: failed: so"]


def test_on_a_terminal_a_picture_changes_in_place() -> None:
    """The cursor goes up by as many lines as there were."""
    board, stream = made(in_place=True)
    board.on_progress(ProgressEvent(pod="default/web", phase=ProgressPhase.CREATING, container="main"))
    board.draw()
    first = stream.getvalue()
    assert first.count("\n") == 2
    board.draw()
    assert stream.getvalue()[len(first) :].startswith("\r\x1b[2A")
    board.clear()
    board.say("words\x1b[2J")
    assert stream.getvalue().endswith("\r\x1b[2A\x1b[0Jwords?[2J\n")


def test_quiet_is_quiet() -> None:
    """Errors are told by others."""
    board, stream = made(quiet=True, in_place=True)
    board.on_progress(ProgressEvent(pod="default/web", phase=ProgressPhase.STARTED, container="main"))
    board.observe(state(view()), READY)
    board.draw()
    board.say("x")
    board.finish()
    assert stream.getvalue() == ""


def test_why_a_container_is_stopped_is_said() -> None:
    """Where there is a reason but that the pod ends."""
    board, stream = made()
    board.expect(["default/web"])
    why = "because it failed its liveness probe"
    board.on_progress(ProgressEvent(pod="default/web", phase=ProgressPhase.STOPPING, container="main", detail=why))
    assert stream.getvalue() == "default/web/main: stopping because it failed its liveness probe\n"


def test_of_pods_that_left_nothing_is_shown() -> None:
    """Whoever still talks of them."""
    board, stream = made(in_place=True)
    board.expect([])
    board.on_progress(ProgressEvent(pod="default/web", phase=ProgressPhase.STOPPING, container="main"))
    board.observe(state(view()), WAITING)
    board.draw()
    assert "web" not in stream.getvalue()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"ready": True}, ("running", "good")),
        ({"restart_count": 1}, ("running, not ready yet, restarted once", "busy")),
        ({"ready": True, "restart_count": 2}, ("running, restarted 2 times", "good")),
        ({"state": ContainerViewState.TERMINATED, "exit_code": 0}, ("completed", "good")),
        (
            {"state": ContainerViewState.TERMINATED, "exit_code": 1, "message": "a\nb"},
            ("ended, exit code 1: a b", "bad"),
        ),
        ({"state": ContainerViewState.WAITING, "reason": "PodInitializing"}, ("waiting for its turn", "busy")),
        ({"state": ContainerViewState.WAITING, "reason": "ErrImagePull", "message": "m"}, ("ErrImagePull: m", "bad")),
        (
            {"state": ContainerViewState.WAITING, "reason": "CrashLoopBackOff", "exit_code": 2},
            ("CrashLoopBackOff (exit code 2)", "wait"),
        ),
        (
            {
                "state": ContainerViewState.WAITING,
                "reason": "CrashLoopBackOff",
                "exit_code": 2,
                "message": "back-off 10 s: next start in 9 s",
            },
            ("CrashLoopBackOff (exit code 2): next start in 9 s", "wait"),
        ),
    ],
)
def test_what_is_said_of_a_container(fields: dict[str, Any], expected: tuple[str, str]) -> None:
    """In words and by a mark."""
    assert describe_container(view(**fields)) == expected


@pytest.mark.parametrize(
    ("fields", "verdict", "expected"),
    [
        ({}, READY, ("ready 10.0.0.1", "good")),
        ({}, StartResult(outcome=StartOutcome.SUCCEEDED), ("succeeded", "good")),
        ({}, StartResult(outcome=StartOutcome.FAILED, reason="w"), ("failed: w", "bad")),
        ({"reason": STOPPED}, StartResult(outcome=StartOutcome.FAILED), ("stopped by hand", "wait")),
        ({"reason": REPLACING}, WAITING, ("waiting for the pod of this name to end", "busy")),
        ({"reason": "R", "message": "m"}, WAITING, ("R: m", "wait")),
        ({}, WAITING, ("starting", "busy")),
        ({"phase": PodPhase.RUNNING}, WAITING, ("running", "busy")),
    ],
)
def test_what_is_said_of_a_pod(fields: dict[str, Any], verdict: StartResult, expected: tuple[str, str]) -> None:
    """In words and by a mark."""
    assert describe_pod(state(**fields), verdict) == expected
