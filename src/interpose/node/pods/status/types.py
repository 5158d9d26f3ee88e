"""What a runtime says about a pod, as the manager decides from it. Values; pure. Times are nanoseconds, 0 for never."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interpose.core.model.pod import ContainerState
from interpose.core.model.resources import empty_map
from interpose.node.pods.status.container_values import ResourceRequirements


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """A sandbox of the pod. `ip` None: the runtime says nothing about its network; "": it has no address yet."""

    id: str
    attempt: int = 0
    ready: bool = True
    created_at: int = 0
    host_network: bool = False
    ip: str | None = None
    additional_ips: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=empty_map)
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    runtime_handler: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """A container of the pod, running or not."""

    id: str
    name: str
    sandbox_id: str = ""
    state: ContainerState = ContainerState.RUNNING
    created_at: int = 0
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    hash: str = ""
    restart_count: int = 0
    image: str = ""
    image_ref: str = ""
    image_id: str = ""
    log_path: str = ""
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    resources: ResourceRequirements | None = None  # what was last asked for; None: not known, nothing is compared

    @property
    def failed(self) -> bool:
        """Whether it ended badly."""
        return self.state is ContainerState.EXITED and (self.exit_code != 0 or self.reason == "OOMKilled")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """All of a pod that the runtime has. Newest first in all three: by attempt, then by creation."""

    uid: str
    name: str = ""
    namespace: str = ""
    ips: tuple[str, ...] = ()
    sandboxes: tuple[SandboxStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    active: tuple[ContainerStatus, ...] = ()  # those of the newest sandbox, if it is ready

    def latest(self, name: str) -> ContainerStatus | None:
        """The newest container of that name."""
        return next((container for container in self.containers if container.name == name), None)

    def latest_active(self, name: str) -> ContainerStatus | None:
        """The newest container of that name in the active sandbox."""
        return next((container for container in self.active if container.name == name), None)
