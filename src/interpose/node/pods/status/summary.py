"""How a pod is doing, as far as somebody can tell who does not keep it: what the runtime says now, and what the manager
last noted of it. Pure.

A note is about what was there when it was written. What the runtime says counts first; of a container that waits the
note says why, as long as the runtime shows nothing that came after it.
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
    seen_phase,
)
from interpose.node.pods.status.pod_state import STOPPED, PodState
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.result import without_countdown

_BEGINS: Final = WaitingReason(reason="ContainerCreating")
_BEGINNING: Final = (_BEGINS.reason, "PodInitializing")
_LOST: Final = "ContainerStatusUnknown"
_LONGEST: Final = 4096  # of a message, as a termination message may be


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
    """What is noted of a pod. How long something still waits is not: nobody may be there to count it down."""
    newest = next((sandbox.id for sandbox in state.status.sandboxes), "")
    return LastStatus(
        containers=tuple(replace(container, message=_kept(container.message)) for container in state.containers),
        reason=state.reason,
        message=_kept(state.message),
        sandbox=newest,
        since=now,
    )


def _kept(message: str) -> str:
    return without_countdown(message)[:_LONGEST]


def to_document(status: LastStatus) -> dict[str, Any]:
    """The note as plain values."""
    return {
        "containers": [
            {
                "name": container.name,
                "role": container.role.value,
                "image": container.image,
                "state": container.lot.value,
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
    """The note that plain values are; ValueError, KeyError, TypeError or AttributeError if they are none."""
    return LastStatus(
        containers=tuple(
            ContainerView(
                name=str(container["name"]),
                role=ContainerRole(container["role"]),
                image=str(container["image"]),
                lot=ContainerViewState(container["state"]),
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
    """A pod for whoever looks at it. `declared` are the main containers of its manifest, if that is known; `stopped`:
    by hand."""

    status: PodStatus
    noted: LastStatus | None = None
    declared: tuple[str, ...] | None = None
    stopped: bool = False

    @property
    def phase(self) -> PodPhase:
        """The phase without the manifest: what was once wanted, and has nothing at the runtime, has yet to begin."""
        begun = bool(self.status.sandboxes or self.status.containers)
        return PodPhase.PENDING if self.declared is not None and not begun else seen_phase(self.status)

    @property
    def containers(self) -> tuple[ContainerView, ...]:
        """All containers: those of the note in their order, or where there is none the main ones that are declared;
        then those that only the runtime knows, oldest first."""
        known = {container.name: container for container in self.noted.containers} if self.noted is not None else {}
        names = [*(known or self.declared or ()), *(container.name for container in reversed(self.status.containers))]
        return tuple(_view(name, known.get(name), self.status.latest(name)) for name in dict.fromkeys(names))

    @property
    def main(self) -> tuple[ContainerView, ...]:
        """Those that are to be up. Of somebody else's pod nobody knows which containers were to end."""
        return tuple(container for container in self.containers if container.role is ContainerRole.MAIN)

    @property
    def cause(self) -> WaitingReason | None:
        """What keeps the pod as a whole, if what was noted is about the sandbox that it has now."""
        newest = next((sandbox.id for sandbox in self.status.sandboxes), "")
        if self.noted is None or not self.noted.reason or self.noted.sandbox != newest:
            return None
        return WaitingReason(reason=self.noted.reason, message=self.noted.message)

    @property
    def word(self) -> str:
        """How it is in one word, as `kubectl get pods` finds it: the first init container that is not done, else the
        first container that does not run, else the phase."""
        return self._said.reason

    @property
    def message(self) -> str:
        """What was said about that."""
        return self._said.message

    @property
    def _said(self) -> WaitingReason:
        views, main = self.containers, self.main
        if self.stopped and not any(view.lot is ContainerViewState.RUNNING for view in views):
            return WaitingReason(reason=STOPPED)
        cause = self.cause
        early = [view for view in views if view.role in (ContainerRole.INIT, ContainerRole.SIDECAR)]
        if (index := next((index for index, container in enumerate(early) if not _done(container)), None)) is not None:
            container = early[index]
            if container.lot is not ContainerViewState.RUNNING and container.reason not in _BEGINNING:
                return WaitingReason(reason=f"Init:{container.reason}", message=container.message)
            return cause or WaitingReason(reason=f"Init:{index}/{len(early)}")
        # That a container has yet to begin says less than what keeps the pod.
        silent = ("", *_BEGINNING) if cause is not None else ("",)
        found = next((container for container in main if container.reason not in silent), None)
        if found is None:
            return cause or WaitingReason(reason=self.phase.value)
        if found.reason == "Completed" and any(container.lot is ContainerViewState.RUNNING for container in main):
            return WaitingReason(reason=PodPhase.RUNNING.value)
        return WaitingReason(reason=found.reason, message=found.message)


def _done(container: ContainerView) -> bool:
    """Whether an init container keeps nobody waiting any more."""
    if container.role is ContainerRole.SIDECAR:
        return container.lot is ContainerViewState.RUNNING
    return container.lot is ContainerViewState.TERMINATED and not container.exit_code


def _view(name: str, known: ContainerView | None, found: ContainerStatus | None) -> ContainerView:
    if found is None and known is not None and known.lot is not ContainerViewState.RUNNING:
        return known
    role = known.role if known is not None else ContainerRole.MAIN
    image = known.image if known is not None else ""
    if found is None:
        gone = WaitingReason(reason=_LOST, message="the runtime has it no more")
        return container_view(name, image, role, None, gone if known is not None else _BEGINS, ready=False)
    waited = (
        known if known is not None and known.lot is ContainerViewState.WAITING and known.id in ("", found.id) else None
    )
    cause = WaitingReason(reason=waited.reason, message=waited.message) if waited is not None else None
    if found.state is ContainerState.CREATED:
        cause = cause or _BEGINS
    elif found.state is not ContainerState.EXITED or waited is None or not waited.id:
        cause = None
    running = found.state is ContainerState.RUNNING
    return container_view(name, image or found.image, role, found, cause, ready=running)
