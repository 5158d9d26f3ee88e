"""Annotations of pods about exclusive CPUs: which NUMA nodes, and whether isolated CPUs.

Text that cannot be read is never taken for a missing annotation: ValueError that names the annotation or label and its
value. A key of Kubernetes has one slash at most, so what holds for a single container has a key that begins with what
it is about: `numa-nodes.interpose/container.NAME`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.text import quoted
from interpose.core.policy.request import Request

# The first one that says something about a container counts; the label is the oldest spelling.
NUMA_NODES: Final = ("numa-nodes.interpose", "interpose/numa-nodes")
ISOLATED: Final = (
    "prefer-isolated-cpus.cri-resource-manager.intel.com",
    "cri-resource-manager.intel.com/prefer-isolated-cpus",
)
ISOLATED_LABEL: Final = "cri.resource-manager.prefer-isolated-cpus"

_MAX_TEXT: Final = 16 * 1024
# What Go's programs take for a truth value.
_TRUE: Final = ("1", "t", "T", "true", "True", "TRUE")
_FALSE: Final = ("0", "f", "F", "false", "False", "FALSE")
_WORDS: Final[Mapping[str, bool]] = MappingProxyType({**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)})
# One entry of a map from container to truth value, as JSON and YAML write it.
_ENTRY: Final = re.compile(r"""\s*(["']?)([A-Za-z0-9._-]+)\1\s*:\s*([A-Za-z0-9]+)\s*""", re.ASCII)


def numa_nodes(request: Request, nodes: CpuSet) -> CpuSet | None:
    """The NUMA nodes a container shall have its CPUs of; None without an annotation. `nodes`: those of the machine."""
    for key in NUMA_NODES:
        if (text := request.annotation(key)) is not None:
            return _nodes(text, nodes, f"annotation {key}: {quoted(text)}")
    return None


def prefers_isolated(request: Request) -> bool | None:
    """Whether a container would rather have isolated CPUs; None if neither annotation nor label says so."""
    sources = (
        *((f"annotation {key}", request.annotation(key)) for key in ISOLATED),
        (f"label {ISOLATED_LABEL}", request.pod_labels.get(ISOLATED_LABEL)),
    )
    for where, text in sources:
        if text is not None and (flag := _flag(text, request.key.name, where)) is not None:
            return flag
    return None


def _nodes(text: str, nodes: CpuSet, where: str) -> CpuSet:
    try:
        wanted = CpuSet.parse(text)
    except ValueError:
        raise ValueError(f"{where} is not a list of NUMA nodes such as 0 or 0-1") from None
    if not wanted:
        raise ValueError(f"{where} names no NUMA node")
    if not wanted <= nodes:
        raise ValueError(f"{where} names NUMA node {wanted - nodes}; this machine has {nodes}")
    return wanted


def _flag(text: str, container: str, where: str) -> bool | None:
    """A truth value, or that of a container in a map; None if it is not in there."""
    body = text.strip()
    if (single := _WORDS.get(body)) is not None:
        return single
    wrong = f"{where}: {quoted(text)} is neither true nor false nor a map such as {{{container}: true}}"
    if not body or len(body) > _MAX_TEXT:
        raise ValueError(wrong)
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1].strip()
        elements = body.split(",") if body else []
    else:
        elements = body.splitlines()
    flags: dict[str, bool] = {}
    for element in elements:
        entry = _ENTRY.fullmatch(element)
        value = None if entry is None else _WORDS.get(entry[3])
        if entry is None or value is None or entry[2] in flags:
            raise ValueError(wrong)
        flags[entry[2]] = value
    return flags.get(container)
