"""What came of an attempt to get a pod going."""

from typing import Any

import pytest

from interpose.node.pods.spec import ExecAction, Probe
from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState, PodPhase
from interpose.node.pods.status.pod_state import (
    DEADLINE,
    NO_FAILURES,
    STOPPED,
    PodState,
    StartOutcome,
    evaluate_start,
    update_failures,
)
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.result import StepReason, SyncResult, SyncStep, SyncStepKind
from tests.support.node.managed_node import container, pod

NOW = 1_000_000_000_000
SECOND = 1_000_000_000


def view(**fields: Any) -> ContainerView:
    """A container that runs for long."""
    usual = {
        "name": "main",
        "role": ContainerRole.MAIN,
        "image": "x",
        "state": ContainerViewState.RUNNING,
        "ready": True,
    }
    return ContainerView(**{**usual, "started_at": NOW - 10 * SECOND, **fields})


def state(*views: ContainerView, **fields: Any) -> PodState:
    """A pod with these containers."""
    return PodState(**{"pod": pod(), "status": PodStatus(uid="1234"), "containers": views, **fields})


def waiting(reason: StepReason, **fields: Any) -> ContainerView:
    """A container that is not started."""
    return view(state=ContainerViewState.WAITING, ready=False, reason=reason.value, message="words", **fields)


def test_a_ready_pod_is_ready() -> None:
    """When its containers have been up for a moment."""
    up = {"phase": PodPhase.RUNNING, "ready": True}
    assert evaluate_start(state(view(), **up), now=NOW).outcome is StartOutcome.READY
    assert evaluate_start(state(view(started_at=NOW - 1), **up), now=NOW).outcome is StartOutcome.WAITING


def test_a_container_that_is_asked_needs_not_be_watched() -> None:
    """Its probe knows better, and so does one that has ended or helps only."""
    probed = pod(container(readiness=Probe(action=ExecAction(command=("true",)))))
    views = (
        view(started_at=NOW),
        view(name="helper", role=ContainerRole.EPHEMERAL, started_at=NOW),
        view(name="first", role=ContainerRole.INIT, state=ContainerViewState.TERMINATED, started_at=NOW),
    )
    assert (
        evaluate_start(state(*views, pod=probed, phase=PodPhase.RUNNING, ready=True), now=NOW).outcome
        is StartOutcome.READY
    )


def test_a_pod_on_its_way_is_waited_for() -> None:
    """Nothing is known yet."""
    assert evaluate_start(state(view(ready=False)), now=NOW).outcome is StartOutcome.WAITING


def test_a_pod_that_did_its_work_succeeded() -> None:
    """Whatever else."""
    assert evaluate_start(state(phase=PodPhase.SUCCEEDED), now=NOW).outcome is StartOutcome.SUCCEEDED


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (view(state=ContainerViewState.TERMINATED, reason="Error", exit_code=3), "main: exit code 3"),
        (
            view(state=ContainerViewState.TERMINATED, reason="OOMKilled", exit_code=137),
            "main: OOMKilled, exit code 137",
        ),
        (view(state=ContainerViewState.TERMINATED, exit_code=1, message="a\nb"), "main: exit code 1: b"),
    ],
)
def test_a_failed_pod_names_who_failed(ended: ContainerView, why: str) -> None:
    """With its code and its last words."""
    found = evaluate_start(state(view(), ended, phase=PodPhase.FAILED), now=NOW)
    assert (found.outcome, found.reason, found.container) == (StartOutcome.FAILED, why, "main")


def test_a_failed_pod_without_a_guilty_one_says_what_it_can() -> None:
    """Its containers may be gone."""
    assert evaluate_start(state(phase=PodPhase.FAILED, message="so"), now=NOW).reason == "Failed: so"


@pytest.mark.parametrize("reason", [DEADLINE, STOPPED])
def test_a_pod_that_was_ended_failed(reason: str) -> None:
    """By its deadline or by hand."""
    assert evaluate_start(state(reason=reason, message="m"), now=NOW).reason == f"{reason}: m"


@pytest.mark.parametrize("reason", [StepReason.IMAGE_NEVER_PULL, StepReason.IMAGE_INVALID, StepReason.CREATE_CONFIG])
def test_what_does_not_go_away_fails_at_once(reason: StepReason) -> None:
    """The manifest has to be changed."""
    found = evaluate_start(state(view(name="other"), waiting(reason)), now=NOW)
    assert found.outcome is StartOutcome.FAILED
    assert found.reason == f"main: {reason.value}: words"


@pytest.mark.parametrize(
    ("reason", "failures", "outcome"),
    [
        (StepReason.IMAGE_PULL, 1, StartOutcome.WAITING),
        (StepReason.IMAGE_BACKOFF, 2, StartOutcome.FAILED),
        (StepReason.RUN, 2, StartOutcome.WAITING),
        (StepReason.RUN, 3, StartOutcome.FAILED),
    ],
)
def test_what_may_go_away_is_tried_again(reason: StepReason, failures: int, outcome: StartOutcome) -> None:
    """A pull twice, anything else three times."""
    assert evaluate_start(state(waiting(reason), failures={"main": failures}), now=NOW).outcome is outcome


def test_a_pod_whose_sandbox_cannot_be_made_fails_after_a_while() -> None:
    """Three times, or at once if its configuration is wrong."""
    trouble = {"reason": StepReason.FAILED_SANDBOX.value, "message": "no network"}
    assert evaluate_start(state(**trouble, failures={"": 2}), now=NOW).outcome is StartOutcome.WAITING
    assert evaluate_start(state(**trouble, failures={"": 3}), now=NOW).reason == "FailedCreatePodSandBox: no network"
    assert evaluate_start(state(reason=StepReason.FAILED_SANDBOX_CONFIG.value), now=NOW).outcome is StartOutcome.FAILED


def test_a_container_that_ended_three_times_keeps_ending() -> None:
    """The first restart is at once, the second after ten seconds."""
    crash = {"exit_code": 2}
    assert (
        evaluate_start(state(waiting(StepReason.CRASH_LOOP, restart_count=1, **crash)), now=NOW).outcome
        is StartOutcome.WAITING
    )
    found = evaluate_start(state(waiting(StepReason.CRASH_LOOP, restart_count=2, **crash)), now=NOW)
    assert found.reason == "main keeps ending: exit code 2 after 2 restarts"
    assert found.container == "main"


def test_failures_in_a_row_are_counted_and_waits_are_not() -> None:
    """A success ends the row."""
    failed = SyncResult(
        steps=(SyncStep(act=SyncStepKind.START, target="main", error="no", reason=StepReason.IMAGE_PULL),)
    )
    waits = SyncResult(
        steps=(SyncStep(act=SyncStepKind.START, target="main", error="later", reason=StepReason.IMAGE_BACKOFF),)
    )
    once = update_failures(NO_FAILURES, failed)
    still = update_failures(once, waits)
    twice = update_failures(still, failed)
    assert [one.failures["main"] for one in (once, still, twice)] == [1, 1, 2]
    assert still.waiting["main"].reason == "ImagePullBackOff"
    assert update_failures(twice, SyncResult()).failures == {}


def test_troubles_of_the_pod_are_its_own() -> None:
    """A step that is about no container."""
    failed = SyncResult(
        steps=(SyncStep(act=SyncStepKind.CREATE_SANDBOX, target="web", error="no", reason=StepReason.FAILED_SANDBOX),)
    )
    found = update_failures(NO_FAILURES, failed)
    assert (found.reason, found.message, dict(found.failures)) == ("FailedCreatePodSandBox", "no", {"": 1})
    assert found.waiting == {}
