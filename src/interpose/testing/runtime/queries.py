"""The calls that only look: version, status, lists, statuses, stats, metrics, events."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from interpose._pb import cri_pb2 as cri
from interpose.testing.runtime import info as fakeinfo
from interpose.testing.runtime import stats as fakestats
from interpose.testing.runtime import views as fakeviews
from interpose.testing.runtime.events import EventHub
from interpose.testing.runtime.lifecycle import Health
from interpose.testing.runtime.methods import Methods, StreamMethod, UnaryMethod, in_batches
from interpose.testing.runtime.state import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeIdentity:
    """Who the runtime says it is."""

    name: str = "containerd"
    version: str = "2.3.0"
    systemd_cgroups: bool = False
    runtime_handlers: Sequence[str] = ("runc",)


class Queries:
    """Methods that change nothing (but the pod network the kubelet announces)."""

    def __init__(
        self,
        state: NodeState,
        health: Health,
        identity: FakeIdentity,
        events: EventHub,
        clock: Callable[[], int],
        batch: int,
    ) -> None:
        self._state = state
        self._health = health
        self._identity = identity
        self._events = events
        self._clock = clock
        self._batch = batch

    def methods(self) -> Methods:
        """The part of the method table that lives here."""
        return {
            "Version": UnaryMethod(cri.VersionRequest, self.version),
            "Status": UnaryMethod(cri.StatusRequest, self.status),
            "RuntimeConfig": UnaryMethod(cri.RuntimeConfigRequest, self.runtime_config),
            "UpdateRuntimeConfig": UnaryMethod(cri.UpdateRuntimeConfigRequest, self.update_runtime_config),
            "PodSandboxStatus": UnaryMethod(cri.PodSandboxStatusRequest, self.pod_sandbox_status),
            "ListPodSandbox": UnaryMethod(cri.ListPodSandboxRequest, self.list_pod_sandbox),
            "StreamPodSandboxes": StreamMethod(cri.StreamPodSandboxesRequest, self.stream_pod_sandboxes),
            "ContainerStatus": UnaryMethod(cri.ContainerStatusRequest, self.container_status),
            "ListContainers": UnaryMethod(cri.ListContainersRequest, self.list_containers),
            "StreamContainers": StreamMethod(cri.StreamContainersRequest, self.stream_containers),
            "ContainerStats": UnaryMethod(cri.ContainerStatsRequest, self.container_stats),
            "ListContainerStats": UnaryMethod(cri.ListContainerStatsRequest, self.list_container_stats),
            "StreamContainerStats": StreamMethod(cri.StreamContainerStatsRequest, self.stream_container_stats),
            "PodSandboxStats": UnaryMethod(cri.PodSandboxStatsRequest, self.pod_sandbox_stats),
            "ListPodSandboxStats": UnaryMethod(cri.ListPodSandboxStatsRequest, self.list_pod_sandbox_stats),
            "StreamPodSandboxStats": StreamMethod(cri.StreamPodSandboxStatsRequest, self.stream_pod_sandbox_stats),
            "ListMetricDescriptors": UnaryMethod(cri.ListMetricDescriptorsRequest, self.list_metric_descriptors),
            "ListPodSandboxMetrics": UnaryMethod(cri.ListPodSandboxMetricsRequest, self.list_pod_sandbox_metrics),
            "StreamPodSandboxMetrics": StreamMethod(
                cri.StreamPodSandboxMetricsRequest, self.stream_pod_sandbox_metrics
            ),
            "GetContainerEvents": StreamMethod(cri.GetEventsRequest, self.get_container_events),
        }

    def version(self, _request: cri.VersionRequest) -> cri.VersionResponse:
        # "0.1.0" is what the kubelet insists on; it is not the version of the API.
        return cri.VersionResponse(
            version="0.1.0",
            runtime_name=self._identity.name,
            runtime_version=self._identity.version,
            runtime_api_version="v1",
        )

    def status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        answer = cri.StatusResponse()
        conditions = answer.status.conditions
        conditions.add(type="RuntimeReady", status=self._health.runtime_ready)
        conditions.add(type="NetworkReady", status=self._health.network_ready)
        if not self._health.runtime_ready:
            conditions[0].reason, conditions[0].message = "RuntimeNotReady", "runtime is starting"
        if not self._health.network_ready:
            conditions[1].reason = "NetworkPluginNotReady"
            conditions[1].message = "Network plugin returns error: cni plugin not initialized"
        for name in ("", *self._identity.runtime_handlers):
            answer.runtime_handlers.add(name=name).features.recursive_read_only_mounts = True
        answer.features.supplemental_groups_policy = True
        if request.verbose:
            answer.info["config"] = json.dumps({"systemdCgroup": self._identity.systemd_cgroups})
        return answer

    def runtime_config(self, _request: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        driver = cri.SYSTEMD if self._identity.systemd_cgroups else cri.CGROUPFS
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=driver))

    def update_runtime_config(self, request: cri.UpdateRuntimeConfigRequest) -> cri.UpdateRuntimeConfigResponse:
        # The kubelet may send several networks, the IPv4 one first.
        cidr = request.runtime_config.network_config.pod_cidr.split(",")[0]
        if cidr:
            self._state.set_pod_cidr(cidr)
        return cri.UpdateRuntimeConfigResponse()

    def pod_sandbox_status(self, request: cri.PodSandboxStatusRequest) -> cri.PodSandboxStatusResponse:
        sandbox = self._state.sandbox(request.pod_sandbox_id)
        info = fakeinfo.sandbox_info(sandbox, self._identity.systemd_cgroups) if request.verbose else {}
        return cri.PodSandboxStatusResponse(
            status=fakeviews.sandbox_status(sandbox),
            info=info,
            containers_statuses=[
                fakeviews.container_status(container) for container in self._state.containers_of(sandbox)
            ],
            timestamp=self._clock(),
        )

    def container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        container = self._state.container(request.container_id)
        answer = cri.ContainerStatusResponse(status=fakeviews.container_status(container))
        if request.verbose:
            sandbox = self._state.sandbox(container.sandbox_id)
            answer.info.update(fakeinfo.container_info(container, sandbox, self._identity.systemd_cgroups))
        return answer

    def list_pod_sandbox(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        return cri.ListPodSandboxResponse(items=fakeviews.list_sandboxes(self._state, request.filter))

    def list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        return cri.ListContainersResponse(containers=fakeviews.list_containers(self._state, request.filter))

    def container_stats(self, request: cri.ContainerStatsRequest) -> cri.ContainerStatsResponse:
        container = self._state.container(request.container_id)
        return cri.ContainerStatsResponse(stats=fakestats.container_stats(container, self._clock()))

    def list_container_stats(self, request: cri.ListContainerStatsRequest) -> cri.ListContainerStatsResponse:
        return cri.ListContainerStatsResponse(
            stats=fakestats.list_container_stats(self._state, request.filter, self._clock())
        )

    def pod_sandbox_stats(self, request: cri.PodSandboxStatsRequest) -> cri.PodSandboxStatsResponse:
        sandbox = self._state.sandbox(request.pod_sandbox_id)
        return cri.PodSandboxStatsResponse(stats=fakestats.sandbox_stats(self._state, sandbox, self._clock()))

    def list_pod_sandbox_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        return cri.ListPodSandboxStatsResponse(
            stats=fakestats.list_sandbox_stats(self._state, request.filter, self._clock())
        )

    def list_metric_descriptors(self, _request: cri.ListMetricDescriptorsRequest) -> cri.ListMetricDescriptorsResponse:
        return cri.ListMetricDescriptorsResponse(descriptors=fakestats.metric_descriptors())

    def list_pod_sandbox_metrics(self, _request: cri.ListPodSandboxMetricsRequest) -> cri.ListPodSandboxMetricsResponse:
        return cri.ListPodSandboxMetricsResponse(pod_metrics=fakestats.sandbox_metrics(self._state, self._clock()))

    def stream_pod_sandboxes(self, request: cri.StreamPodSandboxesRequest) -> AsyncGenerator[Message, None]:
        items = fakeviews.list_sandboxes(self._state, request.filter)
        return in_batches(items, self._batch, lambda part: cri.StreamPodSandboxesResponse(pod_sandboxes=part))

    def stream_containers(self, request: cri.StreamContainersRequest) -> AsyncGenerator[Message, None]:
        items = fakeviews.list_containers(self._state, request.filter)
        return in_batches(items, self._batch, lambda part: cri.StreamContainersResponse(containers=part))

    def stream_container_stats(self, request: cri.StreamContainerStatsRequest) -> AsyncGenerator[Message, None]:
        items = fakestats.list_container_stats(self._state, request.filter, self._clock())
        return in_batches(items, self._batch, lambda part: cri.StreamContainerStatsResponse(container_stats=part))

    def stream_pod_sandbox_stats(self, request: cri.StreamPodSandboxStatsRequest) -> AsyncGenerator[Message, None]:
        items = fakestats.list_sandbox_stats(self._state, request.filter, self._clock())
        return in_batches(items, self._batch, lambda part: cri.StreamPodSandboxStatsResponse(pod_sandbox_stats=part))

    def stream_pod_sandbox_metrics(self, _request: cri.StreamPodSandboxMetricsRequest) -> AsyncGenerator[Message, None]:
        items = fakestats.sandbox_metrics(self._state, self._clock())
        return in_batches(
            items, self._batch, lambda part: cri.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=part)
        )

    def get_container_events(self, _request: cri.GetEventsRequest) -> AsyncGenerator[Message, None]:
        return self._events.stream()
