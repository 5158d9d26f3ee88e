"""Containers: create, and update resources.

CreateContainer writes a record, holds the image, and makes a root file system and a configuration for the OCI runtime;
nothing runs yet. If a step fails the container is undone, and its name is free again.
"""

import logging
from dataclasses import replace

from interpose.cri.messages import cri
from interpose.log import kv
from interpose.node.runtime.oci.resource_patch import patch_resources
from interpose.node.runtime.oci.resources import cgroup_directory
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.cri_views import state_name
from interpose.node.runtime.service.errors import failed, invalid, not_found, wrong_state
from interpose.node.runtime.service.interfaces import PartError
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.service.validation import check_container, check_update
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, UsedImage

_log = logging.getLogger(__name__)


class ContainerService:
    """The calls that create and update containers."""

    def __init__(self, core: RuntimeCore) -> None:
        self._core = core

    async def create(self, request: cri.CreateContainerRequest) -> cri.CreateContainerResponse:
        """Create a container in a ready sandbox."""
        core = self._core
        sandbox = core.registry.sandbox(request.pod_sandbox_id)
        check_container(request.config, sandbox.record.config.log_directory)
        spec = request.config.image
        image = await core.bundles.find_image(spec.image, spec.user_specified_image)
        if image is None:
            raise not_found("image", spec.image)
        target_pid = self._target_pid(sandbox, request.config)
        async with sandbox.lock:
            if not sandbox.record.ready or sandbox.id not in core.registry.sandboxes:
                raise wrong_state(f'sandbox "{sandbox.id}" is not ready')
            container = self._add_entry(sandbox, request.config, image)
            await container.lock.acquire()  # no other call knows the container yet
        try:
            await self._create_bundle(container, target_pid)
            container.visible = True
            core.publish_event(cri.CONTAINER_CREATED_EVENT, container.id, sandbox)
        finally:
            container.lock.release()
        return cri.CreateContainerResponse(container_id=container.id)

    def _add_entry(self, sandbox: SandboxEntry, requested: cri.ContainerConfig, image: UsedImage) -> ContainerEntry:
        config = cri.ContainerConfig()
        config.CopyFrom(requested)
        resources = cri.LinuxContainerResources()
        resources.CopyFrom(config.linux.resources)
        pod, meta = sandbox.record.config, config.metadata
        name = f"{meta.name}_{pod.metadata.name}_{pod.metadata.namespace}_{pod.metadata.uid}_{meta.attempt}"
        has_log = pod.log_directory and config.log_path
        container_id = self._core.registry.reserve("container", name)
        record = ContainerRecord(
            id=container_id,
            sandbox_id=sandbox.id,
            name=name,
            config=config,
            image=image,
            created_at=self._core.clock(),
            cgroup=cgroup_directory(pod.linux.cgroup_parent, container_id, self._core.cgroup_driver),
            log_path=f"{pod.log_directory.rstrip('/')}/{config.log_path.lstrip('/')}" if has_log else "",
            resources=resources,
        )
        container = ContainerEntry(record=record, sandbox=sandbox, visible=False)
        self._core.registry.add_container(container)
        return container

    def _target_pid(self, sandbox: SandboxEntry, config: cri.ContainerConfig) -> int:
        """The process whose PID namespace the container is to join; 0 if the config names none."""
        options = config.linux.security_context.namespace_options
        if options.pid != cri.TARGET:
            return 0
        target = self._core.registry.container(options.target_id)
        field = "config.linux.security_context.namespace_options.target_id"
        if target.record.sandbox_id != sandbox.id:
            raise invalid(field, f'container "{target.id}" is in another sandbox')
        if not target.record.running:
            raise wrong_state(f"{field}: container is in {state_name(target)} state")
        return target.record.pid

    async def _create_bundle(self, container: ContainerEntry, target_pid: int) -> None:
        core, sandbox = self._core, container.sandbox
        try:
            await core.save_container(container)
            bundle = await core.bundles.create(container.record, sandbox.record, sandbox.pause_pid, target_pid)
            await core.save_container(
                container, phase=ContainerPhase.CREATED, user=bundle.user, stop_signal=bundle.stop_signal
            )
        except Exception as error:
            await self._undo(container)
            if isinstance(error, PartError | OSError):
                raise failed("create container", error) from error
            raise

    async def _undo(self, container: ContainerEntry) -> None:
        try:
            await self._core.bundles.remove(container.record)
            await self._core.drop(container.record)
            self._core.registry.discard_container(container)
        except Exception as error:
            details = kv(container=container.id, err=str(error))
            _log.exception("Failed to clean up a failed container; kept until it is removed", extra=details)
            container.record = replace(container.record, phase=ContainerPhase.REMOVING)
            container.visible = True

    async def update(self, request: cri.UpdateContainerResourcesRequest) -> cri.UpdateContainerResourcesResponse:
        """Change the resources of a container; fields that the request does not set stay. Undone if it fails."""
        core = self._core
        container = core.registry.container(request.container_id)
        check_update(request)
        async with container.lock:
            if container.phase in (ContainerPhase.REMOVING, ContainerPhase.EXITED):
                raise wrong_state(f'container "{container.id}" is in {state_name(container)} state')
            resources = cri.LinuxContainerResources()
            resources.CopyFrom(container.record.resources)
            patch_resources(resources, request.linux)
            try:
                await self._apply(container, resources)
                await core.save_container(container, resources=resources)
            except (PartError, OSError) as error:
                await self._restore_resources(container)
                raise failed(f'update resources of container "{container.id}"', error) from error
        return cri.UpdateContainerResourcesResponse()

    async def _apply(self, container: ContainerEntry, resources: cri.LinuxContainerResources) -> None:
        document = await self._core.bundles.update_resources(container.record, resources)
        if container.phase is ContainerPhase.RUNNING:
            await self._core.executor.update(container.record, document)

    async def _restore_resources(self, container: ContainerEntry) -> None:
        """Apply the resources of the record again, after an update failed half way."""
        try:
            await self._apply(container, container.record.resources)
        except (PartError, OSError) as error:
            _log.warning("Failed to restore resources", extra=kv(container=container.id, err=str(error)))
