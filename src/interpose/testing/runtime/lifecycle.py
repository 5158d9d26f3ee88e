"""The calls that change a fake node: run, create, start, stop, remove, update, checkpoint, restore.

Stop and Remove of something absent succeed, as CRI asks; every other call answers NOT_FOUND.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.oci.resource_patch import patch_resources
from interpose.testing.runtime.images import ImageStore
from interpose.testing.runtime.methods import Methods, UnaryMethod
from interpose.testing.runtime.state import (
    EXIT_KILLED,
    EXIT_TERMINATED,
    FakeContainer,
    FakeSandbox,
    NodeState,
    Observer,
    state_name,
)


@dataclass(slots=True)
class Health:
    """What the node says about itself; tests turn the switches."""

    runtime_ready: bool = True
    network_ready: bool = True


class Lifecycle:
    """Methods that change sandboxes and containers."""

    def __init__(
        self,
        state: NodeState,
        images: ImageStore,
        health: Health,
        runtime_handlers: Collection[str],
        observer: Observer | None = None,
    ) -> None:
        self._state = state
        self._observer = observer
        self._images = images
        self._health = health
        self._runtime_handlers = frozenset(("", *runtime_handlers))
        self._checkpoints: dict[str, list[cri.ContainerConfig]] = {}

    def methods(self) -> Methods:
        """The part of the method table that lives here."""
        return {
            "RunPodSandbox": UnaryMethod(cri.RunPodSandboxRequest, self.run_pod_sandbox),
            "StopPodSandbox": UnaryMethod(cri.StopPodSandboxRequest, self.stop_pod_sandbox),
            "RemovePodSandbox": UnaryMethod(cri.RemovePodSandboxRequest, self.remove_pod_sandbox),
            "CreateContainer": UnaryMethod(cri.CreateContainerRequest, self.create_container),
            "StartContainer": UnaryMethod(cri.StartContainerRequest, self.start_container, self.begin_start),
            "StopContainer": UnaryMethod(cri.StopContainerRequest, self.stop_container),
            "RemoveContainer": UnaryMethod(cri.RemoveContainerRequest, self.remove_container),
            "UpdateContainerResources": UnaryMethod(
                cri.UpdateContainerResourcesRequest, self.update_container_resources
            ),
            "UpdatePodSandboxResources": UnaryMethod(
                cri.UpdatePodSandboxResourcesRequest, self.update_pod_sandbox_resources
            ),
            "ReopenContainerLog": UnaryMethod(cri.ReopenContainerLogRequest, self.reopen_container_log),
            "CheckpointContainer": UnaryMethod(cri.CheckpointContainerRequest, self.checkpoint_container),
            "CheckpointPod": UnaryMethod(cri.CheckpointPodRequest, self.checkpoint_pod),
            "RestorePod": UnaryMethod(cri.RestorePodRequest, self.restore_pod),
        }

    def run_pod_sandbox(self, request: cri.RunPodSandboxRequest) -> cri.RunPodSandboxResponse:
        return cri.RunPodSandboxResponse(pod_sandbox_id=self._run(request.config, request.runtime_handler).id)

    def stop_pod_sandbox(self, request: cri.StopPodSandboxRequest) -> cri.StopPodSandboxResponse:
        sandbox = self._known_sandbox(request.pod_sandbox_id)
        if sandbox is not None:
            self._state.stop_sandbox(sandbox)
        return cri.StopPodSandboxResponse()

    def remove_pod_sandbox(self, request: cri.RemovePodSandboxRequest) -> cri.RemovePodSandboxResponse:
        sandbox = self._known_sandbox(request.pod_sandbox_id)
        if sandbox is not None:
            self._state.remove_sandbox(sandbox)
        return cri.RemovePodSandboxResponse()

    def create_container(self, request: cri.CreateContainerRequest) -> cri.CreateContainerResponse:
        sandbox = self._state.sandbox(request.pod_sandbox_id)
        return cri.CreateContainerResponse(container_id=self._create(sandbox, request.config).id)

    def begin_start(self, request: cri.StartContainerRequest) -> None:
        """As containerd: what an update changes before the start has ended has no effect on its process."""
        self._state.begin_start(self._state.container(request.container_id))

    def start_container(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        self._state.start_container(self._state.container(request.container_id))
        return cri.StartContainerResponse()

    def stop_container(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        container = self._known_container(request.container_id)
        if container is not None:
            # Without a grace period a runtime kills at once.
            self._state.exit_container(container, EXIT_TERMINATED if request.timeout > 0 else EXIT_KILLED)
        return cri.StopContainerResponse()

    def remove_container(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        container = self._known_container(request.container_id)
        if container is not None:
            self._state.remove_container(container)
        return cri.RemoveContainerResponse()

    def update_container_resources(
        self, request: cri.UpdateContainerResourcesRequest
    ) -> cri.UpdateContainerResourcesResponse:
        container = self._state.container(request.container_id)
        if self._observer is not None:
            self._observer.updating(container, request.linux)
        patch_resources(container.resources, request.linux)
        if container.state == cri.CONTAINER_RUNNING:
            patch_resources(container.in_force, request.linux)
        return cri.UpdateContainerResourcesResponse()

    def update_pod_sandbox_resources(
        self, request: cri.UpdatePodSandboxResourcesRequest
    ) -> cri.UpdatePodSandboxResourcesResponse:
        sandbox = self._state.sandbox(request.pod_sandbox_id)
        patch_resources(sandbox.resources, request.resources)
        patch_resources(sandbox.overhead, request.overhead)
        return cri.UpdatePodSandboxResourcesResponse()

    def reopen_container_log(self, request: cri.ReopenContainerLogRequest) -> cri.ReopenContainerLogResponse:
        self._running(request.container_id).log_reopened += 1
        return cri.ReopenContainerLogResponse()

    def checkpoint_container(self, request: cri.CheckpointContainerRequest) -> cri.CheckpointContainerResponse:
        container = self._running(request.container_id)
        self._checkpoints[_required("location", request.location)] = [container.config]
        return cri.CheckpointContainerResponse()

    def checkpoint_pod(self, request: cri.CheckpointPodRequest) -> cri.CheckpointPodResponse:
        """Freeze the named containers of a pod, or all that run; kept in memory under the output path."""
        sandbox = self._state.sandbox(request.pod_sandbox_id)
        path = _required("output_path", request.output_path)
        if request.container_ids:
            chosen = [self._running(container_id) for container_id in request.container_ids]
        else:
            chosen = [
                container
                for container in self._state.containers_of(sandbox)
                if container.state == cri.CONTAINER_RUNNING
            ]
        for container in chosen:
            if container.sandbox_id != sandbox.id:
                raise RpcError(
                    Code.INVALID_ARGUMENT, f'container_ids: "{container.id}" is not in sandbox "{sandbox.id}"'
                )
        self._checkpoints[path] = [container.config for container in chosen]
        return cri.CheckpointPodResponse()

    def restore_pod(self, request: cri.RestorePodRequest) -> cri.RestorePodResponse:
        """A new sandbox with the containers of a checkpoint running in it: those configured, else all."""
        saved = self._checkpoints.get(request.checkpoint_path)
        if saved is None:
            raise RpcError(Code.NOT_FOUND, f'checkpoint_path "{request.checkpoint_path}": no such checkpoint')
        names = {config.metadata.name for config in saved}
        configs: Sequence[cri.ContainerConfig] = [*request.container_configs] or saved
        for config in configs:
            if config.metadata.name not in names:
                raise RpcError(
                    Code.INVALID_ARGUMENT,
                    f'container_configs: "{config.metadata.name}" is not in checkpoint "{request.checkpoint_path}"',
                )
        sandbox = self._run(request.config, request.runtime_handler)
        answer = cri.RestorePodResponse(pod_sandbox_id=sandbox.id)
        try:
            for config in configs:
                container = self._create(sandbox, config)
                self._state.start_container(container)
                answer.restored_containers.add(name=config.metadata.name, container_id=container.id)
        except RpcError:
            # All or nothing: a half restored pod would be nobody's.
            self._state.remove_sandbox(sandbox)
            raise
        return answer

    def _run(self, config: cri.PodSandboxConfig, runtime_handler: str) -> FakeSandbox:
        if runtime_handler not in self._runtime_handlers:
            raise RpcError(
                Code.UNKNOWN, f'failed to get sandbox runtime: no runtime for "{runtime_handler}" is configured'
            )
        host_network = config.linux.security_context.namespace_options.network == cri.NODE
        if not self._health.network_ready and not host_network:
            raise RpcError(Code.UNKNOWN, "failed to setup network for sandbox: cni plugin not initialized")
        return self._state.run_sandbox(config, runtime_handler)

    def _create(self, sandbox: FakeSandbox, config: cri.ContainerConfig) -> FakeContainer:
        image = self._images.find(config.image.image)
        if image is None:
            raise RpcError(Code.NOT_FOUND, f'failed to resolve image "{config.image.image}": not found')
        return self._state.create_container(sandbox, config, image)

    def _running(self, container_id: str) -> FakeContainer:
        container = self._state.container(container_id)
        if container.state != cri.CONTAINER_RUNNING:
            raise RpcError(Code.UNKNOWN, f"container is in {state_name(container)} state")
        return container

    def _known_sandbox(self, sandbox_id: str) -> FakeSandbox | None:
        try:
            return self._state.sandbox(sandbox_id)
        except RpcError:
            return None

    def _known_container(self, container_id: str) -> FakeContainer | None:
        try:
            return self._state.container(container_id)
        except RpcError:
            return None


def _required(field: str, value: str) -> str:
    if not value:
        raise RpcError(Code.INVALID_ARGUMENT, f"{field} must not be empty")
    return value
