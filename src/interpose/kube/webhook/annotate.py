"""What a pod's containers ask for, as an annotation of the pod, and the patch that puts it there.

    {"containers":{NAME:{"limits":{...},"requests":{...}}},"initContainers":{NAME:...},"resources":{...}}

The CRI does not carry requests of memory, small CPU requests and extended resources; relays read them here. Every
container is listed, also one that asks for nothing: relays take silence about a container for a mistake. Sidecars are
init containers. `resources` is there for pods that have amounts as a whole; readers that do not know it leave it out.
Left out is what CRI calls are not about or what does not belong to the format: ephemeral containers and claims.

Pure. Invariants: the same pod gives the same text, so what is right already is not patched; quantities are copied as
they are written; what is patched is the annotation and nothing else.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from interpose.core.model.text import quoted

# The annotation's name, and the one of the successor. Relays know both, so a pod may not have a wrong one of either.
KNOWN_KEYS: Final = ("intel.com/resources", "noderesource.dev/resources")
# What relays read at most (a test compares the numbers with theirs).
MAX_TEXT: Final = 32 * 1024
MAX_COMMAS: Final = 1024
# What Kubernetes allows all annotations of an object together, names and values.
MAX_ANNOTATIONS: Final = 256 * 1024

_GROUPS: Final = ("initContainers", "containers")
_PARTS: Final = ("limits", "requests")
_PATH: Final = "/metadata/annotations"


class UnreadableError(ValueError):
    """Not a pod, or not one we understand; the text says where and what was found."""


class JsonNumber(str):
    """A number as it is written in JSON. Turning it into one could change it, and is not needed."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Operations of a JSON patch, none if the pod is as it shall be; and why a pod stays without the annotation."""

    operations: tuple[Mapping[str, Any], ...] = ()
    left_out: str = ""


def resources_text(pod: object) -> str:
    """The annotation of a pod. UnreadableError."""
    spec = _fields(_fields(pod, "object").get("spec"), "spec")
    groups = {group: dict(_containers(spec.get(group), f"spec.{group}")) for group in _GROUPS}
    # The order of keys is fixed, by name; empty groups say nothing.
    groups_with_containers: dict[str, Any] = {group: containers for group, containers in groups.items() if containers}
    if of_pod := dict(_resources(spec.get("resources"), "spec.resources")):
        groups_with_containers["resources"] = of_pod
    return json.dumps(groups_with_containers, separators=(",", ":"), sort_keys=True)


def annotations_of(pod: object) -> Mapping[str, Any] | None:
    """The annotations of a pod, None if it has none. UnreadableError."""
    metadata = _fields(pod, "object").get("metadata")
    if not isinstance(metadata, dict):
        raise UnreadableError(f"metadata: expected an object, found {_kind(metadata)}")
    found = metadata.get("annotations")
    return None if found is None else _fields(found, "metadata.annotations")


def patch_for(pod: object, keys: Sequence[str]) -> Patch:
    """What makes the annotation right under these keys, and under known ones that the pod has. UnreadableError."""
    annotations = annotations_of(pod)
    present = annotations or {}
    text = resources_text(pod)
    wanted = [*keys, *(key for key in KNOWN_KEYS if key in present and key not in keys)]
    others = sum(_size(key) + _size(value) for key, value in present.items() if key not in wanted)
    if why := _too_large(text, others + sum(_size(key) + _size(text) for key in wanted)):
        # One that is there is somebody else's word, and relays would take it.
        removals = [{"op": "remove", "path": _path(key)} for key in wanted if key in present]
        return Patch(operations=tuple(removals), left_out=why)
    wrong = [key for key in wanted if present.get(key) != text]
    operations: list[dict[str, Any]] = []
    if wrong and annotations is None:
        operations.append({"op": "add", "path": _PATH, "value": {}})
    operations += [{"op": "add", "path": _path(key), "value": text} for key in wrong]
    return Patch(operations=tuple(operations))


def same_for_us(pod: object, before: object, keys: Sequence[str]) -> bool:
    """Whether an update leaves alone all that the annotation is about, itself included. UnreadableError."""
    if resources_text(pod) != resources_text(before):
        return False
    now, then = annotations_of(pod) or {}, annotations_of(before) or {}
    return all(now.get(key) == then.get(key) for key in (*keys, *KNOWN_KEYS))


def _containers(value: object, where: str) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    if value is None:
        return
    if not isinstance(value, list):
        raise UnreadableError(f"{where}: expected a list, found {_kind(value)}")
    for place, item in enumerate(value):
        container = _fields(item, f"{where}[{place}]")
        name = container.get("name")
        if type(name) is not str or not name:
            raise UnreadableError(f"{where}[{place}].name: expected text, found {_kind(name)}")
        yield name, dict(_resources(container.get("resources"), f"{where}[{place}].resources"))


def _resources(value: object, where: str) -> Iterator[tuple[str, dict[str, str]]]:
    given = _fields(value, where)
    for part in _PARTS:
        amounts = _fields(given.get(part), f"{where}.{part}")
        if written := {
            name: _quantity(raw, f"{where}.{part}", name) for name, raw in amounts.items() if raw is not None
        }:
            yield part, written


def _quantity(value: object, where: str, name: str) -> str:
    if not isinstance(value, str):  # numbers are text here
        raise UnreadableError(f"{where}[{quoted(name)}]: expected a quantity, found {_kind(value)}")
    return str(value)


def _fields(value: object, where: str) -> dict[str, Any]:
    """An object of JSON; null is as good as an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UnreadableError(f"{where}: expected an object, found {_kind(value)}")
    return value


_KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    bool: "true or false",
    JsonNumber: "a number",
    str: "text",
    type(None): "nothing",
}


def _kind(value: object) -> str:
    kind = _KINDS.get(type(value), "something else")
    return f"{kind} ({quoted(value)})" if isinstance(value, str) else kind


def _too_large(text: str, total: int) -> str:
    if len(text) > MAX_TEXT:
        return f"it would have {len(text)} characters, more than the {MAX_TEXT} that are read"
    if (commas := text.count(",")) > MAX_COMMAS:
        return f"it would have {commas} commas, more than the {MAX_COMMAS} that are read"
    if total > MAX_ANNOTATIONS:
        return f"all annotations together would have {total} bytes, more than the {MAX_ANNOTATIONS} that are allowed"
    return ""


def _size(value: object) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 0


def _path(key: str) -> str:
    return f"{_PATH}/{key.replace('~', '~0').replace('/', '~1')}"
