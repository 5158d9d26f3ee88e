"""The calls that only read: version, status, lists, statuses, events. Answered from memory, but for verbose ones."""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from google.protobuf.message import Message

from interpose.cri.messages import cri
from interpose.node.runtime.oci.resources import cgroup_path
from interpose.node.runtime.service import cri_views, verbose_info
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.methods import (
    MemoryMethod,
    Methods,
    QueryMethod,
    ServerStreamMethod,
    stream_in_batches,
)

# The value that the kubelet insists on; it is not the version of the API.
_KUBELET_VERSION = "0.1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeIdentity:
    """Name, version and features of the runtime, for Version and Status."""

    version: str
    executor: str = "runc"
    executor_version: str = ""
    cgroup_driver: str = "cgroupfs"
    handlers: tuple[str, ...] = ("runc",)
    not_isolated: tuple[str, ...] = ()
    recursive_read_only: bool = False
    settings: Mapping[str, object]


class QueryService:
    """The CRI methods that change nothing."""

    def __init__(self, core: RuntimeCore, identity: RuntimeIdentity) -> None:
        self._core = core
        self._identity = identity

    def methods(self) -> Methods:
        """The part of the method table that lives here."""
        return {
            "Version": MemoryMethod(self._version),
            "Status": MemoryMethod(self._status),
            "RuntimeConfig": MemoryMethod(self._runtime_config),
            "UpdateRuntimeConfig": MemoryMethod(self._update_runtime_config),
            "PodSandboxStatus": MemoryMethod(self._sandbox_status),
            "ListPodSandbox": MemoryMethod(self._list_sandboxes),
            "StreamPodSandboxes": ServerStreamMethod(self._stream_sandboxes),
            "ContainerStatus": QueryMethod(self._container_status),
            "ListContainers": MemoryMethod(self._list_containers),
            "StreamContainers": ServerStreamMethod(self._stream_containers),
            "GetContainerEvents": ServerStreamMethod(lambda _request: self._core.events.stream()),
        }

    def _version(self, _request: cri.VersionRequest) -> cri.VersionResponse:
        return cri.VersionResponse(
            version=_KUBELET_VERSION,
            runtime_name="interpose",
            runtime_version=self._identity.version,
            runtime_api_version="v1",
        )

    def _status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        ready, reason, message = self._core.network.condition()
        answer = cri.StatusResponse()
        answer.status.conditions.add(type="RuntimeReady", status=True)
        answer.status.conditions.add(type="NetworkReady", status=ready, reason=reason, message=message)
        for name in ("", *self._identity.handlers):
            answer.runtime_handlers.add(
                name=name
            ).features.recursive_read_only_mounts = self._identity.recursive_read_only
        answer.features.supplemental_groups_policy = True
        if request.verbose:
            identity = self._identity
            document = {
                "executor": {"name": identity.executor, "version": identity.executor_version},
                "notIsolated": list(identity.not_isolated),
                "systemdCgroup": identity.cgroup_driver == "systemd",
                **identity.settings,
            }
            answer.info["config"] = json.dumps(document)
        return answer

    def _runtime_config(self, _request: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        driver = cri.SYSTEMD if self._identity.cgroup_driver == "systemd" else cri.CGROUPFS
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=driver))

    def _update_runtime_config(self, _request: cri.UpdateRuntimeConfigRequest) -> cri.UpdateRuntimeConfigResponse:
        """The pod network is what the CNI configuration says; nothing is made from the announced one."""
        return cri.UpdateRuntimeConfigResponse()

    def _sandbox_status(self, request: cri.PodSandboxStatusRequest) -> cri.PodSandboxStatusResponse:
        sandbox = self._core.registry.sandbox(request.pod_sandbox_id)
        answer = cri.PodSandboxStatusResponse(
            status=cri_views.sandbox_status(sandbox.record),
            containers_statuses=[
                cri_views.container_status(container.record) for container in cri_views.visible_containers(sandbox)
            ],
            timestamp=self._core.clock(),
        )
        if request.verbose:
            parent = sandbox.record.config.linux.cgroup_parent
            path = cgroup_path(parent, sandbox.id, self._identity.cgroup_driver)
            answer.info.update(verbose_info.sandbox_info(sandbox, self._identity.executor, path))
        return answer

    async def _container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        container = self._core.registry.container(request.container_id)
        if not request.verbose:
            return cri.ContainerStatusResponse(status=cri_views.container_status(container.record))
        spec = await self._core.bundles.read_spec(container.id)
        return cri.ContainerStatusResponse(
            status=cri_views.container_status(container.record),
            info=verbose_info.container_info(container, spec, self._identity.executor),
        )

    def _list_sandboxes(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        return cri.ListPodSandboxResponse(items=cri_views.list_sandboxes(self._core.registry, request.filter))

    def _list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        return cri.ListContainersResponse(containers=cri_views.list_containers(self._core.registry, request.filter))

    def _stream_sandboxes(self, request: cri.StreamPodSandboxesRequest) -> AsyncGenerator[Message, None]:
        items = cri_views.list_sandboxes(self._core.registry, request.filter)
        return stream_in_batches(items, lambda part: cri.StreamPodSandboxesResponse(pod_sandboxes=part))

    def _stream_containers(self, request: cri.StreamContainersRequest) -> AsyncGenerator[Message, None]:
        items = cri_views.list_containers(self._core.registry, request.filter)
        return stream_in_batches(items, lambda part: cri.StreamContainersResponse(containers=part))
