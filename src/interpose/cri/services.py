"""The interface of a container runtime, as the pod manager uses it.

Three implementations stand behind it: a runtime at the other end of a socket (`remote`), one in the same process
(`local`), and a fake for tests. All three are a `cri.caller.Caller` underneath; `services.Services` gives a
Caller these methods. The names are those of CRI in Python's spelling; docs/kuberuntime.md has them beside the names of
the 2016 proposal.

Protocols are cut by need: code that only stops containers takes a `ContainerManager`.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from interpose.cri.messages import cri


class RuntimeVersioner(Protocol):
    """The version call of a runtime."""

    async def version(self) -> cri.VersionResponse:
        """Name and versions of the runtime."""


class PodSandboxManager(Protocol):
    """The calls about pod sandboxes."""

    async def run_pod_sandbox(self, config: cri.PodSandboxConfig, runtime_handler: str = "") -> str:
        """Create and start a sandbox; its id."""

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """End everything in it and give its network back. May be repeated."""

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Remove it and its containers, running or not. May be repeated."""

    async def pod_sandbox_status(self, sandbox_id: str, *, verbose: bool = False) -> cri.PodSandboxStatusResponse:
        """Its status; NOT_FOUND if there is none."""

    async def list_pod_sandbox(self, wanted: cri.PodSandboxFilter | None = None) -> Sequence[cri.PodSandbox]:
        """Those that the filter lets through; all without one."""

    async def port_forward(self, sandbox_id: str, ports: Sequence[int] = ()) -> str:
        """A URL that works once."""

    async def update_pod_sandbox_resources(
        self,
        sandbox_id: str,
        overhead: cri.LinuxContainerResources | None,
        resources: cri.LinuxContainerResources | None,
    ) -> None:
        """Tell the runtime what the pod as a whole has now."""


class ContainerManager(Protocol):
    """The calls about containers."""

    async def create_container(
        self, sandbox_id: str, config: cri.ContainerConfig, sandbox_config: cri.PodSandboxConfig
    ) -> str:
        """Create a container in a sandbox; its id."""

    async def start_container(self, container_id: str) -> None:
        """Start a created container; a second start is an error."""

    async def stop_container(self, container_id: str, grace: int) -> None:
        """Ask it to end, after `grace` seconds make it. May be repeated."""

    async def remove_container(self, container_id: str) -> None:
        """Remove it, running or not. May be repeated."""

    async def list_containers(self, wanted: cri.ContainerFilter | None = None) -> Sequence[cri.Container]:
        """Those that the filter lets through; all without one."""

    async def container_status(self, container_id: str, *, verbose: bool = False) -> cri.ContainerStatusResponse:
        """Its status; NOT_FOUND if there is none."""

    async def update_container_resources(
        self, container_id: str, resources: cri.LinuxContainerResources, annotations: dict[str, str] | None = None
    ) -> None:
        """Change what it has; what the message does not set stays."""

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: int = 0) -> cri.ExecSyncResponse:
        """Run a command to its end; 0 seconds is without a limit."""

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
        """A URL that works once."""

    async def attach(
        self, container_id: str, *, tty: bool = False, stdin: bool = False, stdout: bool = True, stderr: bool = True
    ) -> str:
        """A URL that works once."""

    async def reopen_container_log(self, container_id: str) -> None:
        """Write to a new file from now on; the old one was moved away."""

    async def checkpoint_container(self, container_id: str, location: str, timeout: int = 0) -> None:
        """Write its state to a file."""


class ContainerStatsManager(Protocol):
    """The calls about resource usage of containers and pods."""

    async def container_stats(self, container_id: str) -> cri.ContainerStats:
        """The usage of one container."""

    async def list_container_stats(
        self, wanted: cri.ContainerStatsFilter | None = None
    ) -> Sequence[cri.ContainerStats]:
        """The usage of the containers that the filter lets through."""

    async def pod_sandbox_stats(self, sandbox_id: str) -> cri.PodSandboxStats:
        """The usage of one pod."""

    async def list_pod_sandbox_stats(
        self, wanted: cri.PodSandboxStatsFilter | None = None
    ) -> Sequence[cri.PodSandboxStats]:
        """The usage of the pods that the filter lets through."""

    async def list_metric_descriptors(self) -> Sequence[cri.MetricDescriptor]:
        """Which metrics there are."""

    async def list_pod_sandbox_metrics(self) -> Sequence[cri.PodSandboxMetrics]:
        """The values of these metrics, by pod."""


class EventSource(Protocol):
    """The stream of container events."""

    def container_events(self) -> AsyncGenerator[cri.ContainerEventResponse, None]:
        """Endless; UNIMPLEMENTED by many runtimes."""


class RuntimeService(
    RuntimeVersioner, PodSandboxManager, ContainerManager, ContainerStatsManager, EventSource, Protocol
):
    """Everything of CRI's RuntimeService."""

    async def status(self, *, verbose: bool = False) -> cri.StatusResponse:
        """Whether runtime and network are ready."""

    async def update_runtime_config(self, config: cri.RuntimeConfig) -> None:
        """Tell the runtime the pod CIDR."""

    async def runtime_config(self) -> cri.RuntimeConfigResponse:
        """The cgroup driver; UNIMPLEMENTED by older runtimes."""


class ImageService(Protocol):
    """Everything of CRI's ImageService."""

    async def list_images(self, wanted: cri.ImageFilter | None = None) -> Sequence[cri.Image]:
        """Those that the filter lets through."""

    async def image_status(self, image: cri.ImageSpec, *, verbose: bool = False) -> cri.ImageStatusResponse:
        """The image, or an answer without one."""

    async def pull_image(
        self, image: cri.ImageSpec, auth: cri.AuthConfig | None, sandbox_config: cri.PodSandboxConfig | None
    ) -> str:
        """Fetch it; what it is called in the store. Without a limit of time."""

    async def remove_image(self, image: cri.ImageSpec) -> None:
        """Remove it. May be repeated."""

    async def image_fs_info(self) -> cri.ImageFsInfoResponse:
        """How much room images take."""
