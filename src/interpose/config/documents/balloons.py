"""The options of the policy balloons in a document: kinds of values, and types as text. Pure.

Names of keys are those of nri-plugins; cri-resmgr's are the same in another case.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from interpose.config.documents.dynamic_pools import PriorityField, Words
from interpose.config.documents.fields import Choice, FieldReader, FlagField, Number, Report, Text
from interpose.config.documents.yaml import DocumentNode
from interpose.core.policy.balloons.options import (
    NONE_FIT,
    BalloonsOptions,
    BalloonType,
    ComponentCreation,
    CoreType,
    LoadClass,
    LoadLevel,
    ShareLevel,
)
from interpose.core.policy.balloons.problems import option_problems
from interpose.core.policy.expressions import Expression, Operator, expression_problem
from interpose.core.topology.topology import MemoryKind

_MOST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class MemoryKinds:
    """A list of kinds of memory, in any case."""

    def read(self, node: DocumentNode, key: str, report: Report) -> frozenset[MemoryKind] | None:
        """The kinds; None with a problem in the report for anything else."""
        known = {kind.value: kind for kind in MemoryKind if kind is not MemoryKind.NONE}
        if node.tag != "list":
            report.expected("a list such as [DRAM, HBM]", "list", node, key)
            return None
        for index, item in enumerate(node.items):
            if item.tag != "str" or item.text.lower() not in known:
                report.expected("DRAM, HBM or PMEM", "str", item, f"{key}[{index}]")
        return frozenset(known[item.text.lower()] for item in node.items if item.text.lower() in known)

    def form(self) -> dict[str, Any]:
        """A list of words, of which only the reader knows the case."""
        return {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True, slots=True)
class NumbersOrGlobs:
    """A list of numbers of interrupts and globs of what they are."""

    def read(self, node: DocumentNode, key: str, report: Report) -> tuple[str, ...] | None:
        """The texts of the list; None with a problem in the report for anything else."""
        if node.tag != "list":
            report.expected("a list such as [12, '*nvme*']", "list", node, key)
            return None
        for index, item in enumerate(node.items):
            if item.tag not in ("str", "int") or not item.text:
                report.expected("a number or a glob", "str", item, f"{key}[{index}]")
        return tuple(item.text for item in node.items)

    def form(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": ["string", "integer"]}}


class BalloonKey(NamedTuple):
    """A key of documents with the field of the options and the kind of its value."""

    field: str
    kind: FieldReader


_FLAG: Final = FlagField()
_COUNT: Final = Number(0, _MOST)


def _words(words: type[ComponentCreation | ShareLevel | CoreType | LoadLevel]) -> Choice:
    return Choice({"": None, **{word.value: word for word in words}})


TYPE_KEYS: Final[Mapping[str, BalloonKey]] = MappingProxyType(
    {
        "name": BalloonKey("name", Text()),
        "componentCreation": BalloonKey("component_creation", _words(ComponentCreation)),
        "namespaces": BalloonKey("namespaces", Words()),
        "groupBy": BalloonKey("group_by", Text()),
        "minCPUs": BalloonKey("min_cpus", _COUNT),
        "maxCPUs": BalloonKey("max_cpus", Number(NONE_FIT, _MOST)),
        "minBalloons": BalloonKey("min_balloons", _COUNT),
        "maxBalloons": BalloonKey("max_balloons", _COUNT),
        "memoryTypes": BalloonKey("memory_types", MemoryKinds()),
        "pinMemory": BalloonKey("pin_memory", _FLAG),
        "allocatorPriority": BalloonKey("priority", PriorityField()),
        "preferSpreadOnPhysicalCores": BalloonKey("spread_on_cores", _FLAG),
        "allocatorTopologyBalancing": BalloonKey("balance", _FLAG),
        "hideHyperthreads": BalloonKey("hide_hyperthreads", _FLAG),
        "loads": BalloonKey("loads", Words()),
        "preferSpreadingPods": BalloonKey("spread_pods", _FLAG),
        "preferPerNamespaceBalloon": BalloonKey("per_namespace", _FLAG),
        "preferNewBalloons": BalloonKey("prefer_new", _FLAG),
        "shareIdleCPUsInSame": BalloonKey("share_idle", _words(ShareLevel)),
        "preferCloseToDevices": BalloonKey("close_to_devices", Words()),
        "preferIsolCpus": BalloonKey("prefer_isolated", _FLAG),
        "preferCoreType": BalloonKey("core_type", _words(CoreType)),
        "cpuClass": BalloonKey("cpu_class", Text()),
        "schedulingClass": BalloonKey("scheduling_class", Text()),
        "irqClaim": BalloonKey("irq_claim", NumbersOrGlobs()),
        "irqMode": BalloonKey("irq_mode", Choice({"": None, "sink": "sink", "isolate": "isolate"})),
        "showContainersInNrt": BalloonKey("show_containers", _FLAG),
    }
)
OPTION_KEYS: Final[Mapping[str, BalloonKey]] = MappingProxyType(
    {
        "pinCPU": BalloonKey("pin_cpu", _FLAG),
        "pinMemory": BalloonKey("pin_memory", _FLAG),
        "reservedPoolNamespaces": BalloonKey("reserved_namespaces", Words()),
        "allocatorTopologyBalancing": BalloonKey("balance", _FLAG),
        "preferSpreadOnPhysicalCores": BalloonKey("spread_on_cores", _FLAG),
        "DisableCPUQuotaWithExclusiveCPUs": BalloonKey("lift_quota", _FLAG),
        "idleCPUClass": BalloonKey("idle_cpu_class", Text()),
        "turboDomain": BalloonKey("turbo_domain", Choice({"package": "package", "system": "system"})),
        "controllableInterrupts": BalloonKey("controllable_interrupts", Words()),
        "showContainersInNrt": BalloonKey("show_containers", _FLAG),
    }
)
LOAD_KEYS: Final[Mapping[str, BalloonKey]] = MappingProxyType(
    {
        "name": BalloonKey("name", Text()),
        "level": BalloonKey("level", Choice({level.value: level for level in LoadLevel})),
        "overloadsLevelInBalloon": BalloonKey("overloads_in_balloon", _FLAG),
    }
)
EXPRESSION_KEYS: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {
        "key": Text(),
        "operator": Choice({operator.value: operator for operator in Operator}),
        "values": Words(),
    }
)
# Lists of groups: key in documents -> field. What is in them has a table of its own.
COMPONENTS: Final = "components"
COMPONENT_TYPE: Final = "balloonType"
MATCH_EXPRESSIONS: Final = "matchExpressions"
TYPES: Final = "balloonTypes"
LOADS: Final = "loadClasses"
PRESERVE: Final = "preserve"
CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {"cpuClasses": "cpu_classes", "schedulingClasses": "scheduling_classes"}
)


def kinds_of(keys: Mapping[str, BalloonKey]) -> dict[str, FieldReader]:
    """The kinds of values by key."""
    return {name: key.kind for name, key in keys.items()}


def make_expression(values: Mapping[str, Any]) -> Expression:
    """The expression; ValueError if its parts do not go together."""
    expression = Expression(values["key"], values["operator"], values.get("values", ()))
    if problem := expression_problem(expression):
        raise ValueError(problem)
    return expression


def make_load_class(values: Mapping[str, Any]) -> LoadClass:
    """The load class of its keys."""
    return LoadClass(**{LOAD_KEYS[key].field: value for key, value in values.items()})


def make_balloon_type(values: Mapping[str, Any]) -> BalloonType:
    """The type of its keys."""
    found = {TYPE_KEYS[key].field: value for key, value in values.items() if key in TYPE_KEYS}
    lists = {COMPONENTS: "components", MATCH_EXPRESSIONS: "match_expressions"}
    return BalloonType(**found, **{field: values[key] for key, field in lists.items() if key in values})


def make_balloons_options(values: Mapping[str, Any]) -> BalloonsOptions:
    """The options; ValueError with everything that is wrong with them on any machine."""
    found = {OPTION_KEYS[key].field: value for key, value in values.items() if key in OPTION_KEYS}
    lists = {TYPES: "types", LOADS: "load_classes", **CLASSES}
    found |= {field: values[key] for key, field in lists.items() if key in values}
    found["preserve"] = values.get(PRESERVE, {}).get(MATCH_EXPRESSIONS, ())
    options = BalloonsOptions(**found)
    if problems := option_problems(options):
        raise ValueError("; ".join(problems))
    return options


# -- as text


def balloons_values(options: BalloonsOptions) -> Iterator[tuple[str, str]]:
    """What the options say, by their keys in documents; of types what is not at its default."""
    for key, (field, _kind) in OPTION_KEYS.items():
        yield key, _text(getattr(options, field))
    yield f"{PRESERVE}.{MATCH_EXPRESSIONS}", "; ".join(map(str, options.preserve))
    for key, field in CLASSES.items():
        yield key, _text(getattr(options, field))
    for load in options.load_classes:
        yield f"{LOADS}.{load.name}", f"{load.level}" + (", within balloons too" if load.overloads_in_balloon else "")
    plain = BalloonType(name="")
    for kind in options.types:
        where = f"{TYPES}.{kind.name}"
        lists = {COMPONENTS: kind.components, MATCH_EXPRESSIONS: kind.match_expressions}
        yield (
            where,
            ", ".join(
                f"{key}: {_text(value)}"
                for key, value in (
                    *(
                        (key, getattr(kind, field))
                        for key, (field, _) in TYPE_KEYS.items()
                        if _differs(kind, plain, field)
                    ),
                    *((key, value) for key, value in lists.items() if value),
                )
            ),
        )


def _differs(kind: BalloonType, plain: BalloonType, field: str) -> bool:
    return field != "name" and getattr(kind, field) != getattr(plain, field)


def _text(value: object) -> str:
    if isinstance(value, frozenset):
        return ",".join(sorted(str(item) for item in value))
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
