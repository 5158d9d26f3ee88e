"""What the kubelet knows of pods and the runtime does not: labels and annotations of today, and extended resources.

The runtime has a pod's labels and annotations as they were when its sandbox was made. Asked resources (batch-cpu and
the like) are in no CRI request at all; a webhook copies them to an annotation. Here they are taken from the pod itself,
which is newer if it was resized and has init containers too, and put into that annotation, so whoever reads it needs no
second source. A document counts whole or not at all.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.core.model.kubernetes_names import LABEL_PREFIX
from interpose.core.model.pod import Pod
from interpose.core.model.resources import empty_map
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES

# The second pair is the older name of the first.
_RESOURCES: Final = frozenset(
    f"{domain}/{tier}-{kind}"
    for domain, tier in (("kubernetes.io", "batch"), ("koordinator.sh", "batch"), ("kubernetes.io", "mid"))
    for kind in ("cpu", "memory")
)
# In the order they are started.
_INIT: Final = "initContainers"
_CONTAINERS: Final = (_INIT, "containers", "ephemeralContainers")
_RESTARTS_ALWAYS: Final = (
    "Always"  # the restartPolicy of an init container that is started first and runs beside all others
)
# The kubelet's own marks on a sandbox; they name the pod and do not change while it lives.
# Far above what a node can run; a document beyond is not a list of a node's pods.
MAX_PODS: Final = 10_000
_PARTS: Final = ("requests", "limits")
_SHOWN: Final = 60


class RequestedResources(NamedTuple):
    """Asked resources of one container, quantities as they are written."""

    requests: Mapping[str, str]
    limits: Mapping[str, str]
    init: bool = False  # whether it ends before the next one starts


def _no_containers() -> Mapping[str, RequestedResources]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMetadata:
    """A pod as the kubelet has it. If it asks for extended resources, `annotations` has them as the pod asks today."""

    namespace: str = ""
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=empty_map)
    annotations: Mapping[str, str] = field(default_factory=empty_map)
    phase: str = ""  # Pending, Running, Succeeded, Failed
    runtime_class: str = ""
    extended: Mapping[str, RequestedResources] = field(default_factory=_no_containers)


def parse_pods(document: bytes) -> Mapping[str, PodMetadata]:
    """The pods of a PodList by uid. ValueError names the place in the document and what is there."""
    try:
        root = json.loads(document)
    except RecursionError:
        raise ValueError("the list of pods is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"the list of pods is not JSON: {error}") from None
    items = _list(_group(root, "the list of pods"), "items", "")
    if len(items) > MAX_PODS:
        raise ValueError(f"items: {len(items)} pods, more than {MAX_PODS}")
    return dict(_pod(item, f"items[{index}]") for index, item in enumerate(items))


def overlay(pod: Pod, metadata: PodMetadata | None) -> Pod:
    """The pod with what is known better; what the kubelet put on the sandbox to name it stays."""
    if metadata is None:
        return pod
    return replace(
        pod,
        labels=_merge_sandbox_keys(pod.labels, metadata.labels),
        annotations=_merge_sandbox_keys(pod.annotations, metadata.annotations),
    )


def _merge_sandbox_keys(of_sandbox: Mapping[str, str], of_today: Mapping[str, str]) -> Mapping[str, str]:
    sandbox_keys = {key: value for key, value in of_sandbox.items() if key.startswith(LABEL_PREFIX)}
    return {**of_today, **sandbox_keys} if sandbox_keys else of_today


def _pod(item: Any, where: str) -> tuple[str, PodMetadata]:
    pod = _group(item, where)
    meta, spec = _part(pod, "metadata", where), _part(pod, "spec", where)
    uid = _text(meta, "uid", f"{where}.metadata")
    if not uid:
        raise ValueError(f"{where}.metadata.uid is missing")
    annotations = _texts(meta, "annotations", f"{where}.metadata")
    extended = dict(_extended(spec, f"{where}.spec"))
    if extended:
        annotations = {**annotations, EXTENDED_RESOURCES: _annotation(extended)}
    return uid, PodMetadata(
        namespace=_text(meta, "namespace", f"{where}.metadata"),
        name=_text(meta, "name", f"{where}.metadata"),
        labels=_texts(meta, "labels", f"{where}.metadata"),
        annotations=annotations,
        phase=_text(_part(pod, "status", where), "phase", f"{where}.status"),
        runtime_class=_text(spec, "runtimeClassName", f"{where}.spec"),
        extended=extended,
    )


def _extended(spec: Mapping[str, Any], where: str) -> Iterator[tuple[str, RequestedResources]]:
    """Containers that ask for something extended, in the order of their start; the others are not in it."""
    for key in _CONTAINERS:
        for index, item in enumerate(_list(spec, key, where)):
            location = f"{where}.{key}[{index}]"
            container = _group(item, location)
            resources = _part(container, "resources", location)
            requests, limits = (_quantities(resources, part, f"{location}.resources") for part in _PARTS)
            if requests or limits:
                init = key == _INIT and _text(container, "restartPolicy", location) != _RESTARTS_ALWAYS
                yield _text(container, "name", location), RequestedResources(requests, limits, init)


def _quantities(resources: Mapping[str, Any], part: str, where: str) -> Mapping[str, str]:
    found = {}
    for name, value in _part(resources, part, where).items():
        if name in _RESOURCES:
            # A quantity may be written as a number too.
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError(f"{where}.{part}.{name}: {_shorten(value)} is not a quantity")
            found[name] = str(value)
    return found


def _annotation(extended: Mapping[str, RequestedResources]) -> str:
    containers: dict[str, dict[str, Any]] = {}
    for name, resources in extended.items():
        parts = zip(_PARTS, (resources.requests, resources.limits), strict=True)
        containers[name] = {part: dict(values) for part, values in parts if values}
        if resources.init:
            containers[name]["init"] = True
    return json.dumps({"containers": containers}, separators=(",", ":"))


# -- Go leaves out what is empty, or writes null


def _group(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: {_shorten(value)} is not a group of keys")
    return value


def _part(group: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = group.get(key)
    return {} if value is None else _group(value, f"{where}.{key}")


def _list(group: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = group.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{where}.{key}".lstrip(".") + f": {_shorten(value)} is not a list")
    return value


def _text(group: Mapping[str, Any], key: str, where: str) -> str:
    value = group.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{where}.{key}: {_shorten(value)} is not text")
    return value


def _texts(group: Mapping[str, Any], key: str, where: str) -> Mapping[str, str]:
    values = _part(group, key, where)
    for name in values:
        _text(values, name, f"{where}.{key}")
    return values or empty_map()


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
