"""Removing containers: end them if they run, then give back everything. May be repeated after any failure."""

from contextlib import suppress

from interpose.cri.messages import cri
from interpose.node.runtime.service.core import Core
from interpose.node.runtime.service.interfaces import ShimGoneError
from interpose.node.runtime.service.lifecycle import kill_locked
from interpose.node.runtime.service.objects import Container
from interpose.node.runtime.state.records import ContainerPhase


class Removing:
    """The call that removes containers."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def remove(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        """Remove it, running or not."""
        container = self._core.registry.find_container(request.container_id)
        if container is not None:
            await remove_container(self._core, container)
        return cri.RemoveContainerResponse()


async def remove_container(core: Core, container: Container) -> None:
    """Remove a container; nothing happens if somebody else was faster."""
    async with container.lock:
        if container.id not in core.registry.containers:
            return
        await kill_locked(core, container)
        await core.note_container(container, phase=ContainerPhase.REMOVING)
        await clear_container(core, container)
        core.registry.discard_container(container)
        core.tell(cri.CONTAINER_DELETED_EVENT, container.id, container.sandbox)


async def clear_container(core: Core, container: Container) -> None:
    """Everything that a container has outside of memory. Its record goes last: the next start finds the rest."""
    await core.tidy(container)
    if container.sandbox.shim is not None:
        with suppress(ShimGoneError):
            await container.sandbox.shim.forget(container.id)
    await core.bundles.clear(container.record)
    await core.drop(container.record)
