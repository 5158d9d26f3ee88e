"""Sandboxes: run, stop, remove.

Running is a row of acts after a record; whatever fails, the acts before it are undone in the opposite order. A sandbox
that cannot be undone is kept as NOTREADY, so that whoever asked for it can stop and remove it later.
"""

import logging
from functools import partial

from interpose.cri.messages import cri
from interpose.log import kv
from interpose.node.runtime.oci.resource_patch import patch_resources
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.errors import failed
from interpose.node.runtime.service.interfaces import PartError, ShimCallbacks
from interpose.node.runtime.service.lifecycle import kill_container, remove_container
from interpose.node.runtime.service.registry import SandboxEntry
from interpose.node.runtime.service.validation import check_sandbox
from interpose.node.runtime.state.records import NetworkPlace, SandboxPhase, SandboxRecord

_log = logging.getLogger(__name__)


class SandboxService:
    """The calls that change sandboxes."""

    def __init__(self, core: RuntimeCore, handlers: tuple[str, ...]) -> None:
        self._core = core
        self._handlers = handlers

    async def run(self, request: cri.RunPodSandboxRequest) -> cri.RunPodSandboxResponse:
        """Create and start a sandbox; it is ready when this returns."""
        check_sandbox(request.config, request.runtime_handler, self._handlers, self._core.cgroup_driver)
        core = self._core
        record = self._new_record(request)
        sandbox = SandboxEntry(record=record, visible=False)
        async with sandbox.lock:
            core.registry.add_sandbox(sandbox)
            try:
                await core.save_sandbox(sandbox)
                await self._set_up(sandbox)
            except Exception as error:
                await self._undo(sandbox)
                if isinstance(error, PartError | OSError):
                    raise failed("run sandbox", error) from error
                raise
            sandbox.visible = True
            core.tell(cri.CONTAINER_CREATED_EVENT, sandbox.id, sandbox)
            core.tell(cri.CONTAINER_STARTED_EVENT, sandbox.id, sandbox)
        return cri.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    def _new_record(self, request: cri.RunPodSandboxRequest) -> SandboxRecord:
        config, core = cri.PodSandboxConfig(), self._core
        config.CopyFrom(request.config)
        record = SandboxRecord(
            id="",
            config=config,
            created_at=core.clock(),
            runtime_handler=request.runtime_handler,
            place=self._place(config),
        )
        return SandboxRecord(
            id=core.registry.reserve("sandbox", record.name),
            config=config,
            created_at=record.created_at,
            runtime_handler=record.runtime_handler,
            place=record.place,
            resources=_copy(config.linux.resources),
            overhead=_copy(config.linux.overhead),
        )

    def _place(self, config: cri.PodSandboxConfig) -> NetworkPlace:
        if config.linux.security_context.namespace_options.network == cri.NODE:
            return NetworkPlace.HOST
        return NetworkPlace.POD if self._core.network.configured else NetworkPlace.NODE

    async def _set_up(self, sandbox: SandboxEntry) -> None:
        core = self._core
        await core.ground.lay(sandbox.record)
        ears = ShimCallbacks(exited=core.heard_exit, lost=core.heard_loss)
        sandbox.shim = await core.shims.launch(sandbox.record, ears)
        if not sandbox.holder:
            raise PartError("the process that holds its namespaces has died")
        await core.ground.settle(sandbox.record, sandbox.holder)
        changes: dict[str, object] = {"phase": SandboxPhase.READY}
        if sandbox.record.place is NetworkPlace.POD:
            await core.save_sandbox(sandbox, network_held=True)
            found = await core.network.setup(sandbox.record, sandbox.holder)
            changes |= {"ip": found.ip, "additional_ips": found.additional}
        elif sandbox.record.place is NetworkPlace.NODE:
            changes["ip"] = core.network.node_address()
        await core.save_sandbox(sandbox, **changes)

    async def _undo(self, sandbox: SandboxEntry) -> None:
        try:
            await self.give_back(sandbox)
            await self.forget(sandbox)
        except Exception as error:
            kept = kv(sandbox=sandbox.id, err=str(error))
            _log.exception("Failed to clean up a failed sandbox; kept until it is removed", extra=kept)
            await self._core.note_sandbox(sandbox, phase=SandboxPhase.STOPPED)
            sandbox.visible = True

    # -- the end

    async def stop(self, request: cri.StopPodSandboxRequest) -> cri.StopPodSandboxResponse:
        """End what runs in it and give its network back; may be repeated."""
        sandbox = self._core.registry.find_sandbox(request.pod_sandbox_id)
        if sandbox is not None:
            async with sandbox.lock:
                await self.stop_sandbox(sandbox)
        return cri.StopPodSandboxResponse()

    async def stop_sandbox(self, sandbox: SandboxEntry) -> None:
        """As `stop`; its lock is held."""
        if sandbox.record.phase is SandboxPhase.READY:
            await self._core.note_sandbox(sandbox, phase=SandboxPhase.STOPPED)
            self._core.tell(cri.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox)
        kills = [partial(kill_container, self._core, one) for one in sandbox.containers.values()]
        await self._core.operations.together(f"kill what runs in sandbox {sandbox.id}", kills)
        await self.give_back(sandbox)

    async def give_back(self, sandbox: SandboxEntry) -> None:
        """Network first, while its namespace is there, then holder and shim."""
        core = self._core
        if sandbox.record.network_held:
            await core.network.teardown(sandbox.record, sandbox.holder)
            await core.note_sandbox(sandbox, network_held=False)
        if sandbox.shim is not None:
            await sandbox.shim.stop()
            sandbox.shim = None
            await core.ground.unsettle(sandbox.record)

    async def remove(self, request: cri.RemovePodSandboxRequest) -> cri.RemovePodSandboxResponse:
        """Remove it with all its containers, running or not; may be repeated."""
        sandbox = self._core.registry.find_sandbox(request.pod_sandbox_id)
        if sandbox is not None:
            async with sandbox.lock:
                if sandbox.id in self._core.registry.sandboxes:
                    await self.remove_sandbox(sandbox)
        return cri.RemovePodSandboxResponse()

    async def remove_sandbox(self, sandbox: SandboxEntry) -> None:
        """As `remove`; its lock is held."""
        await self.stop_sandbox(sandbox)
        for container in list(sandbox.containers.values()):
            await remove_container(self._core, container)
        await self._core.note_sandbox(sandbox, phase=SandboxPhase.REMOVING)
        await self.forget(sandbox)
        self._core.tell(cri.CONTAINER_DELETED_EVENT, sandbox.id, None)

    async def forget(self, sandbox: SandboxEntry) -> None:
        """The last of it: ground, record, name."""
        await self._core.ground.clear(sandbox.record)
        await self._core.drop(sandbox.record)
        self._core.registry.discard_sandbox(sandbox)

    # -- resources

    async def update(self, request: cri.UpdatePodSandboxResourcesRequest) -> cri.UpdatePodSandboxResourcesResponse:
        """What the pod as a whole has now. Its cgroup is the caller's, who has changed it already: only noted."""
        sandbox = self._core.registry.sandbox(request.pod_sandbox_id)
        async with sandbox.lock:
            resources, overhead = _copy(sandbox.record.resources), _copy(sandbox.record.overhead)
            patch_resources(resources, request.resources)
            patch_resources(overhead, request.overhead)
            await self._core.save_sandbox(sandbox, resources=resources, overhead=overhead)
        return cri.UpdatePodSandboxResourcesResponse()


def _copy(message: cri.LinuxContainerResources) -> cri.LinuxContainerResources:
    copy = cri.LinuxContainerResources()
    copy.CopyFrom(message)
    return copy
