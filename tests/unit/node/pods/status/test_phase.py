"""What is said about pods: phases, readiness, and the states of containers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interpose.node.pods.spec import ContainerSpec, PodSpec, RestartPolicy, RestartRule
from interpose.node.pods.status.phase import (
    ContainerRole,
    ContainerView,
    ContainerViewState,
    PodPhase,
    WaitingReason,
    container_views,
    observed_phase,
    pod_phase,
    ready,
)
from interpose.node.pods.status.types import PodStatus
from tests.support.node.pod_model import (
    PROBE,
    FixedHealth,
    make_container,
    make_pod,
    make_pod_status,
    make_sandbox,
    make_sidecar,
    make_status,
)

ALWAYS, ON_FAILURE, NEVER = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER
ONE = make_pod("c0")
TWO = make_pod("c0", "c1")
INIT = make_pod("c0", init=("i0", "i1"))
SIDE = make_pod("c0", init=("i0", make_sidecar("s0")))


def status_of(pod: PodSpec, **states: Any) -> PodStatus:
    """Containers by name: a state, or an exit code."""
    every = {one.name: one for one in (*pod.init_containers, *pod.containers, *pod.ephemeral_containers)}
    return make_pod_status(
        *(
            make_status(every[name], "exited", state) if isinstance(state, int) else make_status(every[name], state)
            for name, state in states.items()
        )
    )


def _policy(pod: PodSpec, policy: RestartPolicy) -> PodSpec:
    return replace(pod, restart_policy=policy)


def _ruled(action: str) -> PodSpec:
    rule = RestartRule(action=action, operator="In", codes=(3,))
    return make_pod(make_container("c0", restart_policy=NEVER, restart_rules=(rule,)), restart_policy=NEVER)


RULED_INIT = make_pod(
    "c0",
    init=(
        make_container(
            "i0",
            restart_policy=NEVER,
            restart_rules=(RestartRule(action="Restart", operator="In", codes=(3,)),),
        ),
    ),
)

PHASES: Mapping[str, tuple[PodSpec, PodStatus, PodPhase]] = {
    "nothing yet": (TWO, status_of(TWO), PodPhase.PENDING),
    "one of two runs": (TWO, status_of(TWO, c0="running"), PodPhase.PENDING),
    "one was only created": (TWO, status_of(TWO, c0="running", c1="created"), PodPhase.PENDING),
    "both run": (TWO, status_of(TWO, c0="running", c1="running"), PodPhase.RUNNING),
    "one runs and one failed": (_policy(TWO, NEVER), status_of(TWO, c0="running", c1=1), PodPhase.RUNNING),
    "one runs and one is unknown": (TWO, status_of(TWO, c0="running", c1="unknown"), PodPhase.RUNNING),
    "one is unknown": (TWO, status_of(TWO, c0=0, c1="unknown"), PodPhase.UNKNOWN),
    "both ended and will run again": (TWO, status_of(TWO, c0=0, c1=1), PodPhase.RUNNING),
    "one failed and will run again": (_policy(TWO, ON_FAILURE), status_of(TWO, c0=0, c1=1), PodPhase.RUNNING),
    "both succeeded": (_policy(TWO, ON_FAILURE), status_of(TWO, c0=0, c1=0), PodPhase.SUCCEEDED),
    "both succeeded, never to run again": (_policy(TWO, NEVER), status_of(TWO, c0=0, c1=0), PodPhase.SUCCEEDED),
    "one failed for good": (_policy(TWO, NEVER), status_of(TWO, c0=0, c1=1), PodPhase.FAILED),
    "a deleted pod does not run again": (replace(TWO, deleted=True), status_of(TWO, c0=0, c1=0), PodPhase.SUCCEEDED),
    "a deleted pod that was killed": (replace(TWO, deleted=True), status_of(TWO, c0=0, c1=137), PodPhase.FAILED),
    "a rule runs it again": (_ruled("Restart"), status_of(_ruled("Restart"), c0=3), PodPhase.RUNNING),
    "no rule runs it again": (_ruled("Restart"), status_of(_ruled("Restart"), c0=4), PodPhase.FAILED),
    "out of memory, and yet a good end": (
        _policy(ONE, NEVER),
        make_pod_status(make_status(make_container("c0"), "exited", 0, reason="OOMKilled")),
        PodPhase.SUCCEEDED,
    ),
    "out of memory": (
        _policy(ONE, NEVER),
        make_pod_status(make_status(make_container("c0"), "exited", 137, reason="OOMKilled")),
        PodPhase.FAILED,
    ),
    "an init container out of memory, with a good end": (
        _policy(INIT, NEVER),
        make_pod_status(make_status(make_container("i0"), "exited", 0, reason="OOMKilled")),
        PodPhase.FAILED,
    ),
    "initializing": (INIT, status_of(INIT, i0="running"), PodPhase.PENDING),
    "initialized, and nothing made yet": (INIT, status_of(INIT, i1=0, i0=0), PodPhase.PENDING),
    "initialized long ago": (INIT, status_of(INIT, c0="running"), PodPhase.RUNNING),
    "an init container failed and is tried again": (INIT, status_of(INIT, i0=1), PodPhase.PENDING),
    "an init container failed for good": (_policy(INIT, NEVER), status_of(INIT, i0=1), PodPhase.FAILED),
    "an init container failed, and the pod is deleted": (
        replace(INIT, deleted=True),
        status_of(INIT, i0=1),
        PodPhase.FAILED,
    ),
    "an init container failed, and a rule knows it": (RULED_INIT, status_of(RULED_INIT, i0=3), PodPhase.PENDING),
    "an init container failed, and no rule knows it": (RULED_INIT, status_of(RULED_INIT, i0=4), PodPhase.FAILED),
    "an init container failed before it succeeded": (
        _policy(INIT, NEVER),
        status_of(INIT, c0="running", i0=1),
        PodPhase.RUNNING,
    ),
    "a sidecar ended": (_policy(SIDE, NEVER), status_of(SIDE, s0=1, i0=0), PodPhase.PENDING),
    "only the sidecar runs": (SIDE, status_of(SIDE, s0="running", i0=0), PodPhase.PENDING),
    "main is done, the sidecar runs": (_policy(SIDE, NEVER), status_of(SIDE, c0=0, s0="running"), PodPhase.SUCCEEDED),
}


@pytest.mark.parametrize("row", PHASES)
def test_the_phase_of_a_pod(row: str) -> None:
    """As Kubernetes has them."""
    pod, status, phase = PHASES[row]
    assert pod_phase(pod, status) is phase


def test_two_phases_are_final() -> None:
    """Nothing comes after success and failure."""
    assert [one for one in PodPhase if one.final] == [PodPhase.SUCCEEDED, PodPhase.FAILED]


DOWN = (make_sandbox(ready=False),)
SEEN: Mapping[str, tuple[PodStatus, PodPhase]] = {
    "a sandbox": (status_of(TWO), PodPhase.PENDING),
    "nothing": (make_pod_status(sandboxes=()), PodPhase.UNKNOWN),
    "a dead sandbox": (make_pod_status(sandboxes=DOWN), PodPhase.UNKNOWN),
    "one runs": (status_of(TWO, c0="running", c1=1), PodPhase.RUNNING),
    "one is unknown": (status_of(TWO, c0="unknown"), PodPhase.UNKNOWN),
    "one was created": (status_of(TWO, c0="created", c1=0), PodPhase.PENDING),
    "all ended, but they may come again": (status_of(TWO, c0=0), PodPhase.RUNNING),
    "all ended well with their sandbox": (
        make_pod_status(make_status(make_container("c"), "exited"), sandboxes=DOWN),
        PodPhase.SUCCEEDED,
    ),
    "one ended badly with its sandbox": (
        make_pod_status(make_status(make_container("c"), "exited", 1), sandboxes=DOWN),
        PodPhase.FAILED,
    ),
    "an old instance failed, the newest did not": (
        make_pod_status(
            make_status(make_container("c"), "exited", id="new"),
            make_status(make_container("c"), "exited", 1, id="old"),
            sandboxes=DOWN,
        ),
        PodPhase.SUCCEEDED,
    ),
}


@pytest.mark.parametrize("row", SEEN)
def test_the_phase_of_a_pod_without_a_manifest(row: str) -> None:
    """As far as the runtime alone can tell."""
    status, phase = SEEN[row]
    assert observed_phase(status) is phase


PROBED = make_pod(make_container("c0", readiness=PROBE, startup=PROBE))


def _health(*, started: bool | None, is_ready: bool | None) -> FixedHealth:
    return FixedHealth(
        started={} if started is None else {"c0-id": started}, is_ready={} if is_ready is None else {"c0-id": is_ready}
    )


@pytest.mark.parametrize(
    ("started", "is_ready", "expected"),
    [(True, True, True), (True, False, False), (False, True, False), (None, True, False), (True, None, False)],
)
def test_probes_decide_about_readiness(started: bool | None, is_ready: bool | None, expected: bool) -> None:
    """Both that a container has must have succeeded."""
    status = status_of(PROBED, c0="running")
    assert ready(PROBED, status, _health(started=started, is_ready=is_ready)) is expected


@pytest.mark.parametrize(
    ("pod", "states", "expected"),
    [
        (TWO, {"c0": "running", "c1": "running"}, True),
        (TWO, {"c0": "running", "c1": 0}, False),
        (TWO, {"c0": "running"}, False),
        (SIDE, {"c0": "running", "s0": "running"}, True),
        (SIDE, {"c0": "running", "s0": 0}, False),
        (SIDE, {"s0": "running", "i0": 0}, False),
        (INIT, {"i0": 0}, False),
    ],
)
def test_all_that_stay_must_run(pod: PodSpec, states: dict[str, Any], expected: bool) -> None:
    """Sidecars too; without probes running is enough."""
    assert ready(pod, status_of(pod, **states)) is expected


def view(pod: PodSpec, name: str, waiting: Mapping[str, WaitingReason] | None = None, **states: Any) -> ContainerView:
    """What is said about one container."""
    views = container_views(pod, status_of(pod, **states), waiting=waiting or {})
    return next(one for one in views if one.name == name)


CRASH = {"c0": WaitingReason(reason="CrashLoopBackOff", message="back-off 10 s")}
VIEWS: Mapping[str, tuple[ContainerView, ContainerViewState, str]] = {
    "not made yet": (view(TWO, "c0"), ContainerViewState.WAITING, "ContainerCreating"),
    "initializing": (view(INIT, "c0", i0="running"), ContainerViewState.WAITING, "PodInitializing"),
    "an init container's turn has not come": (
        view(INIT, "i1", i0="running"),
        ContainerViewState.WAITING,
        "ContainerCreating",
    ),
    "the image cannot be fetched": (
        view(TWO, "c0", {"c0": WaitingReason(reason="ErrImagePull")}),
        ContainerViewState.WAITING,
        "ErrImagePull",
    ),
    "only created": (view(TWO, "c0", c0="created"), ContainerViewState.WAITING, "ContainerCreating"),
    "created, and it did not start": (
        view(TWO, "c0", {"c0": WaitingReason(reason="RunContainerError")}, c0="created"),
        ContainerViewState.WAITING,
        "RunContainerError",
    ),
    "runs": (view(TWO, "c0", c0="running"), ContainerViewState.RUNNING, "Running"),
    "runs, whatever was said before": (view(TWO, "c0", CRASH, c0="running"), ContainerViewState.RUNNING, "Running"),
    "succeeded": (view(TWO, "c0", c0=0), ContainerViewState.TERMINATED, "Completed"),
    "failed": (view(TWO, "c0", c0=1), ContainerViewState.TERMINATED, "Error"),
    "failed and waits": (view(TWO, "c0", CRASH, c0=1), ContainerViewState.WAITING, "CrashLoopBackOff"),
    "failed for good": (view(_policy(TWO, NEVER), "c0", CRASH, c0=1), ContainerViewState.TERMINATED, "Error"),
    "unknown": (view(TWO, "c0", c0="unknown"), ContainerViewState.TERMINATED, "ContainerStatusUnknown"),
    "an init container that is done": (
        view(INIT, "i0", {"i0": WaitingReason(reason="CrashLoopBackOff")}, i0=0),
        ContainerViewState.TERMINATED,
        "Completed",
    ),
    "an init container that failed and waits": (
        view(INIT, "i0", {"i0": WaitingReason(reason="CrashLoopBackOff")}, i0=1),
        ContainerViewState.WAITING,
        "CrashLoopBackOff",
    ),
    "an ephemeral container that ended": (
        view(
            replace(TWO, ephemeral_containers=(make_container("d"),)),
            "d",
            {"d": WaitingReason(reason="CrashLoopBackOff")},
            d=1,
        ),
        ContainerViewState.TERMINATED,
        "Error",
    ),
}


@pytest.mark.parametrize("row", VIEWS)
def test_what_a_person_reads_about_a_container(row: str) -> None:
    """How it is, and why."""
    found, state, words = VIEWS[row]
    assert (found.state, found.words) == (state, words)


def test_a_view_has_the_details() -> None:
    """Of the newest instance."""
    container: ContainerSpec = make_container("c0", image="x:1")
    status = make_pod_status(
        make_status(
            container,
            "exited",
            3,
            started_at=1,
            finished_at=2,
            restart_count=4,
            reason="OOMKilled",
            message="last words",
        )
    )
    assert container_views(make_pod(container, restart_policy=NEVER), status) == (
        ContainerView(
            name="c0",
            role=ContainerRole.MAIN,
            image="x:1",
            state=ContainerViewState.TERMINATED,
            reason="OOMKilled",
            message="last words",
            exit_code=3,
            started_at=1,
            finished_at=2,
            restart_count=4,
            id="c0-id",
        ),
    )


def test_that_memory_ran_out_is_said_of_a_good_end_too() -> None:
    """The pod has succeeded; a person still wants to know."""
    status = make_pod_status(make_status(make_container("c0"), "exited", 0, reason="OOMKilled"))
    [view] = container_views(_policy(ONE, NEVER), status)
    assert (view.words, view.exit_code) == ("OOMKilled", 0)


def test_roles_and_readiness_of_all_kinds() -> None:
    """An init container is ready when it has done its work."""
    pod = replace(SIDE, ephemeral_containers=(make_container("d"),))
    views = container_views(pod, status_of(pod, c0="running", s0="running", i0=0, d="running"))
    assert [(one.name, one.role.value, one.ready) for one in views] == [
        ("i0", "init", True),
        ("s0", "sidecar", True),
        ("c0", "main", True),
        ("d", "ephemeral", True),
    ]


def test_an_unknown_end_has_the_code_of_a_kill() -> None:
    """Nobody knows better; one that waits still shows how it ended."""
    assert view(TWO, "c0", c0="unknown").exit_code == 137
    assert view(TWO, "c0", CRASH, c0=5).exit_code == 5
    assert view(TWO, "c0", c0="running").exit_code is None
