"""What all parts of the service share: the registry, records, the parts below, the event feed.

Three rules live here. A record that begins something reaches the disk before memory shows it (`save_...`). One that
ends something does not depend on that (`try_save_...`): on a full disk pods can still be stopped and removed, which
frees space. And what is written is the record in memory at that moment plus the change: an exit that is reported
meanwhile is never overwritten.
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
from interpose.node.runtime.service import cri_views
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
    """State and parts shared by lifecycle, queries and recovery."""

    def __init__(
        self,
        *,
        records: RecordStore,
        shims: ShimManager,
        sandbox_files: SandboxFiles,
        bundles: Bundles,
        executor: Executor,
        network: PodNetwork,
        cgroup_driver: str = "cgroupfs",
        new_id: Callable[[], str],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.records = records
        self.shims = shims
        self.sandbox_files = sandbox_files
        self.bundles = bundles
        self.executor = executor
        self.network = network
        self.cgroup_driver = cgroup_driver
        self.clock = clock
        self.registry = ObjectRegistry(new_id)
        self.operations = OperationRunner()
        self.events = EventFeed()
        # Threads of their own: a record does not wait for the copy or removal of a large tree.
        self._writers = ThreadPoolExecutor(_WRITERS, "records")

    async def close(self) -> None:
        """Finish records that are being written; none is written afterwards."""
        await asyncio.to_thread(self._writers.shutdown)

    # -- records

    async def save_sandbox(self, sandbox: SandboxEntry, **changes: Any) -> None:
        """Change a sandbox: on disk, then in memory."""
        await self._run_writer(self.records.put, replace(sandbox.record, **changes))
        sandbox.record = replace(sandbox.record, **changes)

    async def save_container(self, container: ContainerEntry, **changes: Any) -> None:
        """Change a container: on disk, then in memory."""
        await self._run_writer(self.records.put, replace(container.record, **changes))
        container.record = replace(container.record, **changes)

    async def try_save_sandbox(self, sandbox: SandboxEntry, **changes: Any) -> None:
        """Change a sandbox that is ending: in memory in any case, on disk if possible.

        An older record on disk is fine: the next start repeats from there what was done already.
        """
        await self._try_write(replace(sandbox.record, **changes))
        sandbox.record = replace(sandbox.record, **changes)

    async def try_save_container(self, container: ContainerEntry, **changes: Any) -> None:
        """As `try_save_sandbox`. Also for a running container: the next start asks its shim."""
        await self._try_write(replace(container.record, **changes))
        container.record = replace(container.record, **changes)

    async def drop(self, record: SandboxRecord | ContainerRecord) -> None:
        """Delete the record of an object of which nothing is left."""
        await self._run_writer(self.records.drop, record)

    async def _run_writer(self, write: Callable[[Any], None], record: SandboxRecord | ContainerRecord) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writers, write, record)

    async def _try_write(self, record: SandboxRecord | ContainerRecord) -> None:
        try:
            await self._run_writer(self.records.put, record)
        except OSError as error:
            details = kv(id=record.id, phase=record.phase.value, err=str(error))
            _log.warning("Failed to write record; continuing without it", extra=details)

    # -- ends of containers

    def on_container_exit(self, container_id: str, end: ContainerExit) -> None:
        """A shim reports a container's exit. The shim has written it to disk, so memory may change first."""
        container = self.registry.containers.get(container_id)
        if container is None:
            return
        if container.phase is ContainerPhase.STARTING:
            container.early_exit = end  # StartContainer is not done yet
        elif container.phase is ContainerPhase.RUNNING:
            self.mark_exited(container, end)

    def mark_exited(
        self, container: ContainerEntry, end: ContainerExit, *, reason: str = "", message: str = ""
    ) -> None:
        """RUNNING -> EXITED; the rest of the container is cleaned up in the background."""
        reason = reason or ("OOMKilled" if end.oom else "Completed" if end.code == 0 else "Error")
        container.record = replace(
            container.record,
            phase=ContainerPhase.EXITED,
            pid=0,
            finished_at=max(end.at, container.record.started_at),
            exit_code=end.code,
            reason=reason,
            message=message,
        )
        container.needs_cleanup = True
        container.exited.set()
        self.publish_event(cri.CONTAINER_STOPPED_EVENT, container.id, container.sandbox)
        self.operations.run_in_background(
            f"clean up container {container.id}", partial(self._clean_up_later, container)
        )

    async def _clean_up_later(self, container: ContainerEntry) -> None:
        async with container.lock:
            if container.id in self.registry.containers and container.phase is ContainerPhase.EXITED:
                await self.try_save_container(container)
                await self.clean_up(container)

    async def clean_up(self, container: ContainerEntry) -> None:
        """Delete an ended container from the OCI runtime and kill processes it left. The caller holds its lock."""
        if container.needs_cleanup:
            await self.executor.kill_all(container.record)
            await self.executor.delete(container.record)
            container.needs_cleanup = False

    async def reap_lost(self, container: ContainerEntry) -> None:
        """Kill a container whose shim is gone, with the exit code as far as known. The caller holds its lock."""
        await self.executor.kill_all(container.record)
        if container.phase in (ContainerPhase.STARTING, ContainerPhase.RUNNING):
            end = await self.bundles.read_exit(container.id)
            if end is not None:
                self.mark_exited(container, end)
            else:
                self.mark_exited(container, ContainerExit(code=LOST_CODE, at=self.clock()), reason=LOST_REASON)
        await self.try_save_container(container)
        await self.executor.delete(container.record, force=True)
        container.needs_cleanup = False

    # -- ends of sandboxes

    def on_sandbox_lost(self, sandbox_id: str) -> None:
        """The pause process of a sandbox has died, or its shim."""
        sandbox = self.registry.sandboxes.get(sandbox_id)
        if sandbox is not None:
            self.operations.run_in_background(f"check sandbox {sandbox_id}", partial(self._check_lost, sandbox))

    async def _check_lost(self, sandbox: SandboxEntry) -> None:
        """Mark the sandbox NOTREADY; containers go on while there is a shim, and are killed without one."""
        async with sandbox.lock:
            if sandbox.id not in self.registry.sandboxes or sandbox.shim is None:
                return
            try:
                await sandbox.shim.states()
            except ShimGoneError:
                sandbox.shim = None
            if sandbox.record.phase is SandboxPhase.READY:
                _log.warning("Sandbox died", extra=kv(sandbox=sandbox.id, pod=sandbox.record.config.metadata.name))
                await self.try_save_sandbox(sandbox, phase=SandboxPhase.STOPPED)
                self.publish_event(cri.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox)
            if sandbox.shim is None:
                for container in list(sandbox.containers.values()):
                    async with container.lock:
                        if container.phase is ContainerPhase.RUNNING:
                            await self.reap_lost(container)

    # -- events

    def publish_event(self, kind: "cri.ContainerEventType", object_id: str, sandbox: SandboxEntry | None) -> None:
        """Publish an event of a container or a sandbox."""
        self.events.publish(lambda: cri_views.event(kind, object_id, sandbox, self.clock()))
