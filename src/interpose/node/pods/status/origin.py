"""Where a pod came from, and what a runtime does not know of it, kept in its folder. Blocking: call from a thread.

By it a manager that comes back tells pods whose manifest was removed meanwhile from those that somebody else started,
and commands that have no manifest tell main containers from others, and end them in their order. A pod that never came
to a runtime has its name from it.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interpose.core.model.resources import empty_map
from interpose.host.atomic_file import replace_file
from interpose.node.pods.status.container_values import RestartPolicy
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.sync.restart_policy import is_sidecar
from interpose.node.pods.volumes.pod_folders import PodFolders

if TYPE_CHECKING:
    from interpose.node.pods.spec import PodSpec

_NAME: Final = "origin"
_LARGEST: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The file of the manifest, absolute; when the pod was first wanted, in nanoseconds of the day; its main containers
    in their order, and when they are started again; its sidecars in theirs; its namespace, name and labels, and the
    runtime it is for. What an older release did not note is empty."""

    source: str
    began: int
    containers: tuple[str, ...] = ()
    restart_policy: str = RestartPolicy.ALWAYS.value
    sidecars: tuple[str, ...] = ()
    namespace: str = ""
    name: str = ""
    runtime: str = ""
    labels: Mapping[str, str] = field(default_factory=empty_map)


def read_origin(folder: str) -> Origin | None:
    """What is noted in a pod's folder; None if nothing is, or nothing that can be understood."""
    try:
        with Path(folder, _NAME).open("rb") as file:
            document = json.loads(file.read(_LARGEST))
        return Origin(
            source=str(document["source"]),
            began=int(document["began"]),
            containers=tuple(map(str, document["containers"])),
            restart_policy=str(document["restartPolicy"]),
            sidecars=tuple(map(str, document.get("sidecars", ()))),
            namespace=str(document.get("namespace", "")),
            name=str(document.get("name", "")),
            runtime=str(document.get("runtime", "")),
            labels={str(key): str(value) for key, value in document.get("labels", {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_origin(folder: str, pod: "PodSpec", now: int, runtime: str = "") -> Origin:
    """Note where a pod comes from; when it began is noted once. OSError if that cannot be written."""
    known = read_origin(folder)
    origin = Origin(
        source=pod.source,
        began=known.began if known is not None else now,
        containers=tuple(container.name for container in pod.containers),
        restart_policy=pod.restart_policy.value,
        sidecars=tuple(container.name for container in pod.init_containers if is_sidecar(container)),
        namespace=pod.namespace,
        name=pod.name,
        runtime=runtime,
        labels=dict(pod.labels),
    )
    if origin != known:
        Path(folder).mkdir(mode=0o750, parents=True, exist_ok=True)
        document = {
            "source": origin.source,
            "began": origin.began,
            "containers": list(origin.containers),
            "restartPolicy": origin.restart_policy,
            "sidecars": list(origin.sidecars),
            "namespace": origin.namespace,
            "name": origin.name,
            "runtime": origin.runtime,
            "labels": dict(origin.labels),
        }
        replace_file(f"{folder}/{_NAME}", json.dumps(document).encode(), mode=0o600)
    return origin


def pods_of(dirs: PodFolders, uids: Collection[str], runtime: str | None = None) -> list[RuntimePod]:
    """Pods with nothing in them; those of one runtime, if it is named. One whose name was not noted has its uid for a
    name, and no namespace."""
    found = []
    for uid in uids:
        origin = read_origin(dirs.folder(uid))
        if origin is not None and runtime is not None and origin.runtime not in ("", runtime):
            continue
        if origin is not None and origin.name:
            labels = origin.labels
            named = RuntimePod(uid=uid, name=origin.name, namespace=origin.namespace, labels=labels, complete=True)
            found.append(named)
        elif Path(dirs.folder(uid)).is_dir():  # somebody may have removed it meanwhile
            found.append(RuntimePod(uid=uid, name=uid, complete=True))
    return found
