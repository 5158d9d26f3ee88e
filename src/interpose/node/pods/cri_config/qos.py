"""The QoS class of a pod, and what follows from it alone. Pure."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.qos import kube_qos
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements, RestartPolicy

_NONE: Final = Fraction(0)


def pod_qos(pod: PodSpec) -> KubeQos:
    """The class: of the pod's own amounts if it has some, else of all its containers but the ephemeral ones."""
    if pod.resources is not None and (pod.resources.requests or pod.resources.limits):
        each = [pod.resources]
    else:
        each = [container.resources for container in (*pod.init_containers, *pod.containers)]
    return kube_qos((resources.requests, resources.limits) for resources in each)


def is_sidecar(pod: PodSpec, container: ContainerSpec) -> bool:
    """Whether it is an init container that stays."""
    return any(sidecar.name == container.name for sidecar in sidecars(pod))


def sidecars(pod: PodSpec) -> Iterator[ContainerSpec]:
    """Init containers that stay, in order."""
    return (container for container in pod.init_containers if container.restart_policy is RestartPolicy.ALWAYS)


def requested(resources: ResourceRequirements, name: str) -> Fraction:
    """What is asked for of a resource: the request, or the limit where there is none."""
    return resources.requests.get(name, resources.limits.get(name, _NONE))
