"""Removing what has ended: containers with their logs, sandboxes, the log folders of pods that are gone."""

import asyncio
import contextlib
import logging
import shutil
from glob import escape
from pathlib import Path
from typing import Final

from interpose.cri.services import ContainerManager, PodSandboxManager
from interpose.log import RateLimited
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.sync.result import Act, Reason, Step

_log = logging.getLogger(__name__)

_BURST: Final = 5


class Remover:
    """Removes. What fails is told to the log and in the step, and is tried again by whoever comes next."""

    def __init__(self, sandboxes: PodSandboxManager, containers: ContainerManager, *, log_root: str) -> None:
        self._sandboxes = sandboxes
        self._containers = containers
        self._log_root = Path(log_root)
        self._remarks = RateLimited(_log, burst=_BURST)

    async def container(self, container_id: str, *, log_path: str | None = None) -> Step:
        """Remove a container; with `log_path` its log, too, and the rotated ones. None: asked of the runtime."""
        try:
            if log_path is None:
                log_path = await self._log_path(container_id)
            if log_path:
                await asyncio.to_thread(self._remove_logs, log_path)
            await self._containers.remove_container(container_id)
        except RpcError as error:
            if error.code is not Code.NOT_FOUND:
                return self._failure(Act.REMOVE_CONTAINER, container_id, str(error))
        return Step(act=Act.REMOVE_CONTAINER, target=container_id)

    async def sandbox(self, sandbox_id: str, *, stopped: bool = False) -> Step:
        """Remove a sandbox. It is stopped once more before: only that gives a network back for sure."""
        try:
            if not stopped:
                await self._sandboxes.stop_pod_sandbox(sandbox_id)
            await self._sandboxes.remove_pod_sandbox(sandbox_id)
        except RpcError as error:
            if error.code is not Code.NOT_FOUND:
                return self._failure(Act.REMOVE_SANDBOX, sandbox_id, str(error))
        return Step(act=Act.REMOVE_SANDBOX, target=sandbox_id)

    async def log_folder(self, folder: str) -> Step:
        """Remove the logs of a pod that is gone, by the name of their folder."""
        path = self._log_root / folder.rpartition("/")[2]
        try:
            await asyncio.to_thread(_remove_tree, path)
        except OSError as error:
            return self._failure(Act.CLEAN_UP, str(path), str(error))
        return Step(act=Act.CLEAN_UP, target=str(path))

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

    def _failure(self, act: Act, target: str, error: str) -> Step:
        self._remarks.log(logging.WARNING, "Could not be removed", key=error, step=act.value, target=target, err=error)
        return Step(act=act, target=target, error=error, reason=Reason.FAILED_REMOVE)


def _remove_tree(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def _listed(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
