"""Pods and containers as the store remembers them: what the runtime was sent, and what its caller had asked for.

Records are values. A change is a new record made with `dataclasses.replace`; mappings inside are never changed in
place, so a record may be passed on freely.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interpose.core.model.resources import NO_RESOURCES, LinuxResources, empty_map

DOCKER: Final = "docker"
"""The runtime handler of pods that dockerd runs: there containers live for themselves."""


class ContainerState(StrEnum):
    """Where a container is in its life."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod sandbox. Labels, annotations and cgroup parent are those the runtime has, so they include our changes."""

    id: str
    name: str = ""
    uid: str = ""
    namespace: str = ""
    attempt: int = 0
    runtime_handler: str = ""
    labels: Mapping[str, str] = field(default_factory=empty_map)
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    cgroup_parent: str = ""
    requested_cgroup_parent: str = ""  # what the caller asked for; the same unless an interceptor changed it
    resources: LinuxResources = NO_RESOURCES
    overhead: LinuxResources = NO_RESOURCES
    ready: bool = True

    @property
    def starts_nothing(self) -> bool:
        """Whether none of its containers can be started any more. Docker starts them without their sandbox, too."""
        return not self.ready and self.runtime_handler != DOCKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container. `resources` is what it has, `requested` what its caller last asked for."""

    id: str
    pod_id: str = ""
    name: str = ""
    attempt: int = 0
    labels: Mapping[str, str] = field(default_factory=empty_map)
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    envs: tuple[tuple[str, bytes], ...] = ()
    cgroup_parent: str = ""
    resources: LinuxResources = NO_RESOURCES
    requested: LinuxResources = NO_RESOURCES
    state: ContainerState = ContainerState.CREATED

    @property
    def diverges(self) -> bool:
        """Whether it has something else than its caller asked for."""
        return self.resources != self.requested
