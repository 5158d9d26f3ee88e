"""The requests and limits of a pod's containers as an admission webhook wrote them down, in an annotation of the pod.

    {"initContainers": {NAME: {"requests": {...}, "limits": {...}}}, "containers": {NAME: ...}}

Read as Kubernetes reads it: unknown keys are ignored, null is as good as absent, of a key given twice the last counts.
Whoever may create pods can write this text, so its size is bounded, and whatever it is, the outcome is a value or a
ValueError that names the annotation, the place in it and what was found there. Whether it is true is not known here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

from interpose.config.strict_json import Object, about_annotation, expect, read_object, shown
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import MAX_CPUS
from interpose.core.model.quantity import milli, parse_quantity, whole
from interpose.core.model.text import quoted
from interpose.core.policy.request import Amounts, Source

# The webhook's own, and that of its successor; the first that a pod has counts.
ANNOTATIONS: Final = ("intel.com/resources", "noderesource.dev/resources")
MAX_TEXT: Final = 32 * 1024  # characters; a hundred containers need a third
_MAX_COMMAS: Final = 1024  # each is between two values; reading them all takes some milliseconds
_GROUPS: Final = ("initContainers", "containers")
_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_NONE: Final = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What one container asks for and may have at most, by resource."""

    requests: Mapping[str, Fraction]
    limits: Mapping[str, Fraction]
    where: str  # the place in the annotation, for messages

    def request(self, resource: str) -> Fraction:
        """What it asks for: what it may have at most, if it does not say; zero without either."""
        return self.requests.get(resource, self.limits.get(resource, _NONE))

    def amounts(self) -> Amounts:
        """As policies see it; ValueError if there cannot be so much, or a part of something that has none."""
        if max(self.request(_CPU), self.limits.get(_CPU, _NONE)) > MAX_CPUS:
            raise ValueError(f"{self.where}: asks for more than {MAX_CPUS} CPUs")
        return Amounts(
            milli=milli(self.request(_CPU)),
            limit_milli=milli(self.limits[_CPU]) if self.limits.get(_CPU) else None,
            memory=whole(self.request(_MEMORY)),
            memory_limit=whole(self.limits[_MEMORY]) if self.limits.get(_MEMORY) else None,
            extended=MappingProxyType(dict(self._extended())),
            source=Source.ANNOTATION,
        )

    def _extended(self) -> Iterator[tuple[str, int]]:
        """Resources of somebody's own: they have a domain in their names."""
        for name in sorted({*self.requests, *self.limits}):
            amount = self.request(name)
            if "/" not in name or not amount:
                continue
            if amount.denominator != 1:
                raise ValueError(f"{self.where}: {quoted(name)} comes in whole numbers, found {float(amount):g}")
            yield name, amount.numerator


class Annotated:
    """The annotation of a pod. Containers are read when they are asked for."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        with about_annotation():
            root = _root(text, name)
            self._groups = {group: _fields(root.get(group), f"{name}: {group}") for group in _GROUPS}

    def container(self, name: str) -> Requirements:
        """What a container asks for; an init container first. ValueError if nothing is said about it."""
        for group, containers in self._groups.items():
            if name in containers:
                return self._read(group, name, containers[name])
        raise ValueError(f"annotation {self.name}: says nothing about container {quoted(name)}")

    def qos(self) -> KubeQos:
        """The class of the pod, by the kubelet's rule."""
        read = [
            self._read(group, name, value)
            for group, containers in self._groups.items()
            for name, value in containers.items()
        ]
        pairs = [(one.request(kind), one.limits.get(kind, _NONE)) for one in read for kind in (_CPU, _MEMORY)]
        if not any(asked or limit for asked, limit in pairs):
            return KubeQos.BEST_EFFORT
        return KubeQos.GUARANTEED if all(asked == limit > 0 for asked, limit in pairs) else KubeQos.BURSTABLE

    def _read(self, group: str, name: str, value: Any) -> Requirements:
        where = f"{self.name}: {group}[{quoted(name)}]"
        with about_annotation():
            fields = _fields(value, where)
            return Requirements(
                requests=_quantities(fields.get("requests"), f"{where}.requests"),
                limits=_quantities(fields.get("limits"), f"{where}.limits"),
                where=f"annotation {where}",
            )


def annotated(annotations: Mapping[str, str]) -> Annotated | None:
    """What a webhook wrote down about a pod; None if none did. ValueError if it cannot be read."""
    for name in ANNOTATIONS:
        if (text := annotations.get(name)) is not None:
            return Annotated(name, text)
    return None


def _root(text: str, where: str) -> dict[str, Any]:
    if len(text) > MAX_TEXT:
        raise ValueError(f"{where}: has {len(text)} characters, more than {MAX_TEXT}")
    if (commas := text.count(",")) > _MAX_COMMAS:
        raise ValueError(f"{where}: has {commas} commas, more than {_MAX_COMMAS}")
    return _fields(read_object(text, where), where)


def _fields(value: Any, where: str) -> dict[str, Any]:
    return {} if value is None else dict(expect(value, where, Object).pairs)


def _quantities(value: Any, where: str) -> Mapping[str, Fraction]:
    return MappingProxyType(
        {
            name: _quantity(raw, f"{where}[{quoted(name)}]")
            for name, raw in _fields(value, where).items()
            if raw is not None
        }
    )


def _quantity(value: Any, where: str) -> Fraction:
    if not isinstance(value, str):  # numbers are text here
        raise ValueError(f"{where}: expected a quantity, found {shown(value)}")
    try:
        return parse_quantity(str(value), negative=False)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
