"""Start, stop and removal of containers.

A container is started once: the sandbox's shim runs the OCI runtime and owns the process from then on. Stopping sends
the stop signal, waits for the grace period and kills. Stop and removal may be repeated after any failure.

The lock of a container is held to send a signal, never while waiting for its exit: a second stop with a shorter grace
period, or a removal, does not wait for the first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from interpose.cri.messages import cri
from interpose.log import kv
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.oci import signals
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.cri_views import state_name
from interpose.node.runtime.service.errors import failed, wrong_state
from interpose.node.runtime.service.interfaces import PartError, ShimGoneError
from interpose.node.runtime.service.registry import ContainerEntry
from interpose.node.runtime.state.records import ContainerPhase
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
NOT_STARTED_CODE: Final = 128
NOT_STARTED_REASON: Final = "StartError"
# A killed process exits at once, unless it is in an uninterruptible system call.
KILL_TIMEOUT: Final = 10.0


class ContainerLifecycle:
    """The CRI methods StartContainer, StopContainer and RemoveContainer."""

    def __init__(self, core: RuntimeCore, make_folder: Callable[[str, str], Awaitable[None]]) -> None:
        """`make_folder` makes the folder of a log file, for a sandbox."""
        self._core = core
        self._make_folder = make_folder

    async def start(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        """CREATED -> RUNNING, only in a ready sandbox. A failed start is the end of the container."""
        core = self._core
        container = core.registry.container(request.container_id)
        async with container.lock:
            if container.phase is not ContainerPhase.CREATED:
                raise wrong_state(
                    f'failed to start container "{container.id}": container is in {state_name(container)} state'
                )
            shim = container.sandbox.shim
            if not container.sandbox.record.ready or shim is None:
                raise wrong_state(f'sandbox "{container.sandbox.id}" is not ready')
            await core.save_container(container, phase=ContainerPhase.STARTING)
            try:
                if container.record.log_path:
                    await self._make_folder(container.sandbox.id, str(Path(container.record.log_path).parent))
                pid = await shim.run(container.record)
            except Exception as error:
                await self._fail_start(container, error.message if isinstance(error, RpcError) else str(error))
                if isinstance(error, PartError | OSError):
                    raise failed(f'start container "{container.id}"', error) from error
                raise
            await core.try_save_container(container, phase=ContainerPhase.RUNNING, pid=pid, started_at=core.clock())
            core.publish_event(cri.CONTAINER_STARTED_EVENT, container.id, container.sandbox)
            if container.early_exit is not None:
                core.mark_exited(container, container.early_exit)
        return cri.StartContainerResponse()

    async def _fail_start(self, container: ContainerEntry, message: str) -> None:
        """CREATED -> EXITED for a container that never ran; it cannot be started again."""
        core = self._core
        try:
            await core.executor.delete(container.record, force=True)
        except (PartError, OSError) as error:
            container.needs_cleanup = True  # its removal tries again
            _log.warning("Failed to clean up a failed start", extra=kv(container=container.id, err=str(error)))
        await core.try_save_container(
            container,
            phase=ContainerPhase.EXITED,
            finished_at=core.clock(),
            exit_code=NOT_STARTED_CODE,
            reason=NOT_STARTED_REASON,
            message=message,
        )
        container.exited.set()
        core.publish_event(cri.CONTAINER_STOPPED_EVENT, container.id, container.sandbox)

    async def stop(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        """Send the stop signal, wait `timeout` seconds for the exit, then kill; may be repeated."""
        container = self._core.registry.find_container(request.container_id)
        if container is not None:
            if request.timeout > 0 and not await self._send_stop_signal(container):
                return cri.StopContainerResponse()
            if request.timeout > 0:
                await _wait_for_exit(container, request.timeout)
            await kill_container(self._core, container)
        return cri.StopContainerResponse()

    async def _send_stop_signal(self, container: ContainerEntry) -> bool:
        """Send the container's stop signal; False if it does not run."""
        async with container.lock:
            if container.phase is not ContainerPhase.RUNNING:
                return False
            await _signal(self._core, container, container.record.stop_signal)
            return True

    async def remove(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        """Remove a container, running or not; may be repeated."""
        container = self._core.registry.find_container(request.container_id)
        if container is not None:
            await remove_container(self._core, container)
        return cri.RemoveContainerResponse()


async def kill_container(core: RuntimeCore, container: ContainerEntry) -> None:
    """Kill a container with SIGKILL; one that does not run is left alone."""
    async with container.lock:
        await kill_locked(core, container)


async def kill_locked(core: RuntimeCore, container: ContainerEntry) -> None:
    """As `kill_container`; the caller holds its lock. DEADLINE_EXCEEDED if it does not exit."""
    if container.phase is not ContainerPhase.RUNNING:
        return
    await _signal(core, container, signals.KILL)
    if await _wait_for_reported_exit(core, container):
        return
    _log.warning("Container does not exit; killing its cgroup", extra=kv(container=container.id))
    await core.executor.kill_all(container.record)
    if not await _wait_for_reported_exit(core, container):
        raise RpcError(Code.DEADLINE_EXCEEDED, f'container "{container.id}" was killed and has not ended')


async def remove_container(core: RuntimeCore, container: ContainerEntry) -> None:
    """Remove a container; nothing happens if another call has removed it already."""
    async with container.lock:
        if container.id not in core.registry.containers:
            return
        await kill_locked(core, container)
        await core.try_save_container(container, phase=ContainerPhase.REMOVING)
        await remove_from_node(core, container)
        core.registry.discard_container(container)
        core.publish_event(cri.CONTAINER_DELETED_EVENT, container.id, container.sandbox)


async def remove_from_node(core: RuntimeCore, container: ContainerEntry) -> None:
    """Remove a container from OCI runtime, shim and disk. Its record goes last: recovery finds the rest by it."""
    await core.clean_up(container)
    if container.sandbox.shim is not None:
        with suppress(ShimGoneError):
            await container.sandbox.shim.forget(container.id)
    await core.bundles.remove(container.record)
    await core.drop(container.record)


async def _signal(core: RuntimeCore, container: ContainerEntry, number: int) -> None:
    shim = container.sandbox.shim
    try:
        if shim is None:
            raise ShimGoneError("no shim")
        await shim.signal(container.id, number)
    except ShimGoneError:
        # No shim will report its exit: the container is reaped here, whatever the signal was.
        await core.reap_lost(container)


async def _wait_for_reported_exit(core: RuntimeCore, container: ContainerEntry) -> bool:
    """Whether its shim reports the exit in time. If the shim goes away meanwhile the container is reaped here."""
    shim = container.sandbox.shim
    if shim is None:
        return container.exited.is_set()
    waits = TaskBag()
    container_exited = waits.spawn(container.exited.wait(), name=f"end of container {container.id}")
    shim_closed = waits.spawn(shim.wait_closed(), name=f"end of the shim of sandbox {container.sandbox.id}")
    try:
        await asyncio.wait((container_exited, shim_closed), timeout=KILL_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if shim_closed.done() and not container.exited.is_set():
            await core.reap_lost(container)
    finally:
        await waits.cancel()
    return container.exited.is_set()


async def _wait_for_exit(container: ContainerEntry, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await container.exited.wait()
    except TimeoutError:
        return False
    return True
