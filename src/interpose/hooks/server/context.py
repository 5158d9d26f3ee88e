"""Context of a plugin function: the request it reads, and the response it fills with desired values.

The same contexts are filled from a hook call (proxy mode) and from the runtime's own lists (standalone mode), so a
plugin cannot tell them apart. The request is always the original one, never with values of plugins in it: therefore
the result is the same however often it is computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from interpose.core.model.cgroup import KubeQos, Level, Parameter, Value, kube_qos_of
from interpose.core.model.pod import Container, Pod
from interpose.core.model.qos import QosClass, qos_of


class Wish(NamedTuple):
    """A value that a plugin desires, and the reason: what in the rule or in the pod led to it."""

    value: Value
    why: str


@dataclass(slots=True)
class Response:
    """The desired values of one plugin. A parameter that is not set stays as it is, or is restored."""

    wishes: dict[Parameter, Wish] = field(default_factory=dict)
    envs: dict[str, tuple[str, str]] = field(default_factory=dict)  # variable -> (value, why)

    def set(self, parameter: Parameter, value: Value, why: str) -> None:
        """Set the desired value of a parameter; `why` is shown to people."""
        self.wishes[parameter] = Wish(value, why)

    def set_env(self, name: str, value: str, why: str) -> None:
        """Set an environment variable; only a container that is being created can get one."""
        self.envs[name] = (value, why)


@dataclass(kw_only=True)
class GroupContext:
    """Context for the node, the cgroup of a QoS class, or a host application."""

    level: Level  # NODE, QOS or HOST_APP
    kube_qos: KubeQos | None = None  # of a QoS directory
    qos: QosClass | None = None  # of a host application
    name: str = ""
    response: Response = field(default_factory=Response)


@dataclass(kw_only=True)
class PodContext:
    """Context for a pod, as it was requested."""

    request: Pod
    response: Response = field(default_factory=Response)

    @cached_property
    def qos(self) -> QosClass | None:
        """The QoS class in the label of the pod; None without one."""
        return qos_of(self.request.labels)

    @cached_property
    def kube_qos(self) -> KubeQos:
        """The QoS class of the pod in Kubernetes."""
        return kube_qos_of(self.request.cgroup_parent)


@dataclass(kw_only=True)
class ContainerContext:
    """Context for a container: `request.requested` are the resources of the original request.

    At level SANDBOX it is the sandbox container of the pod, which has no name and requests nothing.
    """

    pod: Pod
    request: Container
    level: Level = Level.CONTAINER
    response: Response = field(default_factory=Response)

    @cached_property
    def qos(self) -> QosClass | None:
        """The QoS class of the container's pod."""
        return qos_of(self.pod.labels)

    @cached_property
    def kube_qos(self) -> KubeQos:
        """The QoS class of the container's pod in Kubernetes."""
        return kube_qos_of(self.request.cgroup_parent or self.pod.cgroup_parent)

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the container's pod."""
        return self.pod.annotations
