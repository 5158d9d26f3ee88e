"""How a pod is doing, as whoever keeps it sees it, and what came of an attempt to get it going. Values; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from interpose.node.pods.status.phase import ContainerRole, ContainerView, ContainerViewState, PodPhase, WaitingReason
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.result import StepKind, StepReason, SyncResult

STOPPED: Final = "Stopped"
DEADLINE: Final = "DeadlineExceeded"
REPLACING: Final = "Replacing"

# These do not go away by themselves: the manifest or the node has to be changed.
_HOPELESS: Final = frozenset(
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
# Failures in a row after which somebody who waits is told that it does not work.
MAX_FAILURES: Final = 3


def _none() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod at one moment. `reason` is about the pod as a whole: why it is not what it should be, if that is known."""

    pod: "PodSpec"
    status: PodStatus
    phase: PodPhase = PodPhase.PENDING
    ready: bool = False
    containers: tuple[ContainerView, ...] = ()
    reason: str = ""
    message: str = ""
    failures: Mapping[str, int] = field(default_factory=_none)  # failed attempts in a row, by container ("": the pod)


class StartOutcome(StrEnum):
    """What came of an attempt to get a pod going."""

    WAITING = "waiting"
    READY = "ready"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartResult:
    """The outcome, and for a failure why, and which container's log tells more (empty: none)."""

    outcome: StartOutcome
    why: str = ""
    container: str = ""


_WAITING: Final = StartResult(outcome=StartOutcome.WAITING)


def evaluate_start(state: PodState, *, now: int, stable: int = 1_000_000_000) -> StartResult:
    """Whether a pod that somebody waits for has come to something. `now` and `stable` are nanoseconds.

    A container that nobody can ask whether it is ready has to run for `stable` first: many end at once.
    """
    if state.reason in (DEADLINE, STOPPED):
        return StartResult(outcome=StartOutcome.FAILED, why=_words(state.reason, state.message))
    if state.phase is PodPhase.SUCCEEDED:
        return StartResult(outcome=StartOutcome.SUCCEEDED)
    if (hopeless := _hopeless(state)) is not None:
        return hopeless
    if state.phase is PodPhase.FAILED:
        guilty = next((container for container in state.containers if container.exit_code), None)
        return StartResult(
            outcome=StartOutcome.FAILED,
            why=_ended(guilty) if guilty is not None else _words("Failed", state.message),
            container=guilty.name if guilty is not None else "",
        )
    if state.ready and all(_stands(state, container, now, stable) for container in state.containers):
        return StartResult(outcome=StartOutcome.READY)
    return _WAITING


def _hopeless(state: PodState) -> StartResult | None:
    if state.reason in _HOPELESS or state.failures.get("", 0) >= MAX_FAILURES:
        return StartResult(outcome=StartOutcome.FAILED, why=_words(state.reason, state.message))
    for container in state.containers:
        if container.lot is not ContainerViewState.WAITING:
            continue
        failures = state.failures.get(container.name, 0)
        # A pull that failed twice in a row had ten seconds to become possible.
        if container.reason in _HOPELESS or failures >= (
            MAX_FAILURES - 1 if container.reason in _PULLING else MAX_FAILURES
        ):
            return StartResult(
                outcome=StartOutcome.FAILED, why=f"{container.name}: {_words(container.reason, container.message)}"
            )
        if container.reason == StepReason.CRASH_LOOP and container.restart_count >= MAX_FAILURES - 1:
            why = f"{container.name} keeps ending: {_code(container)} after {container.restart_count} restarts"
            return StartResult(outcome=StartOutcome.FAILED, why=why, container=container.name)
    return None


def _stands(state: PodState, container: ContainerView, now: int, stable: int) -> bool:
    if container.role is ContainerRole.EPHEMERAL or container.lot is not ContainerViewState.RUNNING:
        return True
    manifest = next(
        (given for given in (*state.pod.init_containers, *state.pod.containers) if given.name == container.name), None
    )
    probed = manifest is not None and (manifest.readiness is not None or manifest.startup is not None)
    return probed or now - container.started_at >= stable


def _ended(container: ContainerView) -> str:
    said = container.message.strip().splitlines()
    return f"{container.name}: {_code(container)}" + (f": {said[-1]}" if said else "")


def _code(container: ContainerView) -> str:
    text = f"exit code {container.exit_code}"
    return (
        f"{container.reason}, {text}"
        if container.lot is ContainerViewState.TERMINATED and container.reason not in ("", "Error")
        else text
    )


def _words(reason: str, message: str) -> str:
    return ": ".join(part for part in (reason, message) if part)


# -- what a sync leaves to be said


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailures:
    """What kept containers from being started, what kept the pod from it, and how often in a row."""

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
        owner = step.target if step.act in (StepKind.START, StepKind.RESIZE) else ""
        failures[owner] = before.failures.get(owner, 0) + (not step.waits)
        if owner:
            waiting[owner] = WaitingReason(reason=step.reason.value, message=step.error or "")
        else:
            reason, message = step.reason.value, step.error or ""
    return StartFailures(waiting=waiting, reason=reason, message=message, failures=MappingProxyType(failures))
