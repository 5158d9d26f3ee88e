"""The environment of a container: its variables, the pod's own fields (the downward API), and `$(NAME)`. Pure.

Later variables win over earlier ones of the same name and may use them. The value of a field can depend on where the
pod runs: that is in `DownwardApiContext`. References are expanded in one pass from left to right: an inserted value is
not expanded again. `$$` is a plain dollar; a reference to an unknown variable, or one without an end, stays as written.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final

from interpose.core.model.text import quoted
from interpose.node.pods.cri_config.qos import requested
from interpose.node.pods.spec import ContainerSpec, FieldRef, PodSpec, ResourceFieldRef, no_amounts

_NONE: Final = Fraction(0)
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))", re.DOTALL)
_ENTRY: Final = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)
# Where a limit that is not given is what the node can give.
_OF_NODE: Final = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class DownwardApiContext:
    """Where a pod runs: name and addresses of the node, what the node can give, the pod's addresses."""

    node_name: str = ""
    host_ips: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    allocatable: Mapping[str, Fraction] = field(default_factory=no_amounts)


def environment(pod: PodSpec, container: ContainerSpec, around: DownwardApiContext) -> dict[str, str]:
    """The variables of a container in their order; ValueError that names the variable if one cannot be had."""
    found: dict[str, str] = {}
    for variable in container.env:
        if variable.source is None:
            found[variable.name] = expand(variable.value, found)
            continue
        try:
            found[variable.name] = source_value(pod, container, variable.source, around)
        except ValueError as error:
            raise ValueError(f"environment variable {quoted(variable.name)}: {error}") from None
    return found


def expand_all(texts: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """A command or its arguments with the variables put in."""
    return [expand(text, env) for text in texts]


def source_value(
    pod: PodSpec, container: ContainerSpec | None, source: FieldRef | ResourceFieldRef, around: DownwardApiContext
) -> str:
    """What a reference stands for; ValueError that names it. `container` None: it has to name one itself."""
    if isinstance(source, FieldRef):
        return field_value(pod, source.path, around)
    return _resource_value(pod, container, source, around.allocatable)


def field_value(pod: PodSpec, path: str, around: DownwardApiContext) -> str:
    """A field of the pod as text."""
    # A pod in the node's network has the node's addresses.
    ips = around.ips or (around.host_ips if pod.host_network else ())
    fields = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "metadata.labels": _lines(pod.labels),
        "metadata.annotations": _lines(pod.annotations),
        "spec.nodeName": pod.node_name or around.node_name,
        "spec.serviceAccountName": pod.service_account,
        "status.hostIP": next(iter(around.host_ips), ""),
        "status.hostIPs": ",".join(around.host_ips),
        "status.podIP": next(iter(ips), ""),
        "status.podIPs": ",".join(ips),
    }
    if path in fields:
        return fields[path]
    if (match := _ENTRY.fullmatch(path)) is not None:
        return (pod.labels if match[1] == "labels" else pod.annotations).get(match[2], "")
    raise ValueError(
        f"fieldRef {quoted(path)} is not known; known are {', '.join(fields)}, and entries of the two maps"
    )


def _lines(entries: Mapping[str, str]) -> str:
    # Quoted, so that one entry is one line whatever is in it.
    return "\n".join(f"{key}={json.dumps(entries[key], ensure_ascii=False)}" for key in sorted(entries))


def _resource_value(
    pod: PodSpec, container: ContainerSpec | None, source: ResourceFieldRef, allocatable: Mapping[str, Fraction]
) -> str:
    found = _named(pod, container, source.container)
    kind, _, name = source.resource.partition(".")
    if kind not in ("limits", "requests") or not name:
        raise ValueError(f"resourceFieldRef {quoted(source.resource)} is neither limits.NAME nor requests.NAME")
    if kind == "requests":
        amount = requested(found.resources, name)
    else:
        amount = found.resources.limits.get(name, _NONE)
        if not amount and name in _OF_NODE:
            amount = allocatable.get(name, _NONE)
    return str(ceil(amount / (source.divisor or Fraction(1))))


def _named(pod: PodSpec, container: ContainerSpec | None, name: str) -> ContainerSpec:
    if not name and container is not None:
        return container
    for candidate in (*pod.containers, *pod.init_containers):
        if candidate.name == name:
            return candidate
    raise ValueError(f"resourceFieldRef: the pod has no container {quoted(name)}")


# -- references


def expand(text: str, values: Mapping[str, str]) -> str:
    """The text with all known names replaced."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else values.get(name, match[0])

    return _REFERENCE.sub(value, text)


def expand_strictly(text: str, values: Mapping[str, str]) -> str:
    """The same, but a name that is not known is a ValueError that names it."""
    for match in _REFERENCE.finditer(text):
        if match[1] is not None and match[1] not in values:
            raise ValueError(f"{quoted(text)}: there is no variable {quoted(match[1])}")
    return expand(text, values)
