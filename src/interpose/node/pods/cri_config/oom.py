"""Who is killed first when the memory of the node is used up. Pure."""

from typing import Final

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.quantity import whole
from interpose.node.pods.cri_config.qos import is_sidecar, pod_qos, requested
from interpose.node.pods.spec import Container, Pod

GUARANTEED: Final = -997
BEST_EFFORT: Final = 1000
_LOWEST_BURSTABLE: Final = BEST_EFFORT + GUARANTEED  # a Guaranteed pod that uses everything is still killed after it
_NODE_CRITICAL: Final = "system-node-critical"


def oom_score_adj(pod: Pod, container: Container, node_memory: int) -> int:
    """The score of a container on a node with so many bytes of memory."""
    qos = pod_qos(pod)
    if pod.priority_class == _NODE_CRITICAL or qos is KubeQos.GUARANTEED:
        return GUARANTEED
    if qos is KubeQos.BEST_EFFORT:
        return BEST_EFFORT
    extra = _left_over(pod)
    score = _by_request(_memory(container) + extra, node_memory)
    if is_sidecar(pod, container):
        # A sidecar must not go before those it serves.
        score = min(score, _by_request(min(map(_memory, pod.containers)) + extra, node_memory))
    return max(min(score, BEST_EFFORT - 1), _LOWEST_BURSTABLE)


def _by_request(memory: int, node_memory: int) -> int:
    return BEST_EFFORT - BEST_EFFORT * memory // node_memory


def _memory(container: Container) -> int:
    return whole(requested(container.resources, "memory"))


def _left_over(pod: Pod) -> int:
    """What the pod as a whole asks for beyond its containers, for each of them."""
    if pod.resources is None or not (pod.resources.requests or pod.resources.limits):
        return 0
    containers = (*pod.init_containers, *pod.containers)
    rest = whole(requested(pod.resources, "memory")) - sum(map(_memory, containers))
    return max(rest, 0) // len(containers)
