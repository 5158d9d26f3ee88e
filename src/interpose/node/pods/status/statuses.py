"""From the answers of a runtime to the values that decisions are made from."""

from collections.abc import Sequence
from typing import Final

from interpose.core.model.pod import ContainerState
from interpose.cri.messages import cri
from interpose.node.pods.labels import CONTAINER_NAME
from interpose.node.pods.status.annotations import ContainerNotes
from interpose.node.pods.status.container_values import Resources
from interpose.node.pods.status.runtime_pod import RunningPod, container_state
from interpose.node.pods.status.types import ContainerStatus, PodStatus, SandboxStatus

_READY: Final = cri.SANDBOX_READY


def sandbox_status(status: cri.PodSandboxStatus) -> SandboxStatus:
    """A sandbox. Only a ready one has addresses."""
    ready = status.state == _READY
    network = status.network if status.HasField("network") else None
    return SandboxStatus(
        id=status.id,
        attempt=status.metadata.attempt,
        ready=ready,
        created_at=status.created_at,
        host_network=status.linux.namespaces.options.network == cri.NODE,
        ip=None if network is None else network.ip,
        additional_ips=() if network is None else tuple(one.ip for one in network.additional_ips if one.ip),
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        runtime_handler=status.runtime_handler,
    )


def addresses(sandbox: SandboxStatus) -> tuple[str, ...]:
    """Where the pod can be reached: pods in the node's network have no address of their own."""
    if not sandbox.ready or sandbox.host_network or not sandbox.ip:
        return ()
    return (sandbox.ip, *sandbox.additional_ips)


def container_status(
    status: cri.ContainerStatus,
    notes: ContainerNotes,
    *,
    sandbox_id: str = "",
    message: str = "",
    resources: Resources | None = None,
) -> ContainerStatus:
    """A container. `message` are its last words, `resources` what was asked for last, if that is not in its notes."""
    state = container_state(status.state)
    exited = state is ContainerState.EXITED
    return ContainerStatus(
        id=status.id,
        name=status.labels.get(CONTAINER_NAME, "") or status.metadata.name,
        sandbox_id=sandbox_id,
        state=state,
        created_at=status.created_at,
        started_at=0 if state is ContainerState.CREATED else status.started_at,
        finished_at=status.finished_at if exited else 0,
        exit_code=status.exit_code if exited else 0,
        reason=status.reason if exited else "",
        message=": ".join(part for part in (status.message, message) if part) if exited else "",
        hash=notes.hash,
        restart_count=max(notes.restart_count, status.metadata.attempt),
        image=status.image.user_specified_image or status.image.image,
        image_ref=status.image_ref,
        image_id=status.image_id,
        log_path=status.log_path,
        annotations=dict(status.annotations),
        resources=resources if resources is not None else notes.resources,
    )


def pod_status(pod: RunningPod, sandboxes: Sequence[SandboxStatus], containers: Sequence[ContainerStatus]) -> PodStatus:
    """The pod as a whole, from statuses that are sorted newest first."""
    current = sandboxes[0] if sandboxes and sandboxes[0].ready else None
    return PodStatus(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        ips=addresses(current) if current is not None else (),
        sandboxes=tuple(sandboxes),
        containers=tuple(containers),
        active=tuple(one for one in containers if current is not None and one.sandbox_id == current.id),
    )
