"""The pools of the policy podpools in a document: kinds of values, and pools as text. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from interpose.config.documents.fields import Choice, FieldReader, Number, Report, Text
from interpose.config.documents.yaml import DocumentNode
from interpose.core.policy.podpools.options import (
    NO_PODS,
    FillOrder,
    InstanceAmount,
    InstanceUnit,
    PodPool,
    pool_problems,
)

_MAX_CPUS: Final = 1 << 16
_MAX_PODS: Final = 1 << 16
_COUNT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
_INSTANCES: Final = re.compile(r"\s*([0-9]{1,5})\s*(%|cpus?)?\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CpuCount:
    """A number of CPUs, at least one; the quotes are optional."""

    def read(self, node: DocumentNode, key: str, report: Report) -> int | None:
        """The number, or None with a problem in the report."""
        if node.tag in ("int", "str") and _COUNT.fullmatch(node.text) and 0 < int(node.text) <= _MAX_CPUS:
            return int(node.text)
        report.expected("a number of CPUs such as 2", "int" if node.tag == "int" else "str", node, key)
        return None

    def form(self) -> dict[str, Any]:
        """A whole number, or its text."""
        number = {"type": "integer", "minimum": 1, "maximum": _MAX_CPUS}
        return {"anyOf": [number, {"type": "string", "pattern": "^[0-9]{1,5}$"}]}


@dataclass(frozen=True, slots=True)
class InstancesField:
    """How many instances a pool has: 3, 3 CPUs, or 50 %. Empty is as good as absent."""

    def read(self, node: DocumentNode, key: str, report: Report) -> InstanceAmount | None:
        """The amount, or None with a problem in the report unless the text is empty."""
        if node.tag == "str" and not node.text:
            return None
        found = _INSTANCES.fullmatch(node.text) if node.tag in ("int", "str") else None
        if found is None:
            report.expected("a number of instances such as 3, 3 CPUs or 50 %", node.tag, node, key)
            return None
        unit = (found[2] or "").lower()
        kind = InstanceUnit.PERCENT if unit == "%" else InstanceUnit.CPUS if unit else InstanceUnit.INSTANCES
        return InstanceAmount(number=int(found[1]), unit=kind)

    def form(self) -> dict[str, Any]:
        """A whole number, or text with a unit."""
        text = {"type": "string", "pattern": "^(\\s*[0-9]{1,5}\\s*(%|[Cc][Pp][Uu][Ss]?)?\\s*)?$"}
        return {"anyOf": [{"type": "integer", "minimum": 0}, text]}


POOL_KEYS: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {
        "Name": Text(),
        "CPU": CpuCount(),
        "MaxPods": Number(NO_PODS, _MAX_PODS),
        "Instances": InstancesField(),
        "FillOrder": Choice({order.value: order for order in FillOrder}),
    }
)
_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Name": "name",
        "CPU": "cpus",
        "MaxPods": "max_pods",
        "Instances": "instances",
        "FillOrder": "fill_order",
    }
)


def make_pod_pool(values: Mapping[str, Any]) -> PodPool:
    """The pool of its keys."""
    return PodPool(**{_FIELDS[key]: value for key, value in values.items()})


def check_pod_pools(pools: tuple[PodPool, ...]) -> tuple[PodPool, ...]:
    """The pools; ValueError with everything that is wrong with them on any machine."""
    if problems := pool_problems(pools):
        raise ValueError("; ".join(problems))
    return pools


def pod_pool_values(pools: tuple[PodPool, ...]) -> Iterator[tuple[str, str]]:
    """What pools are, key by key."""
    for pool in pools:
        for key, field in _FIELDS.items():
            if key != "Name" and (value := getattr(pool, field)) is not None:
                yield f"Pools.{pool.name}.{key}", str(value)
