"""Recovery at the start: what the previous process left is put in order before the first call is answered.

Half created objects are undone, half removed ones removed, living shims found again. A container without a shim is
killed by its cgroup and marked as exited. Orphans, which are on the node and in no record, are removed. A record that
cannot be read fails the start, because its object would be removed as an orphan. Nothing else does: an object that
cannot be recovered now is kept, listed, and can be removed by a client.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from interpose.log import kv
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.interfaces import PartError, ShimCallbacks, ShimGoneError, ShimState
from interpose.node.runtime.service.lifecycle import remove_from_node
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.service.sandboxes import SandboxService
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, SandboxPhase, SandboxRecord

_log = logging.getLogger(__name__)
_START_TIMEOUT: Final = 10.0
_START_PAUSE: Final = 0.02


class StateRecovery:
    """Recovers the state of the previous process, once."""

    def __init__(self, core: RuntimeCore, sandboxes: SandboxService) -> None:
        self._core = core
        self._sandboxes = sandboxes

    async def run(self) -> None:
        """Fill the registry from the records, and make the node match them."""
        core = self._core
        core.records.prepare()
        sandboxes, containers = core.records.load(SandboxRecord), core.records.load(ContainerRecord)
        for record in sorted(sandboxes.values(), key=lambda record: record.created_at):
            core.registry.add_sandbox(SandboxEntry(record=record))
        orphans = []
        for found in sorted(containers.values(), key=lambda record: record.created_at):
            owner = core.registry.sandboxes.get(found.sandbox_id)
            if owner is None:
                orphans.append(found)
            else:
                core.registry.add_container(ContainerEntry(record=found, sandbox=owner))
        # READY is written after the last plugin was done, and taken back before the first one undoes it.
        ready = [entry.id for entry in core.registry.sandboxes.values() if entry.record.phase is SandboxPhase.READY]
        await _tolerate(partial(core.network.kill_orphan_plugins, ready))
        works = [partial(self._recover_sandbox, sandbox) for sandbox in core.registry.sandboxes.values()]
        works += [partial(self._remove_orphan, record) for record in orphans]
        await core.operations.run_all("recovery", [partial(_tolerate, work) for work in works])
        await _tolerate(self._remove_orphans)
        if sandboxes or containers:
            counts = {"sandboxes": len(core.registry.sandboxes), "containers": len(core.registry.containers)}
            _log.info("Recovered state of the previous process", extra=kv(**counts))

    async def _recover_sandbox(self, sandbox: SandboxEntry) -> None:
        async with sandbox.lock:
            states = await self._find_shim(sandbox)
            for container in list(sandbox.containers.values()):
                await _tolerate(partial(self._recover_container, container, states))
            if sandbox.record.phase in (SandboxPhase.CREATING, SandboxPhase.REMOVING):
                await self._sandboxes.remove_sandbox(sandbox)
            elif sandbox.record.phase is SandboxPhase.READY and not sandbox.pause_pid:
                await self._core.try_save_sandbox(sandbox, phase=SandboxPhase.STOPPED)
            elif sandbox.record.phase is SandboxPhase.STOPPED:
                # StopPodSandbox was called and perhaps not finished.
                await self._sandboxes.stop_sandbox(sandbox)

    async def _find_shim(self, sandbox: SandboxEntry) -> Mapping[str, ShimState]:
        core = self._core
        callbacks = ShimCallbacks(on_exit=core.on_container_exit, on_lost=core.on_sandbox_lost)
        try:
            sandbox.shim = await core.shims.attach(sandbox.id, callbacks)
            return await sandbox.shim.states()
        except ShimGoneError:
            sandbox.shim = None
        return {}

    async def _recover_container(self, container: ContainerEntry, states: Mapping[str, ShimState]) -> None:
        core = self._core
        async with container.lock:
            if container.phase in (ContainerPhase.CREATING, ContainerPhase.REMOVING):
                await self._remove(container)
            elif container.phase in (ContainerPhase.STARTING, ContainerPhase.RUNNING):
                await self._recover_running(container, states.get(container.id))
            elif container.phase is ContainerPhase.EXITED:
                container.exited.set()
                container.needs_cleanup = True
                await core.clean_up(container)

    async def _recover_running(self, container: ContainerEntry, state: ShimState | None) -> None:
        core = self._core
        if state is not None and state.pid == 0 and state.exited is None:
            state = await self._wait_for_start(container)
        if state is None:
            await core.reap_lost(container)
            return
        changes = {
            "phase": ContainerPhase.RUNNING,
            "pid": state.pid,
            "started_at": container.record.started_at or state.started_at or core.clock(),
        }
        if any(getattr(container.record, name) != value for name, value in changes.items()):
            await core.try_save_container(container, **changes)
        end = state.exited or container.early_exit
        if end is not None:
            core.mark_exited(container, end)

    async def _wait_for_start(self, container: ContainerEntry) -> ShimState | None:
        """Wait for a start that the previous process asked for; None if the container does not start."""
        shim, deadline = container.sandbox.shim, asyncio.get_running_loop().time() + _START_TIMEOUT
        while shim is not None and asyncio.get_running_loop().time() < deadline:
            state = (await shim.states()).get(container.id)
            if state is None or state.pid or state.exited is not None:
                return state
            await asyncio.sleep(_START_PAUSE)
        return None

    async def _remove(self, container: ContainerEntry) -> None:
        core = self._core
        await core.executor.kill_all(container.record)
        await core.executor.delete(container.record, force=True)
        await remove_from_node(core, container)
        core.registry.discard_container(container)

    async def _remove_orphan(self, record: ContainerRecord) -> None:
        """Remove a container whose sandbox is unknown: no client could ever name it."""
        core = self._core
        await core.executor.kill_all(record)
        await core.executor.delete(record, force=True)
        await core.bundles.remove(record)
        await core.drop(record)

    async def _remove_orphans(self) -> None:
        """Remove what is in no record, left by a record that was corrupt."""
        core = self._core
        for container_id in await core.bundles.find_orphans(core.registry.containers):
            _log.warning("Removing leftovers of an unknown container", extra=kv(container=container_id))
            await _tolerate(partial(core.bundles.remove_orphan, container_id))
        known = core.registry.sandboxes
        for sandbox_id in sorted(
            {*await core.sandbox_files.find_orphans(known), *await core.shims.find_orphans(known)}
        ):
            _log.warning("Removing leftovers of an unknown sandbox", extra=kv(sandbox=sandbox_id))
            await _tolerate(partial(self._remove_orphan_sandbox, sandbox_id))
        for sandbox_id in await core.network.find_orphans(core.registry.sandboxes):
            await _tolerate(partial(core.network.remove_orphan, sandbox_id))

    async def _remove_orphan_sandbox(self, sandbox_id: str) -> None:
        core = self._core
        try:
            shim = await core.shims.attach(
                sandbox_id, ShimCallbacks(on_exit=lambda _id, _end: None, on_lost=lambda _id: None)
            )
            await shim.stop()
        except ShimGoneError:
            pass
        await core.sandbox_files.remove_orphan(sandbox_id)


async def _tolerate(work: Callable[[], Awaitable[object]]) -> None:
    """Log an error: an object that cannot be recovered does not keep us from the others."""
    try:
        await work()
    except (PartError, OSError) as error:
        _log.error("Recovery incomplete", extra=kv(err=str(error)))
    except Exception:
        _log.exception("Recovery incomplete")
