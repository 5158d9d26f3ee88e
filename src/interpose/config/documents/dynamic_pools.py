"""The pools of the policy dynamic-pools in a document: kinds of values, and pools as text. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from interpose.config.documents.fields import FieldReader, Report, Text
from interpose.config.documents.yaml import DocumentNode
from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.policy.dynamic_pools.options import DynamicPoolType, type_problems

_PRIORITIES: Final = tuple(CpuPriority)  # by the numbers that they have in documents


@dataclass(frozen=True, slots=True)
class Words:
    """A list of texts, none of them empty."""

    def read(self, node: DocumentNode, key: str, report: Report) -> tuple[str, ...] | None:
        if node.tag != "list":
            report.expected("a list of names such as [batch, team-*]", "list", node, key)
            return None
        for index, item in enumerate(node.items):
            if item.tag != "str" or not item.text:
                report.expected("a name", "str", item, f"{key}[{index}]")
        return tuple(item.text for item in node.items)

    def form(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string", "minLength": 1}}


@dataclass(frozen=True, slots=True)
class PriorityField:
    """A priority of the CPU allocator, by its number or its name."""

    def read(self, node: DocumentNode, key: str, report: Report) -> CpuPriority | None:
        names = {str(number): kind for number, kind in enumerate(_PRIORITIES)} | {
            kind.value: kind for kind in _PRIORITIES
        }
        found = names.get(node.text.lower()) if node.tag in ("int", "str") else None
        if found is None:
            report.expected("0 (high), 1 (normal), 2 (low) or 3 (none)", node.tag, node, key)
        return found

    def form(self) -> dict[str, Any]:
        number = {"type": "integer", "minimum": 0, "maximum": len(_PRIORITIES) - 1}
        return {"anyOf": [number, {"type": "string"}]}


TYPE_KEYS: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {
        "Name": Text(),
        "Namespaces": Words(),
        "CpuClass": Text(),
        "AllocatorPriority": PriorityField(),
    }
)
_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {"Name": "name", "Namespaces": "namespaces", "CpuClass": "cpu_class", "AllocatorPriority": "priority"}
)


def make_dynamic_pool(values: Mapping[str, Any]) -> DynamicPoolType:
    """The pool of its keys."""
    return DynamicPoolType(**{_FIELDS[key]: value for key, value in values.items()})


def check_types(types: tuple[DynamicPoolType, ...]) -> tuple[DynamicPoolType, ...]:
    """The pools; ValueError with everything that is wrong with them on any machine."""
    if problems := type_problems(types):
        raise ValueError("; ".join(problems))
    return types


def dynamic_pool_values(types: tuple[DynamicPoolType, ...]) -> Iterator[tuple[str, str]]:
    """What pools are, key by key."""
    for pool in types:
        yield f"DynamicPoolTypes.{pool.name}.Namespaces", ",".join(pool.namespaces)
        yield f"DynamicPoolTypes.{pool.name}.AllocatorPriority", pool.priority.value
        if pool.cpu_class:
            yield f"DynamicPoolTypes.{pool.name}.CpuClass", pool.cpu_class
