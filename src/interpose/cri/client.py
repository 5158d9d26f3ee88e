"""The interface of a runtime over anything that answers CRI calls: deadlines of a kubelet, checked answers.

A runtime that leaves a mandatory field out is broken. Going on with half an answer would fail later, far from the
cause: a container without an id, an image of no size. So the call fails at once and names the field.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.message import Message

from interpose.cri.caller import Caller
from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError

REQUEST: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """All of them follow from one: what an ordinary call may take."""

    request: float = REQUEST

    @property
    def run_pod_sandbox(self) -> float:
        """Networks take their time."""
        return 2 * self.request

    def stop_container(self, grace: int) -> float:
        """The runtime answers when the container has ended, at the latest after its grace."""
        return self.request + max(grace, 0)

    def exec_sync(self, timeout: int) -> float | None:
        """A command without a limit has none here either."""
        return self.request + timeout if timeout > 0 else None

    def checkpoint(self, timeout: int) -> float:
        """The longer one of what was asked for and what is usual."""
        return max(self.request, float(timeout))


_CONDITIONS: Final = 2  # RuntimeReady and NetworkReady


def _missing(message: Any, *fields: str) -> list[str]:
    """The fields, written with dots, that are empty or 0."""
    return [field for field in fields if not _value(message, field)]


def _value(message: Any, field: str) -> Any:
    for name in field.split("."):
        message = getattr(message, name)
    return message


def _sandbox_status(answer: Any) -> list[str]:
    if not answer.HasField("status"):
        return ["status"]
    # Not its metadata: that is what the creator of the sandbox gave it, maybe with crictl and none at all.
    return _missing(answer, "status.id", "status.created_at")


def _container_status(answer: Any) -> list[str]:
    if not answer.HasField("status"):
        return ["status"]
    fields = ("status.id", "status.metadata.name", "status.created_at", "status.image.image", "status.image_ref")
    return _missing(answer, *fields)


def _image_status(answer: Any) -> list[str]:
    return _missing(answer, "image.id", "image.size") if answer.HasField("image") else []


def _status(answer: Any) -> list[str]:
    return [] if len(answer.status.conditions) >= _CONDITIONS else ["status.conditions (at least 2)"]


def _needs(*fields: str) -> Callable[[Any], list[str]]:
    return lambda answer: _missing(answer, *fields)


_RULES: Final[Mapping[str, Callable[[Any], list[str]]]] = MappingProxyType(
    {
        "Version": _needs("version", "runtime_name", "runtime_version", "runtime_api_version"),
        "RunPodSandbox": _needs("pod_sandbox_id"),
        "CreateContainer": _needs("container_id"),
        "PodSandboxStatus": _sandbox_status,
        "ContainerStatus": _container_status,
        "ImageStatus": _image_status,
        "PullImage": _needs("image_ref"),
        "Status": _status,
        "Exec": _needs("url"),
        "Attach": _needs("url"),
        "PortForward": _needs("url"),
    }
)


def check_answer(method: str, answer: Any) -> None:
    """RpcError INTERNAL that names what an answer lacks."""
    rule = _RULES.get(method)
    if rule is None:
        return
    missing = rule(answer)
    if missing:
        raise RpcError(Code.INTERNAL, f"the runtime's answer to {method} lacks {', '.join(missing)}")


_USUAL = Timeouts()


class RuntimeClient:
    """A `RuntimeService` and an `ImageService`. Every failure is an RpcError."""

    def __init__(self, caller: Caller, *, timeouts: Timeouts = _USUAL) -> None:
        self.caller = caller
        self.timeouts = timeouts

    # -- sandboxes ---------------------------------------------------------------------------------------------------

    async def run_pod_sandbox(self, config: cri.PodSandboxConfig, runtime_handler: str = "") -> str:
        request = cri.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        answer = await self._call("RunPodSandbox", request, self.timeouts.run_pod_sandbox)
        return str(answer.pod_sandbox_id)

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        await self._usual("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        await self._usual("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id))

    async def pod_sandbox_status(self, sandbox_id: str, *, verbose: bool = False) -> cri.PodSandboxStatusResponse:
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=verbose)
        answer: cri.PodSandboxStatusResponse = await self._usual("PodSandboxStatus", request)
        return answer

    async def list_pod_sandbox(self, wanted: cri.PodSandboxFilter | None = None) -> Sequence[cri.PodSandbox]:
        answer = await self._usual("ListPodSandbox", cri.ListPodSandboxRequest(filter=wanted))
        return list(answer.items)

    async def port_forward(self, sandbox_id: str, ports: Sequence[int] = ()) -> str:
        answer = await self._usual("PortForward", cri.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports))
        return str(answer.url)

    async def update_pod_sandbox_resources(
        self,
        sandbox_id: str,
        overhead: cri.LinuxContainerResources | None,
        resources: cri.LinuxContainerResources | None,
    ) -> None:
        await self._usual(
            "UpdatePodSandboxResources",
            cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id=sandbox_id, overhead=overhead, resources=resources),
        )

    # -- containers --------------------------------------------------------------------------------------------------

    async def create_container(
        self, sandbox_id: str, config: cri.ContainerConfig, sandbox_config: cri.PodSandboxConfig
    ) -> str:
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config)
        answer = await self._usual("CreateContainer", request)
        return str(answer.container_id)

    async def start_container(self, container_id: str) -> None:
        await self._usual("StartContainer", cri.StartContainerRequest(container_id=container_id))

    async def stop_container(self, container_id: str, grace: int) -> None:
        request = cri.StopContainerRequest(container_id=container_id, timeout=grace)
        await self._call("StopContainer", request, self.timeouts.stop_container(grace))

    async def remove_container(self, container_id: str) -> None:
        await self._usual("RemoveContainer", cri.RemoveContainerRequest(container_id=container_id))

    async def list_containers(self, wanted: cri.ContainerFilter | None = None) -> Sequence[cri.Container]:
        answer = await self._usual("ListContainers", cri.ListContainersRequest(filter=wanted))
        return list(answer.containers)

    async def container_status(self, container_id: str, *, verbose: bool = False) -> cri.ContainerStatusResponse:
        request = cri.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        answer: cri.ContainerStatusResponse = await self._usual("ContainerStatus", request)
        return answer

    async def update_container_resources(
        self, container_id: str, resources: cri.LinuxContainerResources, annotations: dict[str, str] | None = None
    ) -> None:
        request = cri.UpdateContainerResourcesRequest(
            container_id=container_id, linux=resources, annotations=annotations or {}
        )
        await self._usual("UpdateContainerResources", request)

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: int = 0) -> cri.ExecSyncResponse:
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=timeout)
        answer: cri.ExecSyncResponse = await self._call("ExecSync", request, self.timeouts.exec_sync(timeout))
        return answer

    async def exec(
        self,
        container_id: str,
        command: Sequence[str],
        *,
        tty: bool = False,
        stdin: bool = False,
        stdout: bool = True,
        stderr: bool = True,
    ) -> str:
        request = cri.ExecRequest(
            container_id=container_id, cmd=command, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr
        )
        return str((await self._usual("Exec", request)).url)

    async def attach(
        self, container_id: str, *, tty: bool = False, stdin: bool = False, stdout: bool = True, stderr: bool = True
    ) -> str:
        request = cri.AttachRequest(container_id=container_id, tty=tty, stdin=stdin, stdout=stdout, stderr=stderr)
        return str((await self._usual("Attach", request)).url)

    async def reopen_container_log(self, container_id: str) -> None:
        await self._usual("ReopenContainerLog", cri.ReopenContainerLogRequest(container_id=container_id))

    async def checkpoint_container(self, container_id: str, location: str, timeout: int = 0) -> None:
        request = cri.CheckpointContainerRequest(container_id=container_id, location=location, timeout=timeout)
        await self._call("CheckpointContainer", request, self.timeouts.checkpoint(timeout))

    # -- what they use -----------------------------------------------------------------------------------------------

    async def container_stats(self, container_id: str) -> cri.ContainerStats:
        answer = await self._usual("ContainerStats", cri.ContainerStatsRequest(container_id=container_id))
        stats: cri.ContainerStats = answer.stats
        return stats

    async def list_container_stats(
        self, wanted: cri.ContainerStatsFilter | None = None
    ) -> Sequence[cri.ContainerStats]:
        answer = await self._usual("ListContainerStats", cri.ListContainerStatsRequest(filter=wanted))
        return list(answer.stats)

    async def pod_sandbox_stats(self, sandbox_id: str) -> cri.PodSandboxStats:
        answer = await self._usual("PodSandboxStats", cri.PodSandboxStatsRequest(pod_sandbox_id=sandbox_id))
        stats: cri.PodSandboxStats = answer.stats
        return stats

    async def list_pod_sandbox_stats(
        self, wanted: cri.PodSandboxStatsFilter | None = None
    ) -> Sequence[cri.PodSandboxStats]:
        answer = await self._usual("ListPodSandboxStats", cri.ListPodSandboxStatsRequest(filter=wanted))
        return list(answer.stats)

    async def list_metric_descriptors(self) -> Sequence[cri.MetricDescriptor]:
        answer = await self._usual("ListMetricDescriptors", cri.ListMetricDescriptorsRequest())
        return list(answer.descriptors)

    async def list_pod_sandbox_metrics(self) -> Sequence[cri.PodSandboxMetrics]:
        answer = await self._usual("ListPodSandboxMetrics", cri.ListPodSandboxMetricsRequest())
        return list(answer.pod_metrics)

    async def container_events(self) -> AsyncGenerator[cri.ContainerEventResponse, None]:
        async with aclosing(self.caller.stream("GetContainerEvents", cri.GetEventsRequest())) as events:
            async for event in events:
                yield event

    # -- the runtime itself ------------------------------------------------------------------------------------------

    async def version(self) -> cri.VersionResponse:
        answer: cri.VersionResponse = await self._usual("Version", cri.VersionRequest(version="0.1.0"))
        return answer

    async def status(self, *, verbose: bool = False) -> cri.StatusResponse:
        answer: cri.StatusResponse = await self._usual("Status", cri.StatusRequest(verbose=verbose))
        return answer

    async def update_runtime_config(self, config: cri.RuntimeConfig) -> None:
        await self._usual("UpdateRuntimeConfig", cri.UpdateRuntimeConfigRequest(runtime_config=config))

    async def runtime_config(self) -> cri.RuntimeConfigResponse:
        answer: cri.RuntimeConfigResponse = await self._usual("RuntimeConfig", cri.RuntimeConfigRequest())
        return answer

    # -- images ------------------------------------------------------------------------------------------------------

    async def list_images(self, wanted: cri.ImageFilter | None = None) -> Sequence[cri.Image]:
        answer = await self._usual("ListImages", cri.ListImagesRequest(filter=wanted))
        return list(answer.images)

    async def image_status(self, image: cri.ImageSpec, *, verbose: bool = False) -> cri.ImageStatusResponse:
        request = cri.ImageStatusRequest(image=image, verbose=verbose)
        answer: cri.ImageStatusResponse = await self._usual("ImageStatus", request)
        return answer

    async def pull_image(
        self, image: cri.ImageSpec, auth: cri.AuthConfig | None, sandbox_config: cri.PodSandboxConfig | None
    ) -> str:
        request = cri.PullImageRequest(image=image, auth=auth, sandbox_config=sandbox_config)
        return str((await self._call("PullImage", request, None)).image_ref)

    async def remove_image(self, image: cri.ImageSpec) -> None:
        await self._usual("RemoveImage", cri.RemoveImageRequest(image=image))

    async def image_fs_info(self) -> cri.ImageFsInfoResponse:
        answer: cri.ImageFsInfoResponse = await self._usual("ImageFsInfo", cri.ImageFsInfoRequest())
        return answer

    async def _usual(self, method: str, request: Message) -> Any:
        return await self._call(method, request, self.timeouts.request)

    async def _call(self, method: str, request: Message, timeout: float | None) -> Any:
        answer = await self.caller.call(method, request, timeout=timeout)
        check_answer(method, answer)
        return answer
