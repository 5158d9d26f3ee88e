"""Pods whose sandbox was removed while some of their containers still exist.

CRI has no such pods: containers go with the sandbox. In Docker each container lives for itself, and the sandbox of a
container is what its label says, true or not. In CRI terms such a pod exists as long as one of its
containers does, and is not ready. What can be known of it is what its oldest container says. Pure; messages are those
of CRI, duck-typed.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from interpose.core.model.kubernetes_names import POD_NAME, POD_NAMESPACE, POD_UID
from interpose.relay.docker.translate import hostconfig
from interpose.relay.docker.translate.create import RUNTIME_HANDLER
from interpose.relay.docker.translate.labels import MARK, SANDBOX

_NOT_READY: Final = 1  # CRI's number


def find_orphaned(sandboxes: Iterable[Any], containers: Iterable[Any]) -> dict[str, Any]:
    """The oldest container of each such pod by the pod's id, from everything that lists show."""
    ids = [sandbox.id for sandbox in sandboxes]
    found: dict[str, Any] = {}
    for container in sorted(containers, key=lambda container: (container.created_at, container.id)):
        # The start of an id is as good as the whole; a container without any pod cannot be shown.
        pod_id = container.pod_sandbox_id
        if pod_id and not any(known.startswith(pod_id) for known in ids):
            found.setdefault(pod_id, container)
    return found


def write_listed(message: Any, pods: Mapping[str, Any]) -> None:
    """Add them to a ListPodSandboxResponse."""
    for pod_id, container in pods.items():
        _write(message.items.add(), pod_id, container)


def write_status(message: Any, pod_id: str, container: Any, inspected: Mapping[str, Any]) -> None:
    """Fill a PodSandboxStatusResponse; `inspected` is dockerd's answer about the container."""
    _write(message.status, pod_id, container)
    host = inspected.get("HostConfig")
    parent = host.get("CgroupParent") if isinstance(host, dict) else None
    linux = {"cgroup_parent": hostconfig.parent_to_cri(parent) if isinstance(parent, str) else ""}
    message.info["info"] = json.dumps({"config": {"linux": linux}})


def is_wanted(item: Any, wanted: Any) -> bool:
    """Whether a PodSandboxFilter lets a pod of a list pass."""
    if not item.id.startswith(wanted.id) or (wanted.HasField("state") and wanted.state.state != item.state):
        return False
    return all(item.labels.get(key) == value for key, value in wanted.label_selector.items())


def _write(item: Any, pod_id: str, container: Any) -> None:
    labels = {key: container.labels[key] for key in (POD_NAME, POD_NAMESPACE, POD_UID) if key in container.labels}
    item.id, item.state, item.runtime_handler = pod_id, _NOT_READY, RUNTIME_HANDLER
    item.created_at = container.created_at
    item.metadata.name = labels.get(POD_NAME, "")
    item.metadata.namespace = labels.get(POD_NAMESPACE, "")
    item.metadata.uid = labels.get(POD_UID, "")
    item.labels.update(labels)
    item.annotations[MARK] = SANDBOX
