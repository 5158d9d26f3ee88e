"""Asking a runtime what it has: pods from its lists, and the whole status of one pod."""

import asyncio
from collections.abc import Callable
from typing import Final

from interpose.cri.messages import cri
from interpose.cri.services import ContainerManager, PodSandboxManager
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.labels import POD_UID
from interpose.node.pods.status.annotations import notes_of
from interpose.node.pods.status.container_values import Resources
from interpose.node.pods.status.runtime_pod import ListedContainer, RunningPod, grouped
from interpose.node.pods.status.statuses import container_status, pod_status, sandbox_status
from interpose.node.pods.status.termination_message import last_words
from interpose.node.pods.status.types import ContainerStatus, PodStatus, SandboxStatus

_READY: Final = cri.PodSandboxFilter(state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY))
_RUNNING: Final = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))


# What was last asked for a container that was resized since it was made; None if it was not.
Actuated = Callable[[str, str], Resources | None]


def _never_resized(_uid: str, _container_id: str) -> None:
    return None


class Listing:
    """Reads; changes nothing."""

    def __init__(
        self, sandboxes: PodSandboxManager, containers: ContainerManager, actuated: Actuated = _never_resized
    ) -> None:
        self._sandboxes = sandboxes
        self._containers = containers
        self._actuated = actuated

    async def pods(self, *, everything: bool = False) -> list[RunningPod]:
        """Pods with something that runs, or all of which something is left."""
        # Sandboxes first: a pod that comes meanwhile is then seen with its containers or not at all.
        sandboxes = await self._sandboxes.list_pod_sandbox(None if everything else _READY)
        containers = await self._containers.list_containers(None if everything else _RUNNING)
        return grouped(sandboxes, containers, complete=everything)

    async def pod(self, uid: str) -> RunningPod:
        """All that is left of one pod; an empty one if nothing is."""
        labels = {POD_UID: uid}
        sandboxes = await self._sandboxes.list_pod_sandbox(cri.PodSandboxFilter(label_selector=labels))
        containers = await self._containers.list_containers(cri.ContainerFilter(label_selector=labels))
        found = {one.uid: one for one in grouped(sandboxes, containers, complete=True)}
        return found.get(uid, RunningPod(uid=uid, complete=True))

    async def status(self, pod: RunningPod | str) -> PodStatus:
        """Everything about a pod. What vanishes while it is asked about is not there; other failures are raised."""
        if isinstance(pod, str) or not pod.complete:
            pod = await self.pod(pod if isinstance(pod, str) else pod.uid)
        sandboxes = [await self._sandbox(one.id) for one in pod.sandboxes]
        containers = [await self._container(pod.uid, one) for one in pod.containers]
        return pod_status(
            pod, [one for one in sandboxes if one is not None], [one for one in containers if one is not None]
        )

    async def newest_sandbox(self, pod: RunningPod) -> SandboxStatus | None:
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

    async def _container(self, uid: str, listed: ListedContainer) -> ContainerStatus | None:
        try:
            status = (await self._containers.container_status(listed.id)).status
        except RpcError as error:
            if error.code is not Code.NOT_FOUND:
                raise
            return None
        # Some runtimes show annotations in lists only.
        notes = notes_of(status.annotations or listed.annotations)
        message = ""
        if status.state == cri.CONTAINER_EXITED:
            message = await asyncio.to_thread(last_words, status, notes)
        resources = self._actuated(uid, listed.id)
        return container_status(status, notes, sandbox_id=listed.sandbox_id, message=message, resources=resources)
