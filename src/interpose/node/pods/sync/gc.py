"""Garbage collection of pods: dead containers with their logs, sandboxes, cgroups and pod directories.

Only pods with a directory below our root, or that the caller names, are collected: a runtime may have other clients.
`garbage` decides what is garbage, `ObjectRemover` removes one object.
"""

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Collection
from glob import escape
from pathlib import Path
from typing import Final

from interpose.core.model.pod import ContainerState
from interpose.cri.services import ContainerManager, PodSandboxManager
from interpose.log import RateLimited
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.cgroups.pod_cgroups import PodCgroups
from interpose.node.pods.status.lister import RuntimePodLister
from interpose.node.pods.status.resize_record import ResizeRecord
from interpose.node.pods.status.runtime_pod import RuntimeContainer, RuntimePod
from interpose.node.pods.sync.garbage import dead_containers, empty_pods, idle_sandboxes
from interpose.node.pods.sync.kill import ContainerKiller, KillOptions
from interpose.node.pods.sync.result import StepReason, SyncResult, SyncStep, SyncStepKind
from interpose.node.pods.sync.start_container import PodDirectories

_log = logging.getLogger(__name__)
_BURST: Final = 5


class ObjectRemover:
    """Removes containers, sandboxes and logs. Failures are logged and in the step; the next collection tries again."""

    def __init__(self, sandboxes: PodSandboxManager, containers: ContainerManager, *, log_root: str) -> None:
        self._sandboxes = sandboxes
        self._containers = containers
        self._log_root = Path(log_root)
        self._remarks = RateLimited(_log, burst=_BURST)

    async def container(self, container_id: str, *, log_path: str | None = None) -> SyncStep:
        """Remove a container; with `log_path` its log, too, and the rotated ones. None: asked of the runtime."""
        try:
            if log_path is None:
                log_path = await self._log_path(container_id)
            if log_path:
                await asyncio.to_thread(self._remove_logs, log_path)
            await self._containers.remove_container(container_id)
        except RpcError as error:
            if error.code is not Code.NOT_FOUND:
                return self._failure(SyncStepKind.REMOVE_CONTAINER, container_id, str(error))
        return SyncStep(act=SyncStepKind.REMOVE_CONTAINER, target=container_id)

    async def sandbox(self, sandbox_id: str, *, stopped: bool = False) -> SyncStep:
        """Remove a sandbox. It is stopped once more before: only that gives a network back for sure."""
        try:
            if not stopped:
                await self._sandboxes.stop_pod_sandbox(sandbox_id)
            await self._sandboxes.remove_pod_sandbox(sandbox_id)
        except RpcError as error:
            if error.code is not Code.NOT_FOUND:
                return self._failure(SyncStepKind.REMOVE_SANDBOX, sandbox_id, str(error))
        return SyncStep(act=SyncStepKind.REMOVE_SANDBOX, target=sandbox_id)

    async def log_folder(self, folder: str) -> SyncStep:
        """Remove the logs of a pod that is gone, by the name of their folder."""
        path = self._log_root / folder.rpartition("/")[2]
        try:
            await asyncio.to_thread(_remove_tree, path)
        except OSError as error:
            return self._failure(SyncStepKind.CLEAN_UP, str(path), str(error))
        return SyncStep(act=SyncStepKind.CLEAN_UP, target=str(path))

    async def log_folders(self) -> dict[str, str]:
        """The folders of logs there are, by the uid of their pod."""
        names = await asyncio.to_thread(_listed, self._log_root)
        # Neither of the first two parts may hold an underscore.
        return {name.split("_", 2)[2]: name for name in names if name.count("_") >= 2}

    async def _log_path(self, container_id: str) -> str:
        answer = await self._containers.container_status(container_id)
        return str(answer.status.log_path)

    def _remove_logs(self, log_path: str) -> None:
        """Only below the folder that logs are in: the path is the runtime's word."""
        log = Path(log_path)
        if not log.is_absolute() or not log.resolve().is_relative_to(self._log_root.resolve()):
            return
        for path in (log, *log.parent.glob(f"{escape(log.name)}.*")):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                why = str(error)
                self._remarks.log(logging.WARNING, "Log cannot be removed", key=why, path=log_path, err=why)

    def _failure(self, act: SyncStepKind, target: str, error: str) -> SyncStep:
        self._remarks.log(logging.WARNING, "Could not be removed", key=error, step=act.value, target=target, err=error)
        return SyncStep(act=act, target=target, error=error, reason=StepReason.FAILED_REMOVE)


def _remove_tree(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _listed(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


class GarbageCollector:
    """Removes leftovers. May run beside syncs of the same pods: what they need is not left over."""

    def __init__(
        self,
        listing: RuntimePodLister,
        *,
        killer: ContainerKiller,
        remover: ObjectRemover,
        folders: PodDirectories,
        cgroups: PodCgroups,
        resized: ResizeRecord,
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
        steps: list[SyncStep] = []
        removed: set[str] = set()
        for garbage in dead_containers(pods, known=known, gone=gone):
            for container in garbage.containers:
                step = await self._container(garbage.pod, container)
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

    async def folders(self, uids: Collection[str], *, keep_logs: bool = False) -> list[SyncStep]:
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
                steps.append(
                    SyncStep(act=SyncStepKind.CLEAN_UP, target=uid, error=str(error), reason=StepReason.FAILED_REMOVE)
                )
            else:
                self._resized.forget(uid)
                steps.append(SyncStep(act=SyncStepKind.CLEAN_UP, target=uid))
        return steps

    async def _container(self, pod: RuntimePod, container: RuntimeContainer) -> SyncStep:
        if container.state is ContainerState.UNKNOWN:
            # It may run after all.
            step = await self._killer.container(container, KillOptions(title=pod.title))
            if step.error is not None:
                return step
        return await self._remover.container(container.id)
