"""Labels and annotations by which sandboxes and containers are found again, and their logs' places. Pure.

They are the kubelet's own, so that tools made for nodes with a kubelet work. Everything a container needs to be stopped
as its manifest says is on it: a manager that comes back without the manifest can do that. `interpose.io/resources` is
ours: what was asked for when the container was made, or last changed in place. `container_hash` must stay as it is from
release to release: a changed hash restarts every container of every pod.
"""

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from interpose.core.model.kubernetes_names import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID, RESTART_COUNT
from interpose.node.pods.status.container_values import (
    ExecAction,
    HttpAction,
    Port,
    ResourceRequirements,
    SleepAction,
    TcpAction,
)

if TYPE_CHECKING:
    from interpose.node.pods.spec import ContainerSpec, PodSpec

HASH: Final = "io.kubernetes.container.hash"
MESSAGE_PATH: Final = "io.kubernetes.container.terminationMessagePath"
MESSAGE_POLICY: Final = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP: Final = "io.kubernetes.container.preStopHandler"
PORTS: Final = "io.kubernetes.container.ports"
DELETION_GRACE: Final = "io.kubernetes.pod.deletionGracePeriod"
GRACE: Final = "io.kubernetes.pod.terminationGracePeriod"
RESOURCES: Final = "interpose.io/resources"

LOG_ROOT: Final = "/var/log/pods"
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_LOG: Final = ".log"
_PARTS: Final = (("", 1), ("m", 10**3), ("u", 10**6), ("n", 10**9))

Hook = ExecAction | HttpAction | TcpAction | SleepAction


def pod_labels(pod: "PodSpec") -> dict[str, str]:
    """Of a sandbox: the pod's and where it belongs."""
    return {**pod.labels, POD_NAME: pod.name, POD_NAMESPACE: pod.namespace, POD_UID: pod.uid}


def container_labels(pod: "PodSpec", container: "ContainerSpec") -> dict[str, str]:
    """Of a container: where it belongs. The pod's own are on the sandbox only."""
    return {
        CONTAINER_NAME: container.name,
        POD_NAME: pod.name,
        POD_NAMESPACE: pod.namespace,
        POD_UID: pod.uid,
    }


def container_annotations(pod: "PodSpec", container: "ContainerSpec", restart_count: int) -> dict[str, str]:
    """Of a container: what it takes to judge and to stop it."""
    notes = {
        HASH: container_hash(container),
        RESTART_COUNT: str(restart_count),
        MESSAGE_PATH: container.termination_message_path,
        MESSAGE_POLICY: container.termination_message_policy.value,
        GRACE: str(pod.termination_grace_period),
        RESOURCES: resources_text(container.resources),
    }
    if pod.deletion_grace_period is not None:
        notes[DELETION_GRACE] = str(pod.deletion_grace_period)
    if container.lifecycle.pre_stop is not None:
        notes[PRE_STOP] = _json(_hook_document(container.lifecycle.pre_stop))
    if container.ports:
        notes[PORTS] = _json([_port_document(port) for port in container.ports])
    return notes


def resources_text(resources: ResourceRequirements) -> str:
    """Requests and limits as one text, the same for the same amounts."""
    parts = {"requests": resources.requests, "limits": resources.limits}
    document = {key: {name: amount_text(parts[key][name]) for name in sorted(parts[key])} for key in parts}
    return _json({key: amounts for key, amounts in document.items() if amounts})


def amount_text(amount: Fraction) -> str:
    """An exact amount as people write it, "500m"; as a fraction if there is no such way."""
    for suffix, parts in _PARTS:
        if (amount * parts).denominator == 1:
            return f"{amount * parts}{suffix}"
    return str(amount)


def log_directory(pod: "PodSpec", log_root: str = LOG_ROOT) -> str:
    """Where the logs of a pod are."""
    return f"{log_root.rstrip('/')}/{pod.namespace}_{pod.name}_{pod.uid}"


def log_path(name: str, restart_count: int) -> str:
    """Where the log of a container is, in the pod's directory."""
    return f"{name}/{restart_count}{_LOG}"


def restarts_by_logs(names: list[str]) -> int:
    """How often a container was started, by the files in its log directory: rotated ones (`3.log.2026...`) count."""
    counts = [
        int(name.partition(_LOG)[0]) + 1 for name in names if _LOG in name and _is_number(name.partition(_LOG)[0])
    ]
    return max(counts, default=0)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _hook_document(hook: Hook) -> dict[str, Any]:
    match hook:
        case ExecAction():
            return {"exec": {"command": list(hook.command)}}
        case HttpAction():
            headers = [{"name": name, "value": value} for name, value in hook.headers]
            given = {"path": hook.path, "port": hook.port, "host": hook.host, "scheme": hook.scheme}
            return {"httpGet": _without_empty({**given, "httpHeaders": headers})}
        case TcpAction():
            return {"tcpSocket": _without_empty({"port": hook.port, "host": hook.host})}
        case _:
            return {"sleep": {"seconds": hook.seconds}}


def _port_document(port: Port) -> dict[str, Any]:
    return _without_empty(
        {
            "name": port.name,
            "hostPort": port.host_port,
            "containerPort": port.container_port,
            "protocol": port.protocol,
            "hostIP": port.host_ip,
        }
    )


def _without_empty(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if value}


# -- hashes


def container_hash(container: "ContainerSpec") -> str:
    """What tells a container from one that needs a restart to become it: its name and image, nothing else."""
    # Neither may hold a zero byte, so that two different pairs are two different texts.
    data = f"{container.name}\0{container.image}".encode()
    return f"{fnv1a(data):x}"


def fnv1a(data: bytes) -> int:
    """The 32 bit hash of Fowler, Noll and Vo."""
    value = _FNV_OFFSET
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value
