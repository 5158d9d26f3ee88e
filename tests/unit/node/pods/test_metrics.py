"""Pods as metrics."""

from collections.abc import Iterable
from dataclasses import dataclass

from interpose.metrics import Sample, gather
from interpose.node.pods.metrics import pods_collector
from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState, PodPhase
from interpose.node.pods.status.pod_state import PodState
from interpose.node.pods.status.types import PodStatus
from tests.support.node.managed_node import container, pod


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is known."""

    pods: Iterable[PodState] = ()
    away: str = ""
    problems: int = 0


def view(
    reason: str = "", *, state: ContainerViewState = ContainerViewState.WAITING, restarts: int = 0
) -> ContainerView:
    """A container."""
    return ContainerView(
        name="main",
        role=ContainerRole.MAIN,
        image="x",
        state=state,
        reason=reason,
        restart_count=restarts,
        ready=state is ContainerViewState.RUNNING,
    )


def state(phase: PodPhase, *views: ContainerView, ready: bool = False) -> PodState:
    """A pod."""
    one = pod(container())
    return PodState(pod=one, status=PodStatus(uid=one.uid), phase=phase, containers=views, ready=ready)


def values(kept: Kept) -> dict[str, float]:
    """Every sample that is not zero."""
    return {
        f"{family.name}{','.join(sample.labels.values())}": sample.value
        for family in gather([pods_collector(kept)])
        for sample in family.samples
        if isinstance(sample, Sample) and sample.value
    }


def test_nothing_kept() -> None:
    """Everything is there, at zero; the runtime answers."""
    families = gather([pods_collector(Kept())])
    assert all(family.samples for family in families)
    assert values(Kept()) == {"interpose_pods_runtime_up": 1}


def test_pods_by_phase_and_containers_by_why_they_wait() -> None:
    """A reason that is none of the usual ones has a common name."""
    pods = [
        state(PodPhase.RUNNING, view(state=ContainerViewState.RUNNING, restarts=2), ready=True),
        state(PodPhase.RUNNING, view("CrashLoopBackOff", restarts=3)),
        state(PodPhase.PENDING, view("ContainerCreating"), view("ErrImagePull")),
        state(PodPhase.FAILED, view("Error", state=ContainerViewState.TERMINATED)),
    ]
    assert values(Kept(pods=pods, away="gone", problems=1)) == {
        "interpose_podsRunning": 2,
        "interpose_podsPending": 1,
        "interpose_podsFailed": 1,
        "interpose_pods_ready": 1,
        "interpose_pods_containers_waitingCrashLoopBackOff": 1,
        "interpose_pods_containers_waitingErrImagePull": 1,
        "interpose_pods_containers_waitingother": 1,
        "interpose_pods_restarts": 5,
        "interpose_pods_manifests_unusable": 1,
    }
