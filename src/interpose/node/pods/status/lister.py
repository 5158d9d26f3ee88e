"""Pods and their status as the runtime reports them: queries, and the conversion of CRI messages to status values."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from interpose.core.model.kubernetes_names import CONTAINER_NAME, POD_UID
from interpose.core.model.pod import ContainerState
from interpose.cri.messages import cri
from interpose.cri.services import ContainerManager, PodSandboxManager
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.status.annotations import ContainerAnnotations, parse_annotations
from interpose.node.pods.status.container_values import ResourceRequirements
from interpose.node.pods.status.runtime_pod import RuntimeContainer, RuntimePod, container_state, group_pods
from interpose.node.pods.status.termination_message import read_termination_message
from interpose.node.pods.status.types import ContainerStatus, PodStatus, SandboxStatus

_READY: Final = cri.PodSandboxFilter(state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY))
_RUNNING: Final = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))


# What was last asked for a container that was resized since it was made; None if it was not.
Actuated = Callable[[str, str], ResourceRequirements | None]


def _never_resized(_uid: str, _container_id: str) -> None:
    return None


class RuntimePodLister:
    """Lists the pods of a runtime and reads their status. Changes nothing."""

    def __init__(
        self, sandboxes: PodSandboxManager, containers: ContainerManager, actuated: Actuated = _never_resized
    ) -> None:
        self._sandboxes = sandboxes
        self._containers = containers
        self._actuated = actuated

    async def pods(self, *, everything: bool = False) -> list[RuntimePod]:
        """Pods with something that runs, or all of which something is left."""
        # Sandboxes first: a pod that comes meanwhile is then seen with its containers or not at all.
        sandboxes = await self._sandboxes.list_pod_sandbox(None if everything else _READY)
        containers = await self._containers.list_containers(None if everything else _RUNNING)
        return group_pods(sandboxes, containers, complete=everything)

    async def pod(self, uid: str) -> RuntimePod:
        """All that is left of one pod; an empty one if nothing is."""
        labels = {POD_UID: uid}
        sandboxes = await self._sandboxes.list_pod_sandbox(cri.PodSandboxFilter(label_selector=labels))
        containers = await self._containers.list_containers(cri.ContainerFilter(label_selector=labels))
        found = {pod.uid: pod for pod in group_pods(sandboxes, containers, complete=True)}
        return found.get(uid, RuntimePod(uid=uid, complete=True))

    async def status(self, pod: RuntimePod | str) -> PodStatus:
        """Everything about a pod. What vanishes while it is asked about is not there; other failures are raised."""
        if isinstance(pod, str) or not pod.complete:
            pod = await self.pod(pod if isinstance(pod, str) else pod.uid)
        sandboxes = [await self._sandbox(sandbox.id) for sandbox in pod.sandboxes]
        containers = [await self._container(pod.uid, container) for container in pod.containers]
        return pod_status(
            pod,
            [sandbox for sandbox in sandboxes if sandbox is not None],
            [container for container in containers if container is not None],
        )

    async def newest_sandbox(self, pod: RuntimePod) -> SandboxStatus | None:
        """The sandbox that a pod has now; None if it has none."""
        return await self._sandbox(pod.sandboxes[0].id) if pod.sandboxes else None

    async def _sandbox(self, sandbox_id: str) -> SandboxStatus | None:
        try:
            answer = await self._sandboxes.pod_sandbox_status(sandbox_id)
        except RpcError as error:
            if error.code is not Code.NOT_FOUND:
                raise
            return None
        return sandbox_status(answer.status)

    async def _container(self, uid: str, listed: RuntimeContainer) -> ContainerStatus | None:
        try:
            status = (await self._containers.container_status(listed.id)).status
        except RpcError as error:
            if error.code is not Code.NOT_FOUND:
                raise
            return None
        # Some runtimes show annotations in lists only.
        notes = parse_annotations(status.annotations or listed.annotations)
        message = ""
        if status.state == cri.CONTAINER_EXITED:
            message = await asyncio.to_thread(read_termination_message, status, notes)
        resources = self._actuated(uid, listed.id)
        return container_status(status, notes, sandbox_id=listed.sandbox_id, message=message, resources=resources)


# -- messages to values


def sandbox_status(status: cri.PodSandboxStatus) -> SandboxStatus:
    """A sandbox. Only a ready one has addresses."""
    ready = status.state == cri.SANDBOX_READY
    network = status.network if status.HasField("network") else None
    return SandboxStatus(
        id=status.id,
        attempt=status.metadata.attempt,
        ready=ready,
        created_at=status.created_at,
        host_network=status.linux.namespaces.options.network == cri.NODE,
        ip=None if network is None else network.ip,
        additional_ips=() if network is None else tuple(address.ip for address in network.additional_ips if address.ip),
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
    notes: ContainerAnnotations,
    *,
    sandbox_id: str = "",
    message: str = "",
    resources: ResourceRequirements | None = None,
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


def pod_status(pod: RuntimePod, sandboxes: Sequence[SandboxStatus], containers: Sequence[ContainerStatus]) -> PodStatus:
    """The pod as a whole, from statuses that are sorted newest first."""
    current = sandboxes[0] if sandboxes and sandboxes[0].ready else None
    return PodStatus(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        ips=addresses(current) if current is not None else (),
        sandboxes=tuple(sandboxes),
        containers=tuple(containers),
        active=tuple(
            container for container in containers if current is not None and container.sandbox_id == current.id
        ),
    )
