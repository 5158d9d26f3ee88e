"""The status of a pod for commands: what the runtime says now, and what the manager of the pod last saved. Pure.

The saved status is about what was there when it was written. What the runtime says counts first; of a container that
waits the saved status says why, as long as the runtime shows nothing that came after it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from interpose.core.model.pod import ContainerState
from interpose.node.pods.status.phase import (
    ContainerRole,
    ContainerView,
    ContainerViewState,
    PodPhase,
    WaitingReason,
    container_view,
    observed_phase,
)
from interpose.node.pods.status.pod_state import STOPPED, PodState
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.result import without_countdown

_CREATING: Final = WaitingReason(reason="ContainerCreating")
_NOT_BEGUN: Final = (_CREATING.reason, "PodInitializing")
_LOST: Final = "ContainerStatusUnknown"
_MAX_MESSAGE: Final = 4096  # of a message, as a termination message may be


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStatus:
    """A pod as its manager last saw it: all containers of the manifest in their order, what kept the pod from being
    started, the newest sandbox, and since when it was like this, in nanoseconds of the day."""

    containers: tuple[ContainerView, ...]
    reason: str = ""
    message: str = ""
    sandbox: str = ""
    since: int = 0


def last_status(state: PodState, now: int) -> LastStatus:
    """The status of a pod to be saved, without how long something still waits: that would not be counted down."""
    newest = next((sandbox.id for sandbox in state.status.sandboxes), "")
    return LastStatus(
        containers=tuple(
            replace(container, message=_stored_message(container.message)) for container in state.containers
        ),
        reason=state.reason,
        message=_stored_message(state.message),
        sandbox=newest,
        since=now,
    )


def _stored_message(message: str) -> str:
    return without_countdown(message)[:_MAX_MESSAGE]


def to_document(status: LastStatus) -> dict[str, Any]:
    """The saved status as values of JSON."""
    return {
        "containers": [
            {
                "name": container.name,
                "role": container.role.value,
                "image": container.image,
                "state": container.state.value,
                "reason": container.reason,
                "message": container.message,
                "exitCode": container.exit_code,
                "started": container.started_at,
                "finished": container.finished_at,
                "restarts": container.restart_count,
                "ready": container.ready,
                "id": container.id,
            }
            for container in status.containers
        ],
        "reason": status.reason,
        "message": status.message,
        "sandbox": status.sandbox,
        "since": status.since,
    }


def from_document(document: Mapping[str, Any]) -> LastStatus:
    """The saved status in values of JSON; ValueError, KeyError, TypeError or AttributeError if they are none."""
    return LastStatus(
        containers=tuple(
            ContainerView(
                name=str(container["name"]),
                role=ContainerRole(container["role"]),
                image=str(container["image"]),
                state=ContainerViewState(container["state"]),
                reason=str(container["reason"]),
                message=str(container["message"]),
                exit_code=None if container["exitCode"] is None else int(container["exitCode"]),
                started_at=int(container["started"]),
                finished_at=int(container["finished"]),
                restart_count=int(container["restarts"]),
                ready=bool(container["ready"]),
                id=str(container["id"]),
            )
            for container in document["containers"]
        ),
        reason=str(document["reason"]),
        message=str(document["message"]),
        sandbox=str(document["sandbox"]),
        since=int(document["since"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSummary:
    """A pod as commands show it. `noted` is its saved status, `declared` are the main containers of its manifest (None:
    not known), `stopped`: by hand."""

    status: PodStatus
    noted: LastStatus | None = None
    declared: tuple[str, ...] | None = None
    stopped: bool = False

    @property
    def phase(self) -> PodPhase:
        """The phase without the manifest: what was once wanted, and has nothing at the runtime, has yet to begin."""
        begun = bool(self.status.sandboxes or self.status.containers)
        return PodPhase.PENDING if self.declared is not None and not begun else observed_phase(self.status)

    @property
    def containers(self) -> tuple[ContainerView, ...]:
        """All containers: those of the saved status in their order, or where there is none the declared main ones; then
        those that only the runtime knows, oldest first."""
        known = {container.name: container for container in self.noted.containers} if self.noted is not None else {}
        names = [*(known or self.declared or ()), *(container.name for container in reversed(self.status.containers))]
        return tuple(_view(name, known.get(name), self.status.latest(name)) for name in dict.fromkeys(names))

    @property
    def main(self) -> tuple[ContainerView, ...]:
        """The main containers. Of the pod of another client all containers count as such."""
        return tuple(container for container in self.containers if container.role is ContainerRole.MAIN)

    @property
    def cause(self) -> WaitingReason | None:
        """Why the pod as a whole waits, if the saved status is about the sandbox that it has now."""
        newest = next((sandbox.id for sandbox in self.status.sandboxes), "")
        if self.noted is None or not self.noted.reason or self.noted.sandbox != newest:
            return None
        return WaitingReason(reason=self.noted.reason, message=self.noted.message)

    @property
    def word(self) -> str:
        """The status in one word, as `kubectl get pods` finds it: the first init container that is not done, else the
        first container that does not run, else the phase."""
        return self._pod_reason.reason

    @property
    def message(self) -> str:
        """The message that belongs to `word`."""
        return self._pod_reason.message

    @property
    def _pod_reason(self) -> WaitingReason:
        views, main = self.containers, self.main
        if self.stopped and not any(view.state is ContainerViewState.RUNNING for view in views):
            return WaitingReason(reason=STOPPED)
        cause = self.cause
        early = [view for view in views if view.role in (ContainerRole.INIT, ContainerRole.SIDECAR)]
        if (
            index := next((index for index, container in enumerate(early) if not _is_done(container)), None)
        ) is not None:
            container = early[index]
            if container.state is not ContainerViewState.RUNNING and container.reason not in _NOT_BEGUN:
                return WaitingReason(reason=f"Init:{container.reason}", message=container.message)
            return cause or WaitingReason(reason=f"Init:{index}/{len(early)}")
        # That a container has yet to begin says less than what keeps the pod.
        silent = ("", *_NOT_BEGUN) if cause is not None else ("",)
        found = next((container for container in main if container.reason not in silent), None)
        if found is None:
            return cause or WaitingReason(reason=self.phase.value)
        if found.reason == "Completed" and any(container.state is ContainerViewState.RUNNING for container in main):
            return WaitingReason(reason=PodPhase.RUNNING.value)
        return WaitingReason(reason=found.reason, message=found.message)


def _is_done(container: ContainerView) -> bool:
    """Whether no container waits for this init container any more."""
    if container.role is ContainerRole.SIDECAR:
        return container.state is ContainerViewState.RUNNING
    return container.state is ContainerViewState.TERMINATED and not container.exit_code


def _view(name: str, known: ContainerView | None, found: ContainerStatus | None) -> ContainerView:
    if found is None and known is not None and known.state is not ContainerViewState.RUNNING:
        return known
    role = known.role if known is not None else ContainerRole.MAIN
    image = known.image if known is not None else ""
    if found is None:
        gone = WaitingReason(reason=_LOST, message="the runtime has it no more")
        return container_view(name, image, role, None, gone if known is not None else _CREATING, ready=False)
    waits = known is not None and known.state is ContainerViewState.WAITING and known.id in ("", found.id)
    waited = known if waits else None
    cause = WaitingReason(reason=waited.reason, message=waited.message) if waited is not None else None
    if found.state is ContainerState.CREATED:
        cause = cause or _CREATING
    elif found.state is not ContainerState.EXITED or waited is None or not waited.id:
        cause = None
    running = found.state is ContainerState.RUNNING
    return container_view(name, image or found.image, role, found, cause, ready=running)
