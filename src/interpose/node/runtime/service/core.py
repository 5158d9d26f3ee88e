"""What all parts of the service share: objects, records, parts below, the feed of events.

Three rules live here. What begins something reaches the disk before memory shows it (`save_...`). What ends something
does not depend on that (`note_...`): on a full disk pods can still be stopped and removed, which is what makes room.
And what is written is what memory says at that moment plus the change: an end that is heard meanwhile is never
overwritten.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from interpose.cri.messages import cri
from interpose.log import kv
from interpose.node.runtime.service import cri_views as views
from interpose.node.runtime.service.events import EventFeed
from interpose.node.runtime.service.interfaces import (
    Bundles,
    ContainerExit,
    Executor,
    PodNetwork,
    SandboxFiles,
    ShimGoneError,
    ShimManager,
)
from interpose.node.runtime.service.operations import OperationRunner
from interpose.node.runtime.service.registry import ContainerEntry, ObjectRegistry, SandboxEntry
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, Record, SandboxPhase, SandboxRecord

_log = logging.getLogger(__name__)

LOST_CODE = 255
LOST_REASON = "Unknown"
_WRITERS = 2


class RecordStore(Protocol):
    """Records on disk; blocking, called in threads."""

    def prepare(self) -> None: ...

    def put(self, record: SandboxRecord | ContainerRecord) -> None: ...

    def drop(self, record: SandboxRecord | ContainerRecord) -> None: ...

    def load(self, kind: type[Record]) -> dict[str, Record]: ...


class RuntimeCore:
    """Shared by lifecycle, queries and repair."""

    def __init__(
        self,
        *,
        records: RecordStore,
        shims: ShimManager,
        ground: SandboxFiles,
        bundles: Bundles,
        executor: Executor,
        network: PodNetwork,
        cgroup_driver: str = "cgroupfs",
        new_id: Callable[[], str],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.records = records
        self.shims = shims
        self.ground = ground
        self.bundles = bundles
        self.executor = executor
        self.network = network
        self.cgroup_driver = cgroup_driver
        self.clock = clock
        self.registry = ObjectRegistry(new_id)
        self.operations = OperationRunner()
        self.events = EventFeed()
        # Of their own: a record does not wait for whoever copies or removes a large tree.
        self._writers = ThreadPoolExecutor(_WRITERS, "records")

    async def close(self) -> None:
        """No more records are written, and those begun are done."""
        await asyncio.to_thread(self._writers.shutdown)

    # -- records

    async def save_sandbox(self, sandbox: SandboxEntry, **changes: Any) -> None:
        """Change a sandbox: on disk, then in memory."""
        await self._on_disk(self.records.put, replace(sandbox.record, **changes))
        sandbox.record = replace(sandbox.record, **changes)

    async def save_container(self, container: ContainerEntry, **changes: Any) -> None:
        """Change a container: on disk, then in memory."""
        await self._on_disk(self.records.put, replace(container.record, **changes))
        container.record = replace(container.record, **changes)

    async def note_sandbox(self, sandbox: SandboxEntry, **changes: Any) -> None:
        """Change a sandbox that comes to an end: in memory in any case, on disk if that can be done.

        What the disk says instead is older. The next start does from there what was done already; it may be repeated.
        """
        await self._on_disk_if_possible(replace(sandbox.record, **changes))
        sandbox.record = replace(sandbox.record, **changes)

    async def note_container(self, container: ContainerEntry, **changes: Any) -> None:
        """As `note_sandbox`. Also for one that runs: the next start asks its shim, whatever the disk says."""
        await self._on_disk_if_possible(replace(container.record, **changes))
        container.record = replace(container.record, **changes)

    async def drop(self, record: SandboxRecord | ContainerRecord) -> None:
        """Forget a record: nothing of the object is left."""
        await self._on_disk(self.records.drop, record)

    async def _on_disk(self, act: Callable[[Any], None], record: SandboxRecord | ContainerRecord) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writers, act, record)

    async def _on_disk_if_possible(self, record: SandboxRecord | ContainerRecord) -> None:
        try:
            await self._on_disk(self.records.put, record)
        except OSError as error:
            said = kv(id=record.id, phase=record.phase.value, err=str(error))
            _log.warning("Failed to write record; continuing without it", extra=said)

    # -- ends of containers

    def heard_exit(self, container_id: str, end: ContainerExit) -> None:
        """A shim says that a container has ended. The shim has it on disk, so memory may know first."""
        container = self.registry.containers.get(container_id)
        if container is None:
            return
        if container.phase is ContainerPhase.STARTING:
            container.early = end  # whoever starts it is not done yet
        elif container.phase is ContainerPhase.RUNNING:
            self.ended(container, end)

    def ended(self, container: ContainerEntry, end: ContainerExit, *, reason: str = "", message: str = "") -> None:
        """RUNNING -> EXITED, and the rest of it is given back in the background."""
        said = reason or ("OOMKilled" if end.oom else "Completed" if end.code == 0 else "Error")
        container.record = replace(
            container.record,
            phase=ContainerPhase.EXITED,
            pid=0,
            finished_at=max(end.at, container.record.started_at),
            exit_code=end.code,
            reason=said,
            message=message,
        )
        container.untidy = True
        container.exited.set()
        self.tell(cri.CONTAINER_STOPPED_EVENT, container.id, container.sandbox)
        self.operations.later(f"tidy up after container {container.id}", partial(self._tidy_later, container))

    async def _tidy_later(self, container: ContainerEntry) -> None:
        async with container.lock:
            if container.id in self.registry.containers and container.phase is ContainerPhase.EXITED:
                await self.note_container(container)
                await self.tidy(container)

    async def tidy(self, container: ContainerEntry) -> None:
        """Let the OCI runtime forget a container that has ended, and end what it left running. Its lock is held."""
        if container.untidy:
            await self.executor.kill_all(container.record)
            await self.executor.delete(container.record)
            container.untidy = False

    async def bury(self, container: ContainerEntry) -> None:
        """End a container whose shim is gone, and say how it ended as far as anybody knows. Its lock is held."""
        await self.executor.kill_all(container.record)
        if container.phase in (ContainerPhase.STARTING, ContainerPhase.RUNNING):
            end = await self.bundles.exit_of(container.id)
            if end is not None:
                self.ended(container, end)
            else:
                self.ended(container, ContainerExit(code=LOST_CODE, at=self.clock()), reason=LOST_REASON)
        await self.note_container(container)
        await self.executor.delete(container.record, force=True)
        container.untidy = False

    # -- ends of sandboxes

    def heard_loss(self, sandbox_id: str) -> None:
        """The holder of a sandbox has died, or its shim."""
        sandbox = self.registry.sandboxes.get(sandbox_id)
        if sandbox is not None:
            self.operations.later(f"see after sandbox {sandbox_id}", partial(self._see_after, sandbox))

    async def _see_after(self, sandbox: SandboxEntry) -> None:
        """NOTREADY; what runs goes on while there is a shim to look after it, and is ended if there is none."""
        async with sandbox.lock:
            if sandbox.id not in self.registry.sandboxes or sandbox.shim is None:
                return
            try:
                await sandbox.shim.states()
            except ShimGoneError:
                sandbox.shim = None
            if sandbox.record.phase is SandboxPhase.READY:
                _log.warning("Sandbox died", extra=kv(sandbox=sandbox.id, pod=sandbox.record.config.metadata.name))
                await self.note_sandbox(sandbox, phase=SandboxPhase.STOPPED)
                self.tell(cri.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox)
            if sandbox.shim is None:
                for container in list(sandbox.containers.values()):
                    async with container.lock:
                        if container.phase is ContainerPhase.RUNNING:
                            await self.bury(container)

    # -- events

    def tell(self, kind: "cri.ContainerEventType", object_id: str, sandbox: SandboxEntry | None) -> None:
        """Something happened to a container or a sandbox."""
        self.events.publish(lambda: views.event(kind, object_id, sandbox, self.clock()))
