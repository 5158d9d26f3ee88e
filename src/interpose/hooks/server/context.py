"""What a plugin function sees: a request that came, and a response that says what shall change.

The same contexts are filled from a hook call (proxy mode) and from the runtime's own lists (standalone mode), so a
plugin cannot tell them apart. The request is always what was asked for originally, never what somebody made of it:
therefore the same answer comes out however often it is computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from interpose.core.model.cgroup import KubeQos, Level, Parameter, Value, kube_qos_of
from interpose.core.model.pod import Container, Pod
from interpose.core.model.qos import QosClass, qos_of


class Wish(NamedTuple):
    """A value that a plugin wants, and in a few words why: what in the rule or in the pod led to it."""

    value: Value
    why: str


@dataclass(slots=True)
class Response:
    """What shall change. A parameter that is not in it stays as it is, or goes back to what it was."""

    wishes: dict[Parameter, Wish] = field(default_factory=dict)
    envs: dict[str, tuple[str, str]] = field(default_factory=dict)  # variable -> (value, why)

    def set(self, parameter: Parameter, value: Value, why: str) -> None:
        """Want a value."""
        self.wishes[parameter] = Wish(value, why)

    def set_env(self, name: str, value: str, why: str) -> None:
        """Want an environment variable; only a container that is not made yet can get one."""
        self.envs[name] = (value, why)


@dataclass(kw_only=True)
class GroupContext:
    """The node, the directory of a QoS class, or a host application."""

    level: Level  # NODE, QOS or HOST_APP
    kube_qos: KubeQos | None = None  # of a QoS directory
    qos: QosClass | None = None  # of a host application
    name: str = ""
    response: Response = field(default_factory=Response)


@dataclass(kw_only=True)
class PodContext:
    """A pod as its caller described it."""

    request: Pod
    response: Response = field(default_factory=Response)

    @cached_property
    def qos(self) -> QosClass | None:
        """The QoS class its label names; None without one."""
        return qos_of(self.request.labels)

    @cached_property
    def kube_qos(self) -> KubeQos:
        """The QoS class of Kubernetes."""
        return kube_qos_of(self.request.cgroup_parent)


@dataclass(kw_only=True)
class ContainerContext:
    """A container as its caller described it: `request.requested` are the resources asked for.

    At level SANDBOX it is the container that holds the pod together; it has no name and asks for nothing.
    """

    pod: Pod
    request: Container
    level: Level = Level.CONTAINER
    response: Response = field(default_factory=Response)

    @cached_property
    def qos(self) -> QosClass | None:
        """The QoS class of its pod."""
        return qos_of(self.pod.labels)

    @cached_property
    def kube_qos(self) -> KubeQos:
        """The QoS class of its pod in Kubernetes."""
        return kube_qos_of(self.request.cgroup_parent or self.pod.cgroup_parent)

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations of the pod."""
        return self.pod.annotations
