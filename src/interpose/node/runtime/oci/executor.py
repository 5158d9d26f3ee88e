"""What is left to ask of the OCI runtime once the shim has started a container, with the container's cgroup."""

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
_PATIENCE: Final = 10.0
_PAUSE: Final = 0.02


class OciExecutor:
    """Deletes, kills and updates containers."""

    def __init__(self, runtime: OciRuntime, cgroups: CgroupDirs) -> None:
        self._runtime = runtime
        self._cgroups = cgroups

    async def delete(self, record: ContainerRecord, *, force: bool = False) -> None:
        """The OCI runtime is asked only if it has something; a cgroup without it is removed all the same.

        With `force` a start that is still under way, by order of a shim that was killed, comes to nothing.
        """
        if force:
            await self._end_start(record)
        if (self._runtime.root / record.id).exists():
            try:
                await self._runtime.delete(record.id, force=force)
            except OciError as error:
                raise PartError(str(error)) from None
        if record.cgroup and not await asyncio.to_thread(self._cgroups.remove, record.cgroup):
            raise PartError(f"cgroup {record.cgroup} cannot be removed: something is in it")

    async def _end_start(self, record: ContainerRecord) -> None:
        words = ("--root", str(self._runtime.root), record.id)
        try:
            ended = await asyncio.to_thread(orphans.end, lambda: orphans.with_words(words))
        except OSError as error:
            raise PartError(str(error)) from None
        if ended:
            _log.warning("Killed an abandoned container start", extra=kv(container=record.id))
        await self.kill_all(record)

    async def kill_all(self, record: ContainerRecord) -> None:
        """End every process in the container's cgroup."""
        try:
            ended = not record.cgroup or await self._killed(record.cgroup)
        except OSError as error:
            raise PartError(str(error)) from None
        if not ended:
            raise PartError(f"processes in cgroup {record.cgroup} do not end")

    async def _killed(self, cgroup: str) -> bool:
        """No thread waits for processes that take their time: others need it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while not await asyncio.to_thread(self._cgroups.strike, cgroup):
            if loop.time() > deadline:
                return False
            await asyncio.sleep(_PAUSE)
        return True

    async def update(self, record: ContainerRecord, resources: Mapping[str, Any]) -> None:
        """Change limits of what runs."""
        try:
            await self._runtime.update(record.id, resources)
        except OciError as error:
            raise PartError(str(error)) from None
