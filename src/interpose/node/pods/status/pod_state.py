"""The state of a pod as its worker sees it, and the outcome of its start. Values; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState, PodPhase, WaitingReason
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.result import StepReason, SyncResult, SyncStepKind

STOPPED: Final = "Stopped"
DEADLINE: Final = "DeadlineExceeded"
REPLACING: Final = "Replacing"

# These do not go away by themselves: the manifest or the node has to be changed.
_PERMANENT: Final = frozenset(
    (
        StepReason.IMAGE_INVALID.value,
        StepReason.IMAGE_NEVER_PULL.value,
        StepReason.CREATE_CONFIG.value,
        StepReason.FAILED_SANDBOX_CONFIG.value,
    )
)
_PULLING: Final = frozenset(
    (
        StepReason.IMAGE_PULL.value,
        StepReason.IMAGE_BACKOFF.value,
        StepReason.REGISTRY_UNAVAILABLE.value,
        StepReason.SIGNATURE.value,
        StepReason.IMAGE_INSPECT.value,
    )
)

if TYPE_CHECKING:
    from interpose.node.pods.spec import PodSpec
# Failures in a row after which a start counts as failed.
MAX_FAILURES: Final = 3


def _none() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """The state of a pod. `reason` is about the pod as a whole: why it does not run, if that is known."""

    pod: "PodSpec"
    status: PodStatus
    phase: PodPhase = PodPhase.PENDING
    ready: bool = False
    containers: tuple[ContainerView, ...] = ()
    reason: str = ""
    message: str = ""
    failures: Mapping[str, int] = field(default_factory=_none)  # failed attempts in a row, by container ("": the pod)


class StartOutcome(StrEnum):
    """The outcome of the start of a pod."""

    WAITING = "waiting"
    READY = "ready"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartResult:
    """The outcome of a start; for a failure the reason, and the container whose log says more (empty: none)."""

    outcome: StartOutcome
    reason: str = ""
    container: str = ""


_WAITING: Final = StartResult(outcome=StartOutcome.WAITING)


def evaluate_start(state: PodState, *, now: int, stable: int = 1_000_000_000) -> StartResult:
    """Whether the start of a pod has succeeded or failed. `now` and `stable` are nanoseconds.

    A container without probes has to run for `stable` first: many end at once.
    """
    if state.reason in (DEADLINE, STOPPED):
        return StartResult(outcome=StartOutcome.FAILED, reason=_join_words(state.reason, state.message))
    if state.phase is PodPhase.SUCCEEDED:
        return StartResult(outcome=StartOutcome.SUCCEEDED)
    if (hopeless := _permanent_failure(state)) is not None:
        return hopeless
    if state.phase is PodPhase.FAILED:
        guilty = next((container for container in state.containers if container.exit_code), None)
        return StartResult(
            outcome=StartOutcome.FAILED,
            reason=_describe_end(guilty) if guilty is not None else _join_words("Failed", state.message),
            container=guilty.name if guilty is not None else "",
        )
    if state.ready and all(_is_stable(state, container, now, stable) for container in state.containers):
        return StartResult(outcome=StartOutcome.READY)
    return _WAITING


def _permanent_failure(state: PodState) -> StartResult | None:
    if state.reason in _PERMANENT or state.failures.get("", 0) >= MAX_FAILURES:
        return StartResult(outcome=StartOutcome.FAILED, reason=_join_words(state.reason, state.message))
    for container in state.containers:
        if container.state is not ContainerViewState.WAITING:
            continue
        failures = state.failures.get(container.name, 0)
        # A pull that failed twice in a row had ten seconds to become possible.
        most = MAX_FAILURES - 1 if container.reason in _PULLING else MAX_FAILURES
        if container.reason in _PERMANENT or failures >= most:
            reason = f"{container.name}: {_join_words(container.reason, container.message)}"
            return StartResult(outcome=StartOutcome.FAILED, reason=reason)
        if container.reason == StepReason.CRASH_LOOP and container.restart_count >= MAX_FAILURES - 1:
            ending = f"{_describe_exit(container)} after {container.restart_count} restarts"
            reason = f"{container.name} keeps ending: {ending}"
            return StartResult(outcome=StartOutcome.FAILED, reason=reason, container=container.name)
    return None


def _is_stable(state: PodState, container: ContainerView, now: int, stable: int) -> bool:
    if container.role is ContainerRole.EPHEMERAL or container.state is not ContainerViewState.RUNNING:
        return True
    manifest = next(
        (spec for spec in (*state.pod.init_containers, *state.pod.containers) if spec.name == container.name), None
    )
    probed = manifest is not None and (manifest.readiness is not None or manifest.startup is not None)
    return probed or now - container.started_at >= stable


def _describe_end(container: ContainerView) -> str:
    lines = container.message.strip().splitlines()
    return f"{container.name}: {_describe_exit(container)}" + (f": {lines[-1]}" if lines else "")


def _describe_exit(container: ContainerView) -> str:
    text = f"exit code {container.exit_code}"
    return (
        f"{container.reason}, {text}"
        if container.state is ContainerViewState.TERMINATED and container.reason not in ("", "Error")
        else text
    )


def _join_words(reason: str, message: str) -> str:
    return ": ".join(part for part in (reason, message) if part)


# -- failures of a sync


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailures:
    """Why containers or the pod as a whole could not be started, and how often in a row."""

    waiting: Mapping[str, WaitingReason] = field(default_factory=dict)
    reason: str = ""
    message: str = ""
    failures: Mapping[str, int] = field(default_factory=_none)


NO_FAILURES: Final = StartFailures()


def update_failures(before: StartFailures, result: SyncResult) -> StartFailures:
    """The failures after one more sync. Waiting for a back-off is no further failure."""
    waiting: dict[str, WaitingReason] = {}
    failures: dict[str, int] = {}
    reason = message = ""
    for step in result.errors:
        owner = step.target if step.act in (SyncStepKind.START, SyncStepKind.RESIZE) else ""
        failures[owner] = before.failures.get(owner, 0) + (not step.is_waiting)
        if owner:
            waiting[owner] = WaitingReason(reason=step.reason.value, message=step.error or "")
        else:
            reason, message = step.reason.value, step.error or ""
    return StartFailures(waiting=waiting, reason=reason, message=message, failures=MappingProxyType(failures))
