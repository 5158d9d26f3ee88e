"""The calls to the OCI runtime that are not the shim's: delete, kill and update, with the container's cgroup."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from interpose.log import kv
from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.node.runtime.oci.runc import OciError, OciRuntime
from interpose.node.runtime.service.interfaces import PartError
from interpose.node.runtime.state import orphans
from interpose.node.runtime.state.records import ContainerRecord

_log = logging.getLogger(__name__)
_KILL_TIMEOUT: Final = 10.0
_PAUSE: Final = 0.02


class OciExecutor:
    """Deletes, kills and updates containers."""

    def __init__(self, runtime: OciRuntime, cgroups: CgroupDirs) -> None:
        self._runtime = runtime
        self._cgroups = cgroups

    async def delete(self, record: ContainerRecord, *, force: bool = False) -> None:
        """Delete a container: the OCI runtime is called only if it knows the container; the cgroup is always removed.

        With `force` a start that is still under way, of a shim that was killed, is ended.
        """
        if force:
            await self._kill_start(record)
        if (self._runtime.root / record.id).exists():
            try:
                await self._runtime.delete(record.id, force=force)
            except OciError as error:
                raise PartError(str(error)) from None
        if record.cgroup and not await asyncio.to_thread(self._cgroups.remove, record.cgroup):
            raise PartError(f"cgroup {record.cgroup} cannot be removed: something is in it")

    async def _kill_start(self, record: ContainerRecord) -> None:
        words = ("--root", str(self._runtime.root), record.id)
        try:
            killed = await asyncio.to_thread(orphans.kill_all, lambda: orphans.with_words(words))
        except OSError as error:
            raise PartError(str(error)) from None
        if killed:
            _log.warning("Killed an abandoned container start", extra=kv(container=record.id))
        await self.kill_all(record)

    async def kill_all(self, record: ContainerRecord) -> None:
        """Kill every process in the container's cgroup."""
        try:
            killed = not record.cgroup or await self._kill_cgroup(record.cgroup)
        except OSError as error:
            raise PartError(str(error)) from None
        if not killed:
            raise PartError(f"processes in cgroup {record.cgroup} do not end")

    async def _kill_cgroup(self, cgroup: str) -> bool:
        """Kill until the cgroup is empty; False after a timeout. No thread waits meanwhile: others need it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _KILL_TIMEOUT
        while not await asyncio.to_thread(self._cgroups.kill_once, cgroup):
            if loop.time() > deadline:
                return False
            await asyncio.sleep(_PAUSE)
        return True

    async def update(self, record: ContainerRecord, resources: Mapping[str, Any]) -> None:
        """Change the limits of a running container."""
        try:
            await self._runtime.update(record.id, resources)
        except OciError as error:
            raise PartError(str(error)) from None
