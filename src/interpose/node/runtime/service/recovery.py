"""The start: what a process before us left is put in order before the first call is answered.

Half made things are undone, half removed ones removed, living shims found again. What has no shim any more is ended by
its cgroup and marked as exited. Whatever is on the node and in no record is swept away. A record that cannot be read
fails the start, for what it is about would be swept away. Nothing else does: what cannot be repaired now is kept,
shown, and can be removed by whoever asks for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from interpose.log import kv
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.interfaces import PartError, ShimCallbacks, ShimGoneError, ShimState
from interpose.node.runtime.service.lifecycle import clear_container
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.service.sandboxes import SandboxService
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, SandboxPhase, SandboxRecord

_log = logging.getLogger(__name__)
_START_PATIENCE: Final = 10.0
_START_PAUSE: Final = 0.02


class StateRecovery:
    """One start."""

    def __init__(self, core: RuntimeCore, sandboxes: SandboxService) -> None:
        self._core = core
        self._sandboxes = sandboxes

    async def run(self) -> None:
        """Fill the registry from the records; everything in it is what it says then."""
        core = self._core
        core.records.prepare()
        sandboxes, containers = core.records.load(SandboxRecord), core.records.load(ContainerRecord)
        for record in sorted(sandboxes.values(), key=lambda one: one.created_at):
            core.registry.add_sandbox(SandboxEntry(record=record))
        orphans = []
        for found in sorted(containers.values(), key=lambda one: one.created_at):
            owner = core.registry.sandboxes.get(found.sandbox_id)
            if owner is None:
                orphans.append(found)
            else:
                core.registry.add_container(ContainerEntry(record=found, sandbox=owner))
        # READY is written after the last plugin was done, and taken back before the first one undoes it.
        settled = [one.id for one in core.registry.sandboxes.values() if one.record.phase is SandboxPhase.READY]
        await _tolerant(partial(core.network.end_strays, settled))
        works = [partial(self._sandbox, one) for one in core.registry.sandboxes.values()]
        works += [partial(self._orphan, one) for one in orphans]
        await core.operations.together("repair", [partial(_tolerant, one) for one in works])
        await _tolerant(self._sweep)
        if sandboxes or containers:
            counts = {"sandboxes": len(core.registry.sandboxes), "containers": len(core.registry.containers)}
            _log.info("Recovered state of the previous process", extra=kv(**counts))

    async def _sandbox(self, sandbox: SandboxEntry) -> None:
        async with sandbox.lock:
            states = await self._find_shim(sandbox)
            for container in list(sandbox.containers.values()):
                await _tolerant(partial(self._container, container, states))
            if sandbox.record.phase in (SandboxPhase.CREATING, SandboxPhase.REMOVING):
                await self._sandboxes.remove_sandbox(sandbox)
            elif sandbox.record.phase is SandboxPhase.READY and not sandbox.holder:
                await self._core.note_sandbox(sandbox, phase=SandboxPhase.STOPPED)
            elif sandbox.record.phase is SandboxPhase.STOPPED:
                # Asked to stop, and perhaps not done with it.
                await self._sandboxes.stop_sandbox(sandbox)

    async def _find_shim(self, sandbox: SandboxEntry) -> Mapping[str, ShimState]:
        core = self._core
        ears = ShimCallbacks(exited=core.heard_exit, lost=core.heard_loss)
        try:
            sandbox.shim = await core.shims.attach(sandbox.id, ears)
            return await sandbox.shim.states()
        except ShimGoneError:
            sandbox.shim = None
        return {}

    async def _container(self, container: ContainerEntry, states: Mapping[str, ShimState]) -> None:
        core = self._core
        async with container.lock:
            if container.phase in (ContainerPhase.CREATING, ContainerPhase.REMOVING):
                await self._remove(container)
            elif container.phase in (ContainerPhase.STARTING, ContainerPhase.RUNNING):
                await self._was_running(container, states.get(container.id))
            elif container.phase is ContainerPhase.EXITED:
                container.exited.set()
                container.untidy = True
                await core.tidy(container)

    async def _was_running(self, container: ContainerEntry, state: ShimState | None) -> None:
        core = self._core
        if state is not None and state.pid == 0 and state.exited is None:
            state = await self._started(container)
        if state is None:
            await core.bury(container)
            return
        changes = {
            "phase": ContainerPhase.RUNNING,
            "pid": state.pid,
            "started_at": container.record.started_at or state.started_at or core.clock(),
        }
        if any(getattr(container.record, name) != value for name, value in changes.items()):
            await core.note_container(container, **changes)
        end = state.exited or container.early
        if end is not None:
            core.ended(container, end)

    async def _started(self, container: ContainerEntry) -> ShimState | None:
        """The process before us asked for a start that is still under way: what comes of it; None if nothing does."""
        shim, deadline = container.sandbox.shim, asyncio.get_running_loop().time() + _START_PATIENCE
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
        await clear_container(core, container)
        core.registry.discard_container(container)

    async def _orphan(self, record: ContainerRecord) -> None:
        """A container whose sandbox is not known: nobody could ever ask for it."""
        core = self._core
        await core.executor.kill_all(record)
        await core.executor.delete(record, force=True)
        await core.bundles.clear(record)
        await core.drop(record)

    async def _sweep(self) -> None:
        """What no record knows, left by a record that could not be read."""
        core = self._core
        for container_id in await core.bundles.sweep(core.registry.containers):
            _log.warning("Removing leftovers of an unknown container", extra=kv(container=container_id))
            await _tolerant(partial(core.bundles.sweep_away, container_id))
        known = core.registry.sandboxes
        for sandbox_id in sorted({*await core.ground.sweep(known), *await core.shims.sweep(known)}):
            _log.warning("Removing leftovers of an unknown sandbox", extra=kv(sandbox=sandbox_id))
            await _tolerant(partial(self._sweep_sandbox, sandbox_id))
        for sandbox_id in await core.network.sweep(core.registry.sandboxes):
            await _tolerant(partial(core.network.sweep_away, sandbox_id))

    async def _sweep_sandbox(self, sandbox_id: str) -> None:
        core = self._core
        try:
            shim = await core.shims.attach(
                sandbox_id, ShimCallbacks(exited=lambda _id, _end: None, lost=lambda _id: None)
            )
            await shim.stop()
        except ShimGoneError:
            pass
        await core.ground.sweep_away(sandbox_id)


async def _tolerant(work: Callable[[], Awaitable[object]]) -> None:
    """One thing that cannot be repaired does not keep us from the others."""
    try:
        await work()
    except (PartError, OSError) as error:
        _log.error("Recovery incomplete", extra=kv(err=str(error)))
    except Exception:
        _log.exception("Recovery incomplete")
