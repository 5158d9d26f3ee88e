"""The phase of a pod, whether the pod is ready, and the state of each container. Pure.

A phase is where a pod is in its life, as Kubernetes has it. `observed_phase` is for a pod without a manifest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from interpose.core.model.pod import ContainerState
from interpose.node.pods.status.container_values import RestartPolicy
from interpose.node.pods.status.types import ContainerStatus, PodStatus
from interpose.node.pods.sync.action_types import UNPROBED, ProbeResults
from interpose.node.pods.sync.restart_policy import is_sidecar, policy_of, rule_for, should_restart

if TYPE_CHECKING:
    from interpose.node.pods.spec import ContainerSpec, PodSpec

_KILLED: Final = 137


class PodPhase(StrEnum):
    """The phase of a pod, as Kubernetes defines it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def final(self) -> bool:
        """Whether no other phase comes after this one."""
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


class ContainerRole(StrEnum):
    """The role of a container in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"
    EPHEMERAL = "ephemeral"


class ContainerViewState(StrEnum):
    """The state of a container in a `ContainerView`."""

    WAITING = "Waiting"
    RUNNING = "Running"
    TERMINATED = "Terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingReason:
    """Why a container is not started: CrashLoopBackOff, ErrImagePull and the like, with words for people."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """A container as commands show it. Times are nanoseconds, 0 for never."""

    name: str
    role: ContainerRole
    image: str
    state: ContainerViewState
    reason: str = ""
    message: str = ""
    exit_code: int | None = None  # of the latest end, also of one that waits to be started again
    started_at: int = 0
    finished_at: int = 0
    restart_count: int = 0
    ready: bool = False
    id: str = ""

    @property
    def words(self) -> str:
        """`Running`, or the reason why the container does not run."""
        return self.reason or self.state.value


def pod_phase(pod: "PodSpec", status: PodStatus) -> PodPhase:
    """The phase of a pod, by its manifest and the status of the runtime."""
    if _init_failed(pod, status):
        return PodPhase.FAILED
    latest = [status.latest(container.name) for container in pod.containers]
    states = [None if container is None else container.state for container in latest]
    if not _initialized(pod, status) or None in states or ContainerState.CREATED in states:
        return PodPhase.PENDING
    if ContainerState.RUNNING in states:
        return PodPhase.RUNNING
    if ContainerState.UNKNOWN in states:
        return PodPhase.UNKNOWN
    if any(should_restart(pod, container, found) for container, found in zip(pod.containers, latest, strict=True)):
        return PodPhase.RUNNING
    # Whatever else is said about its end, of a main container the exit code counts.
    return (
        PodPhase.FAILED
        if any(container is not None and container.exit_code != 0 for container in latest)
        else PodPhase.SUCCEEDED
    )


def observed_phase(status: PodStatus) -> PodPhase:
    """The phase as far as the runtime alone can tell: whether what has ended will be started again is not known."""
    newest = [
        found
        for name in dict.fromkeys(container.name for container in status.containers)
        if (found := status.latest(name))
    ]
    states = {container.state for container in newest}
    up = any(sandbox.ready for sandbox in status.sandboxes[:1])
    if ContainerState.RUNNING in states:
        return PodPhase.RUNNING
    if ContainerState.UNKNOWN in states:
        return PodPhase.UNKNOWN
    if up:
        return PodPhase.PENDING if states != {ContainerState.EXITED} else PodPhase.RUNNING
    if ContainerState.EXITED in states:
        return PodPhase.FAILED if any(container.failed for container in newest) else PodPhase.SUCCEEDED
    return PodPhase.UNKNOWN


def ready(pod: "PodSpec", status: PodStatus, health: ProbeResults = UNPROBED) -> bool:
    """Whether every main container and sidecar runs and its probes have succeeded."""
    long_running = (*(container for container in pod.init_containers if is_sidecar(container)), *pod.containers)
    return _initialized(pod, status) and all(
        _is_ready(container, status.latest(container.name), health) for container in long_running
    )


def container_views(
    pod: "PodSpec",
    status: PodStatus,
    health: ProbeResults = UNPROBED,
    waiting: Mapping[str, WaitingReason] = MappingProxyType({}),
) -> tuple[ContainerView, ...]:
    """All containers of the manifest in its order; `waiting` has the reasons of failed starts, by name."""
    begun = _initialized(pod, status)
    roles = (
        *(
            (container, ContainerRole.SIDECAR if is_sidecar(container) else ContainerRole.INIT)
            for container in pod.init_containers
        ),
        *((container, ContainerRole.MAIN) for container in pod.containers),
        *((container, ContainerRole.EPHEMERAL) for container in pod.ephemeral_containers),
    )
    views = []
    for container, role in roles:
        found = status.latest(container.name)
        cause = _waiting_reason(pod, container, role, status, waiting, begun=begun)
        is_ready = _is_ready(container, found, health)
        views.append(container_view(container.name, container.image, role, found, cause, ready=is_ready))
    return tuple(views)


def _waiting_reason(
    pod: "PodSpec",
    container: "ContainerSpec",
    role: ContainerRole,
    status: PodStatus,
    waiting: Mapping[str, WaitingReason],
    *,
    begun: bool,
) -> WaitingReason | None:
    """Why a container waits; None if it does not."""
    found = status.latest(container.name)
    known = waiting.get(container.name)
    if found is not None and found.state in (ContainerState.RUNNING, ContainerState.UNKNOWN):
        return None
    if found is not None and found.state is ContainerState.EXITED:
        # A container that has ended waits only if its restart has a known reason to wait.
        over = role is ContainerRole.EPHEMERAL or (role is ContainerRole.INIT and not found.failed)
        return None if over or not should_restart(pod, container, found) else known
    early = role is ContainerRole.MAIN and not begun
    return known or WaitingReason(reason="PodInitializing" if early else "ContainerCreating")


def container_view(
    name: str,
    image: str,
    role: ContainerRole,
    found: ContainerStatus | None,
    cause: WaitingReason | None,
    *,
    ready: bool,
) -> ContainerView:
    """A container by the status of the runtime, None if it has none. `cause` is why it waits, None if it does not.
    Whether an init container is ready follows from how it ended."""
    ended = found is not None and found.state in (ContainerState.EXITED, ContainerState.UNKNOWN)
    if found is None:
        waits = cause or WaitingReason(reason="ContainerCreating")
        return ContainerView(
            name=name,
            role=role,
            image=image,
            state=ContainerViewState.WAITING,
            reason=waits.reason,
            message=waits.message,
        )
    unknown = found.state is ContainerState.UNKNOWN
    if cause is not None:
        state, reason, message = ContainerViewState.WAITING, cause.reason, cause.message
    elif ended:
        ending = found.reason or ("Error" if found.failed else "Completed")
        state, reason, message = (
            ContainerViewState.TERMINATED,
            "ContainerStatusUnknown" if unknown else ending,
            found.message,
        )
    else:
        state, reason, message = ContainerViewState.RUNNING, "", ""
    return ContainerView(
        name=name,
        role=role,
        image=image,
        state=state,
        reason=reason,
        message=message,
        exit_code=(_KILLED if unknown else found.exit_code) if ended else None,
        started_at=found.started_at,
        finished_at=found.finished_at,
        restart_count=found.restart_count,
        ready=ready if role is not ContainerRole.INIT else state is ContainerViewState.TERMINATED and not found.failed,
        id=found.id,
    )


def _is_ready(container: "ContainerSpec", found: ContainerStatus | None, health: ProbeResults) -> bool:
    if found is None or found.state is not ContainerState.RUNNING:
        return False
    if container.startup is not None and health.startup(found.id) is not True:
        return False
    return container.readiness is None or health.readiness(found.id) is True


def _initialized(pod: "PodSpec", status: PodStatus) -> bool:
    """Whether main containers may run, or have run; ends of init containers may have been removed since."""
    if not pod.init_containers or any(status.latest(container.name) for container in pod.containers):
        return True
    last = pod.init_containers[-1]
    found = status.latest_active(last.name)
    if found is None:
        return False
    if is_sidecar(last):
        return found.state is ContainerState.RUNNING
    return found.state is ContainerState.EXITED and not found.failed


def _init_failed(pod: "PodSpec", status: PodStatus) -> bool:
    """Whether an init container has failed for good."""
    if any(status.latest(container.name) for container in pod.containers):
        return False
    for container in pod.init_containers:
        found = status.latest(container.name)
        ended = found is not None and found.failed and not is_sidecar(container)
        if ended and (
            pod.deleted or (policy_of(pod, container) is RestartPolicy.NEVER and rule_for(container, found) is None)
        ):
            return True
    return False
