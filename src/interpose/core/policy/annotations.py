"""Annotations of pods for policies: those of the families that other programs have brought about, and our own.

Text that cannot be read is never taken for a missing annotation: ValueError that names the annotation or label and its
value. A key of Kubernetes has one slash at most, so what holds for a single container has a key that begins with what
it is about: `numa-nodes.interpose/container.NAME`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.quantity import parse_quantity, whole
from interpose.core.model.text import did_you_mean, quoted
from interpose.core.policy.request import Request

# Behind the name of an annotation, of the newer family first.
FAMILIES: Final = ("resource-policy.nri.io", "cri-resource-manager.intel.com")

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


class AnnotationScope(IntEnum):
    """What an annotation holds for: the higher, the more specific."""

    PLAIN = 0  # every container of the pod
    POD = 1  # the same, in a spelling of its own
    CONTAINER = 2  # one container, by its name


EVERY_SCOPE: Final = tuple(sorted(AnnotationScope, reverse=True))
POD_SCOPES: Final = (AnnotationScope.POD, AnnotationScope.PLAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnnotation:
    """An annotation that holds for a container. Its readers raise ValueError that names key and text."""

    key: str
    text: str
    scope: AnnotationScope

    def flag(self) -> bool:
        """A truth value, in the spellings of Go's programs."""
        if (value := _WORDS.get(self.text.strip())) is None:
            raise self.error("is neither true nor false")
        return value

    def amount(self) -> int:
        """A quantity such as 512Mi as a whole number, rounded up."""
        try:
            return whole(parse_quantity(self.text.strip(), negative=False))
        except ValueError as error:
            raise ValueError(f"annotation {self.key}: {error}") from None

    def choice(self, known: Iterable[str]) -> str:
        """The one of the known words that it is, in any case."""
        (word,) = self._known_words([self.text], known)
        return word

    def choices(self, known: Iterable[str]) -> tuple[str, ...]:
        """The known words that it lists with commas between them, in any case; at least one."""
        return self._known_words(self.text.split(","), known)

    def error(self, what: str) -> ValueError:
        """A ValueError that says what is wrong with this annotation."""
        return ValueError(f"annotation {self.key}: {quoted(self.text)} {what}")

    def _known_words(self, words: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
        by_folded = {word.casefold(): word for word in known}
        found = []
        for word in map(str.strip, words):
            if (match := by_folded.get(word.casefold())) is None:
                names = ", ".join(by_folded.values())
                raise self.error(
                    f"has {quoted(word)}, which is none of {names}{did_you_mean(word, by_folded.values())}"
                )
            found.append(match)
        return tuple(found)


def find_annotation(
    request: Request, name: str, scopes: Sequence[AnnotationScope] = EVERY_SCOPE
) -> PolicyAnnotation | None:
    """The annotation `name` of a family that holds for a container: the most specific one, then the newer family's."""
    for scope in scopes:
        for family in FAMILIES:
            key = f"{name}.{family}{_suffix(scope, request.key.name)}"
            if (text := request.pod_annotations.get(key)) is not None:
                return PolicyAnnotation(key=key, text=text, scope=scope)
    return None


def _suffix(scope: AnnotationScope, container: str) -> str:
    return ("", "/pod", f"/container.{container}")[scope]


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
