"""What is left over and of no more use: decided from lists. Pure.

Of a pod that is wanted, the newest ended container of each name stays (its end is the pod's history), and the newest
sandbox. Of a pod that is gone nothing stays but what still runs: ending that is not the business of a collector.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from interpose.core.model.pod import ContainerState
from interpose.node.pods.status.runtime_pod import RuntimeContainer, RuntimePod, RuntimeSandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGarbage:
    """The containers of one pod to remove, oldest first."""

    pod: RuntimePod
    containers: tuple[RuntimeContainer, ...]


def dead_containers(
    pods: Iterable[RuntimePod], *, known: Collection[str], gone: Collection[str], keep: int = 1
) -> list[PodGarbage]:
    """The containers to remove. Pods in neither collection belong to other clients."""
    found = []
    for pod in pods:
        if pod.uid not in known and pod.uid not in gone:
            continue
        newest_counts: dict[str, int] = {}
        surplus = []
        for container in pod.containers:  # newest first
            if container.state is ContainerState.RUNNING:
                continue
            if pod.uid in known and newest_counts.get(container.name, 0) < keep:
                newest_counts[container.name] = newest_counts.get(container.name, 0) + 1
            else:
                surplus.append(container)
        if surplus:
            found.append(PodGarbage(pod=pod, containers=tuple(reversed(surplus))))
    return found


def idle_sandboxes(
    pods: Iterable[RuntimePod], *, known: Collection[str], gone: Collection[str], removed: Collection[str]
) -> list[RuntimeSandbox]:
    """The sandboxes to remove: not ready, and no container left in them but those `removed`."""
    found: list[RuntimeSandbox] = []
    for pod in pods:
        if pod.uid not in known and pod.uid not in gone:
            continue
        used = {container.sandbox_id for container in pod.containers if container.id not in removed}
        idle = [sandbox for sandbox in pod.sandboxes if not sandbox.ready and sandbox.id not in used]
        if pod.uid in known and pod.sandboxes:
            idle = [sandbox for sandbox in idle if sandbox.id != pod.sandboxes[0].id]
        found += reversed(idle)
    return found


def empty_pods(uids: Iterable[str], pods: Iterable[RuntimePod], removed: Collection[str]) -> list[str]:
    """Those of which the runtime has nothing but what was removed."""
    left = {
        pod.uid
        for pod in pods
        if any(container.id not in removed for container in pod.containers)
        or any(sandbox.id not in removed for sandbox in pod.sandboxes)
    }
    return [uid for uid in uids if uid not in left]
