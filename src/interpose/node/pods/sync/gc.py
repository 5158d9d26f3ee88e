"""Collecting what is left over of pods of ours: containers, sandboxes, logs, cgroups, folders.

Only pods with a folder of ours, or that the caller knows, are looked at: a runtime may have other users.
"""

import asyncio
from collections.abc import Collection

from interpose.core.model.pod import ContainerState
from interpose.node.pods.cgroups.pod_cgroups import PodCgroups
from interpose.node.pods.status.lister import Listing
from interpose.node.pods.status.resize_record import Resized
from interpose.node.pods.status.runtime_pod import ListedContainer, RunningPod
from interpose.node.pods.sync.garbage import dead_containers, empty_pods, idle_sandboxes
from interpose.node.pods.sync.kill import Killer, Killing
from interpose.node.pods.sync.removing import Remover
from interpose.node.pods.sync.result import Act, Reason, Step, SyncResult
from interpose.node.pods.sync.start_container import Folders


class GarbageCollector:
    """Removes leftovers. May run beside syncs of the same pods: what they need is not left over."""

    def __init__(
        self,
        listing: Listing,
        *,
        killer: Killer,
        remover: Remover,
        folders: Folders,
        cgroups: PodCgroups,
        resized: Resized,
    ) -> None:
        self._listing = listing
        self._killer = killer
        self._remover = remover
        self._folders = folders
        self._cgroups = cgroups
        self._resized = resized

    async def collect(self, known: Collection[str], *, evict_deleted: bool) -> SyncResult:
        """One collection. RpcError if the runtime cannot be asked what it has."""
        # The folders before the lists: a pod that begins meanwhile is in neither, or known.
        ours = await asyncio.to_thread(self._folders.uids)
        gone = {uid for uid in ours if uid not in known} if evict_deleted else set()
        pods = await self._listing.pods(everything=True)
        steps: list[Step] = []
        removed: set[str] = set()
        for one in dead_containers(pods, known=known, gone=gone):
            for container in one.containers:
                step = await self._container(one.pod, container)
                steps.append(step)
                if step.error is None:
                    removed.add(container.id)
        for sandbox in idle_sandboxes(pods, known=known, gone=gone, removed=removed):
            step = await self._remover.sandbox(sandbox.id)
            steps.append(step)
            if step.error is None:
                removed.add(sandbox.id)
        steps += await self.folders(empty_pods(sorted(gone), pods, removed))
        return SyncResult(steps=tuple(steps))

    async def folders(self, uids: Collection[str], *, keep_logs: bool = False) -> list[Step]:
        """Logs, cgroups, and the folder last: as long as it is there the pod is known to be ours."""
        steps = []
        logs = await self._remover.log_folders() if uids and not keep_logs else {}
        for uid in uids:
            if uid in logs:
                steps.append(await self._remover.log_folder(logs[uid]))
            try:
                await asyncio.to_thread(self._cgroups.remove, uid)
                await asyncio.to_thread(self._folders.remove, uid)
            except (OSError, ValueError) as error:
                steps.append(Step(act=Act.CLEAN_UP, target=uid, error=str(error), reason=Reason.FAILED_REMOVE))
            else:
                self._resized.forget(uid)
                steps.append(Step(act=Act.CLEAN_UP, target=uid))
        return steps

    async def _container(self, pod: RunningPod, container: ListedContainer) -> Step:
        if container.state is ContainerState.UNKNOWN:
            # It may run after all.
            step = await self._killer.container(container, Killing(title=pod.title))
            if step.error is not None:
                return step
        return await self._remover.container(container.id)
