"""The result of a sync as values, and the progress events that are reported while it runs. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

_COUNTDOWN: Final = re.compile(r"(?:: )?next (?:try|start) in [0-9]+ s$", re.ASCII)


class SyncStepKind(StrEnum):
    """The kind of a sync step."""

    PREPARE = "PreparePod"
    KILL_POD = "KillPod"
    KILL_CONTAINER = "KillContainer"
    STOP_SANDBOX = "StopPodSandbox"
    REMOVE_CONTAINER = "RemoveContainer"
    REMOVE_SANDBOX = "RemovePodSandbox"
    CREATE_SANDBOX = "CreatePodSandbox"
    RESIZE = "ResizeContainer"
    START = "StartContainer"
    CLEAN_UP = "CleanUp"


class StepReason(StrEnum):
    """Why a step failed, in the words Kubernetes uses."""

    NONE = ""
    FAILED_PREPARE = "FailedMount"
    FAILED_SANDBOX = "FailedCreatePodSandBox"
    FAILED_SANDBOX_CONFIG = "ConfigPodSandboxError"
    FAILED_KILL_SANDBOX = "KillPodSandboxError"
    FAILED_KILL = "KillContainerError"
    FAILED_REMOVE = "FailedRemove"
    FAILED_RESIZE = "ResizeContainerError"
    IMAGE_INVALID = "InvalidImageName"
    IMAGE_INSPECT = "ImageInspectError"
    IMAGE_NEVER_PULL = "ErrImageNeverPull"
    IMAGE_PULL = "ErrImagePull"
    IMAGE_BACKOFF = "ImagePullBackOff"
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    SIGNATURE = "SignatureValidationFailed"
    CRASH_LOOP = "CrashLoopBackOff"
    CREATE_CONFIG = "CreateContainerConfigError"
    CREATE = "CreateContainerError"
    RUN = "RunContainerError"
    POST_START = "PostStartHookError"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStep:
    """One step: what was done to what (a container's name, a sandbox' id), and the error if it failed."""

    act: SyncStepKind
    target: str
    error: str | None = None
    reason: StepReason = StepReason.NONE

    @property
    def is_waiting(self) -> bool:
        """Whether the step did not fail but has to wait for a back-off."""
        return self.reason in (StepReason.CRASH_LOOP, StepReason.IMAGE_BACKOFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """All steps in the order they were begun. `retry_after`: seconds until a wait is over, None if nothing waits."""

    steps: tuple[SyncStep, ...] = ()
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Whether every step succeeded."""
        return all(step.error is None for step in self.steps)

    @property
    def errors(self) -> tuple[SyncStep, ...]:
        """The steps that failed."""
        return tuple(step for step in self.steps if step.error is not None)


class ProgressPhase(StrEnum):
    """What a progress event reports."""

    CREATING_SANDBOX = "creating sandbox"
    SANDBOX_READY = "sandbox ready"
    PULLING = "pulling"
    PULLED = "pulled"
    IMAGE_PRESENT = "image present"
    CREATING = "creating"
    STARTING = "starting"
    STARTED = "started"
    RESIZED = "resized"
    STOPPING = "stopping"
    STOPPED = "stopped"
    REMOVED = "removed"
    WAITING = "waiting"
    FAILED = "failed"
    PRE_STOP_FAILED = "preStop hook failed:"
    UNHEALTHY = "unhealthy"
    EXPIRED = "deadline exceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressEvent:
    """A progress event of a pod. `container` is empty if it concerns the pod; `detail` is an image, an id or a message;
    `reason` is that of a step that failed or has to wait."""

    pod: str  # namespace/name
    phase: ProgressPhase
    container: str = ""
    detail: str = ""
    reason: StepReason = StepReason.NONE


def without_countdown(message: str) -> str:
    """The message of a wait without the time that is left: it stays the same during one wait."""
    return _COUNTDOWN.sub("", message)


class ProgressListener(Protocol):
    """Receives the progress events of a sync."""

    def on_progress(self, event: ProgressEvent) -> None:
        """Called for each event, in order. Must not raise and must not block."""


class _Silent:
    def on_progress(self, event: ProgressEvent) -> None:
        """Drop the event: there is no listener."""


SILENT: Final[ProgressListener] = _Silent()
