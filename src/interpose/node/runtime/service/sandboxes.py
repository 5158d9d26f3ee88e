"""Sandboxes: run, stop, remove.

RunPodSandbox writes a record, then does its steps; if one fails, the steps before it are undone in the opposite order.
A sandbox that cannot be undone is kept as NOTREADY, so that the client can stop and remove it later.
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
from interpose.node.runtime.state.records import NetworkMode, SandboxPhase, SandboxRecord

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
            core.publish_event(cri.CONTAINER_CREATED_EVENT, sandbox.id, sandbox)
            core.publish_event(cri.CONTAINER_STARTED_EVENT, sandbox.id, sandbox)
        return cri.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    def _new_record(self, request: cri.RunPodSandboxRequest) -> SandboxRecord:
        config, core = cri.PodSandboxConfig(), self._core
        config.CopyFrom(request.config)
        record = SandboxRecord(
            id="",
            config=config,
            created_at=core.clock(),
            runtime_handler=request.runtime_handler,
            place=self._network_mode(config),
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

    def _network_mode(self, config: cri.PodSandboxConfig) -> NetworkMode:
        if config.linux.security_context.namespace_options.network == cri.NODE:
            return NetworkMode.HOST
        return NetworkMode.POD if self._core.network.configured else NetworkMode.NODE

    async def _set_up(self, sandbox: SandboxEntry) -> None:
        core = self._core
        await core.sandbox_files.create(sandbox.record)
        callbacks = ShimCallbacks(on_exit=core.on_container_exit, on_lost=core.on_sandbox_lost)
        sandbox.shim = await core.shims.launch(sandbox.record, callbacks)
        if not sandbox.pause_pid:
            raise PartError("the process that holds its namespaces has died")
        await core.sandbox_files.attach(sandbox.record, sandbox.pause_pid)
        changes: dict[str, object] = {"phase": SandboxPhase.READY}
        if sandbox.record.place is NetworkMode.POD:
            await core.save_sandbox(sandbox, network_held=True)
            found = await core.network.setup(sandbox.record, sandbox.pause_pid)
            changes |= {"ip": found.ip, "additional_ips": found.additional}
        elif sandbox.record.place is NetworkMode.NODE:
            changes["ip"] = core.network.node_address()
        await core.save_sandbox(sandbox, **changes)

    async def _undo(self, sandbox: SandboxEntry) -> None:
        try:
            await self.tear_down(sandbox)
            await self.forget(sandbox)
        except Exception as error:
            details = kv(sandbox=sandbox.id, err=str(error))
            _log.exception("Failed to clean up a failed sandbox; kept until it is removed", extra=details)
            await self._core.try_save_sandbox(sandbox, phase=SandboxPhase.STOPPED)
            sandbox.visible = True

    # -- the end

    async def stop(self, request: cri.StopPodSandboxRequest) -> cri.StopPodSandboxResponse:
        """Kill the containers of a sandbox and tear down its network; may be repeated."""
        sandbox = self._core.registry.find_sandbox(request.pod_sandbox_id)
        if sandbox is not None:
            async with sandbox.lock:
                await self.stop_sandbox(sandbox)
        return cri.StopPodSandboxResponse()

    async def stop_sandbox(self, sandbox: SandboxEntry) -> None:
        """As `stop`; the caller holds the sandbox's lock."""
        if sandbox.record.phase is SandboxPhase.READY:
            await self._core.try_save_sandbox(sandbox, phase=SandboxPhase.STOPPED)
            self._core.publish_event(cri.CONTAINER_STOPPED_EVENT, sandbox.id, sandbox)
        kills = [partial(kill_container, self._core, container) for container in sandbox.containers.values()]
        await self._core.operations.run_all(f"kill containers of sandbox {sandbox.id}", kills)
        await self.tear_down(sandbox)

    async def tear_down(self, sandbox: SandboxEntry) -> None:
        """Tear down the network while its namespace exists, then pause process and shim."""
        core = self._core
        if sandbox.record.network_held:
            await core.network.teardown(sandbox.record, sandbox.pause_pid)
            await core.try_save_sandbox(sandbox, network_held=False)
        if sandbox.shim is not None:
            await sandbox.shim.stop()
            sandbox.shim = None
            await core.sandbox_files.detach(sandbox.record)

    async def remove(self, request: cri.RemovePodSandboxRequest) -> cri.RemovePodSandboxResponse:
        """Remove a sandbox with all its containers, running or not; may be repeated."""
        sandbox = self._core.registry.find_sandbox(request.pod_sandbox_id)
        if sandbox is not None:
            async with sandbox.lock:
                if sandbox.id in self._core.registry.sandboxes:
                    await self.remove_sandbox(sandbox)
        return cri.RemovePodSandboxResponse()

    async def remove_sandbox(self, sandbox: SandboxEntry) -> None:
        """As `remove`; the caller holds the sandbox's lock."""
        await self.stop_sandbox(sandbox)
        for container in list(sandbox.containers.values()):
            await remove_container(self._core, container)
        await self._core.try_save_sandbox(sandbox, phase=SandboxPhase.REMOVING)
        await self.forget(sandbox)
        self._core.publish_event(cri.CONTAINER_DELETED_EVENT, sandbox.id, None)

    async def forget(self, sandbox: SandboxEntry) -> None:
        """Remove the last of a sandbox: files, record, name."""
        await self._core.sandbox_files.remove(sandbox.record)
        await self._core.drop(sandbox.record)
        self._core.registry.discard_sandbox(sandbox)

    # -- resources

    async def update(self, request: cri.UpdatePodSandboxResourcesRequest) -> cri.UpdatePodSandboxResourcesResponse:
        """Record the resources of the whole pod. Its cgroup belongs to the kubelet, which has changed it already."""
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
