"""Stopping containers: ask, wait, insist.

The lock of a container is held to send a signal, never while waiting for its end: a second stop with a shorter grace,
or a removal, does not have to wait for the first.
"""

import asyncio
import logging
from typing import Final

from interpose.cri.messages import cri
from interpose.log import kv
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.oci import signals
from interpose.node.runtime.service.core import Core
from interpose.node.runtime.service.interfaces import ShimGoneError
from interpose.node.runtime.service.objects import Container
from interpose.node.runtime.state.records import ContainerPhase
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
# A killed process ends at once, unless the kernel has it in the middle of something.
KILL_PATIENCE: Final = 10.0


class Stopping:
    """The call that stops containers."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def stop(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        """With its own signal and so many seconds, then without asking; may be repeated."""
        container = self._core.registry.find_container(request.container_id)
        if container is not None:
            if request.timeout > 0 and not await self._ask(container):
                return cri.StopContainerResponse()
            if request.timeout > 0:
                await _ended_within(container, request.timeout)
            await kill_container(self._core, container)
        return cri.StopContainerResponse()

    async def _ask(self, container: Container) -> bool:
        """Send its stop signal; False if it does not run."""
        async with container.lock:
            if container.phase is not ContainerPhase.RUNNING:
                return False
            await _signal(self._core, container, container.record.stop_signal)
            return True


async def kill_container(core: Core, container: Container) -> None:
    """End a container without asking; one that does not run is left alone."""
    async with container.lock:
        await kill_locked(core, container)


async def kill_locked(core: Core, container: Container) -> None:
    """As `kill_container`; its lock is held."""
    if container.phase is not ContainerPhase.RUNNING:
        return
    await _signal(core, container, signals.KILL)
    if await _told_of_the_end(core, container):
        return
    _log.warning("Container does not exit; killing its cgroup", extra=kv(container=container.id))
    await core.executor.kill_all(container.record)
    if not await _told_of_the_end(core, container):
        raise RpcError(Code.DEADLINE_EXCEEDED, f'container "{container.id}" was killed and has not ended')


async def _signal(core: Core, container: Container, number: int) -> None:
    shim = container.sandbox.shim
    try:
        if shim is None:
            raise ShimGoneError("no shim")
        await shim.signal(container.id, number)
    except ShimGoneError:
        # Nobody will ever tell of its end: see to it, whatever the signal was.
        await core.bury(container)


async def _told_of_the_end(core: Core, container: Container) -> bool:
    """Whether its shim tells in time that it ended. One that is gone tells nothing: then it is seen to here."""
    shim = container.sandbox.shim
    if shim is None:
        return container.exited.is_set()
    waits = TaskBag()
    ended = waits.spawn(container.exited.wait(), name=f"end of container {container.id}")
    gone = waits.spawn(shim.gone(), name=f"end of the shim of sandbox {container.sandbox.id}")
    try:
        await asyncio.wait((ended, gone), timeout=KILL_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if gone.done() and not container.exited.is_set():
            await core.bury(container)
    finally:
        await waits.cancel()
    return container.exited.is_set()


async def _ended_within(container: Container, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await container.exited.wait()
    except TimeoutError:
        return False
    return True
