"""The options of each policy in a document: names, kinds of values, and the typed options they become.

Keys count in any case, as in the files of others that this reads: `cpuLists` is `CPULists`. Pure; problems go to the
report of the document.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from interpose.config.documents import balloons
from interpose.config.documents.dynamic_pools import (
    TYPE_KEYS,
    Words,
    check_types,
    dynamic_pool_values,
    make_dynamic_pool,
)
from interpose.config.documents.fields import (
    FieldGroup,
    FieldReader,
    FlagField,
    Items,
    NamedFields,
    Number,
    PlainValues,
    Report,
    Text,
    Unread,
)
from interpose.config.documents.pod_pools import POOL_KEYS, check_pod_pools, make_pod_pool, pod_pool_values
from interpose.config.documents.topology_aware import TOPOLOGY_AWARE, TOPOLOGY_AWARE_KEYS, make_topology_aware
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.resources import empty_map
from interpose.core.policy.balloons.options import BalloonsOptions
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions
from interpose.core.policy.external import ExternalOptions
from interpose.core.policy.podpools.options import PodPoolsOptions
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions, contradictions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.topology_aware.options import TopologyAwareOptions

_MAX_SOCKET: Final = 4095


# -- kinds that only these documents have


@dataclass(frozen=True, slots=True)
class AnyCase:
    """A group whose keys count in any case, and under other names as well: `aliases` are in lower case."""

    group: FieldGroup
    aliases: Mapping[str, str] = field(default_factory=empty_map)

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        """What the group makes of it; two spellings of one key are that key given twice."""
        names = {known.lower(): known for known in self.group.keys} | dict(self.aliases)
        entries = tuple((names.get(name.lower(), name), child) for name, child in node.entries)
        return self.group.read(replace(node, entries=entries), key, report)

    def form(self) -> dict[str, Any]:
        """The keys as they are best written, for editors that offer them; what they hold, in any spelling."""
        keys: Mapping[str, Any] = self.group.form()["properties"]
        named = [(name, name) for name in keys] + [(alias, name) for alias, name in self.aliases.items()]
        spelled = {_any_case(alias): keys[name] for alias, name in named if name in keys}
        # What is required may be spelled otherwise: the reader says what is missing.
        offered: dict[str, Any] = {name: {} for name in keys}
        return {"type": "object", "properties": offered, "patternProperties": spelled, "additionalProperties": False}


def _any_case(name: str) -> str:
    """A pattern for a name in any case; JSON Schema has no switch for that."""
    return "^" + "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in name.lower()) + "$"


@dataclass(frozen=True, slots=True)
class FlagText:
    """True or false, also as text: the kubelet's options are a map of texts."""

    def read(self, node: DocumentNode, key: str, report: Report) -> bool | None:
        if node.tag == "str" and node.text.lower() in ("true", "false"):
            return node.text.lower() == "true"
        return FlagField().read(node, key, report)

    def form(self) -> dict[str, Any]:
        """A boolean, or its text."""
        return {
            "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"}]
        }


@dataclass(frozen=True, slots=True)
class Cpus:
    """A list of CPUs, with the text it was written as; one CPU needs no quotes."""

    def read(self, node: DocumentNode, key: str, report: Report) -> tuple[CpuSet, str] | None:
        """The CPUs and the text."""
        if node.tag not in ("str", "int"):
            report.expected("a list of CPUs such as 0-3,8", "str", node, key)
            return None
        try:
            cpus = CpuSet.parse(node.text)
        except ValueError as error:
            report.say(node, key, str(error))
            return None
        if not cpus:
            report.say(node, key, "the list of CPUs is empty")
        return cpus, node.text

    def form(self) -> dict[str, Any]:
        """One CPU, or text of which only the reader can tell."""
        return {"type": ["string", "integer"]}


@dataclass(frozen=True, slots=True)
class AbsolutePath:
    """An absolute path; empty is as good as absent."""

    def read(self, node: DocumentNode, key: str, report: Report) -> str | None:
        if node.tag == "str" and not node.text:
            return None
        if node.tag == "str" and node.text.startswith("/") and node.text.isprintable():
            return node.text
        report.expected("an absolute path", "str", node, key)
        return None

    def form(self) -> dict[str, Any]:
        """A path, or empty."""
        return {"type": "string", "pattern": "^(/|$)"}


# -- the tables

_QUOTA_KEY: Final = "DisableCPUQuotaWithExclusiveCPUs"  # the kubelet's feature gate
# Keys in documents -> names of the options.
_STATIC: Final[Mapping[str, str]] = MappingProxyType(
    {"RelaxedIsolation": "relaxed_isolation", "PinMemory": "pin_memory", _QUOTA_KEY: "lift_quota"}
)
_KUBELET: Final = (
    "full-pcpus-only",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
)
_KUBELET_KEY: Final = "CPUManagerPolicyOptions"
_POOLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pools": "pools",
        "ConfFilePath": "conf_file",
        "ConfDirPath": "conf_dir",
        "LabelNode": "label_node",
        "TaintNode": "taint_node",
    }
)
_POD_POOLS: Final[Mapping[str, str]] = MappingProxyType(
    {"PinCPU": "pin_cpu", "PinMemory": "pin_memory", "Pools": "pools"}
)
_DYNAMIC_POOLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PinCPU": "pin_cpu",
        "PinMemory": "pin_memory",
        "ReservedPoolNamespaces": "reserved_namespaces",
        "DynamicPoolTypes": "types",
    }
)
_EXTERNAL: Final[Mapping[str, str]] = MappingProxyType({"EntryPoint": "entry_point", "Options": "options"})


def _static(values: dict[str, Any]) -> StaticOptions:
    plain = {_STATIC[key]: value for key, value in values.items() if key in _STATIC}
    return StaticOptions(**plain, **values.get(_KUBELET_KEY, {}))


def _kubelet(values: dict[str, Any]) -> dict[str, Any]:
    options = {key.replace("-", "_"): value for key, value in values.items()}
    if clashes := contradictions(StaticOptions(**options)):
        raise ValueError("; ".join(clashes))
    return options


def _static_plus(values: dict[str, Any]) -> StaticPlusOptions:
    return StaticPlusOptions(**{_STATIC[key]: value for key, value in values.items()})


def _static_pools(values: dict[str, Any]) -> PoolsOptions:
    return PoolsOptions(**{_POOLS[key]: value for key, value in values.items()})


def _podpools(values: dict[str, Any]) -> PodPoolsOptions:
    return PodPoolsOptions(**{_POD_POOLS[key]: value for key, value in values.items()})


def _dynamic_pools(values: dict[str, Any]) -> DynamicPoolsOptions:
    return DynamicPoolsOptions(**{_DYNAMIC_POOLS[key]: value for key, value in values.items()})


def _external(values: dict[str, Any]) -> ExternalOptions:
    return ExternalOptions(**{_EXTERNAL[key]: value for key, value in values.items()})


def _lists(lists: tuple[PoolCpuList, ...]) -> tuple[PoolCpuList, ...]:
    if not lists:
        raise ValueError("has no CPU lists")
    return lists


def _cpu_list(values: dict[str, Any]) -> PoolCpuList:
    cpus, text = values["Cpuset"]
    return PoolCpuList(cpus=cpus, text=text, socket=values["Socket"])


def _pool(values: dict[str, Any]) -> Pool:
    return Pool(exclusive=values.get("exclusive", False), lists=values["cpuLists"])


def _nothing(_values: dict[str, Any]) -> None:
    return None


def _balloons() -> AnyCase:
    """The options of balloons. Lists of groups are put together here, where keys count in any case."""

    def items(keys: Mapping[str, FieldReader], make: Callable[[dict[str, Any]], Any], *required: str) -> Items:
        return Items(AnyCase(FieldGroup(keys, make, required=required)), tuple)

    expressions = items(balloons.EXPRESSION_KEYS, balloons.make_expression, "key", "operator")
    component = balloons.COMPONENT_TYPE
    components = items({component: Text()}, lambda values: values[component], component)
    named = Items(FieldGroup({"name": Text()}, lambda values: values["name"], ("name",), loose=True), tuple)
    types = {
        **balloons.kinds_of(balloons.TYPE_KEYS),
        balloons.COMPONENTS: components,
        balloons.MATCH_EXPRESSIONS: expressions,
    }
    keys = {
        **balloons.kinds_of(balloons.OPTION_KEYS),
        balloons.PRESERVE: AnyCase(FieldGroup({balloons.MATCH_EXPRESSIONS: expressions})),
        balloons.LOADS: items(balloons.kinds_of(balloons.LOAD_KEYS), balloons.make_load_class, "name", "level"),
        **dict.fromkeys(balloons.CLASSES, named),
        balloons.TYPES: items(types, balloons.make_balloon_type, "name"),
    }
    return AnyCase(FieldGroup(keys, balloons.make_balloons_options))


_CPU_LIST: Final = AnyCase(
    FieldGroup({"Cpuset": Cpus(), "Socket": Number(0, _MAX_SOCKET)}, _cpu_list, required=("Cpuset", "Socket"))
)
_POOL: Final = AnyCase(
    FieldGroup({"exclusive": FlagField(), "cpuLists": Items(_CPU_LIST, _lists)}, _pool, required=("cpuLists",))
)
_POOL_MAP: Final = NamedFields(_POOL)
_POOL_FILE: Final = AnyCase(FieldGroup({"pools": _POOL_MAP}, required=("pools",)))

OPTIONS: Final[Mapping[str, AnyCase]] = MappingProxyType(
    {
        "none": AnyCase(FieldGroup({}, _nothing)),
        "static": AnyCase(
            FieldGroup(
                {
                    "RelaxedIsolation": FlagField(),
                    "PinMemory": FlagField(),
                    _QUOTA_KEY: FlagField(),
                    _KUBELET_KEY: AnyCase(FieldGroup({name: FlagText() for name in _KUBELET}, _kubelet)),
                    "Rdt": Unread(),
                },
                _static,
            )
        ),
        "static-plus": AnyCase(FieldGroup({"PinMemory": FlagField(), _QUOTA_KEY: FlagField()}, _static_plus)),
        "static-pools": AnyCase(
            FieldGroup(
                {
                    "pools": _POOL_MAP,
                    "ConfFilePath": AbsolutePath(),
                    "ConfDirPath": AbsolutePath(),
                    "LabelNode": FlagField(),
                    "TaintNode": FlagField(),
                },
                _static_pools,
            )
        ),
        "topology-aware": AnyCase(FieldGroup(TOPOLOGY_AWARE_KEYS, make_topology_aware)),
        "podpools": AnyCase(
            FieldGroup(
                {
                    "PinCPU": FlagField(),
                    "PinMemory": FlagField(),
                    "Pools": Items(AnyCase(FieldGroup(POOL_KEYS, make_pod_pool, required=("Name",))), check_pod_pools),
                },
                _podpools,
            )
        ),
        "dynamic-pools": AnyCase(
            FieldGroup(
                {
                    "PinCPU": FlagField(),
                    "PinMemory": FlagField(),
                    "ReservedPoolNamespaces": Words(),
                    "IdleCPUClass": Unread(),
                    "DynamicPoolTypes": Items(
                        AnyCase(FieldGroup(TYPE_KEYS, make_dynamic_pool, required=("Name",))), check_types
                    ),
                },
                _dynamic_pools,
            )
        ),
        "balloons": _balloons(),
        "external": AnyCase(FieldGroup({"EntryPoint": Text(), "Options": PlainValues()}, _external)),
    }
)


# Of a policy of which a document says nothing; those without options are not here.
DEFAULT_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "static": StaticOptions(),
        "static-plus": StaticPlusOptions(),
        "static-pools": PoolsOptions(),
        "topology-aware": TopologyAwareOptions(),
        "podpools": PodPoolsOptions(),
        "dynamic-pools": DynamicPoolsOptions(),
        "balloons": BalloonsOptions(),
        "external": ExternalOptions(),
    }
)
_KEYS: Final[Mapping[type[Any], Mapping[str, str]]] = MappingProxyType(
    {
        StaticOptions: _STATIC,
        StaticPlusOptions: _STATIC,
        PoolsOptions: _POOLS,
        TopologyAwareOptions: TOPOLOGY_AWARE,
        PodPoolsOptions: _POD_POOLS,
        DynamicPoolsOptions: _DYNAMIC_POOLS,
        ExternalOptions: _EXTERNAL,
    }
)


def option_values(options: Any) -> Iterator[tuple[str, str]]:
    """What the options of a policy say, by their keys in documents."""
    if isinstance(options, BalloonsOptions):
        yield from balloons.balloons_values(options)
        return
    if isinstance(options, StaticOptions):
        for key in _KUBELET:
            yield f"{_KUBELET_KEY}.{key}", _word(getattr(options, key.replace("-", "_")))
    for key, field_name in _KEYS[type(options)].items():
        if key == "pools":
            yield from pool_values(options.pools)
        elif key == "Pools":
            yield from pod_pool_values(options.pools)
        elif key == "DynamicPoolTypes":
            yield from dynamic_pool_values(options.types)
        elif hasattr(options, field_name):
            yield key, _word(getattr(options, field_name))


def pool_values(pools: Mapping[str, Pool]) -> Iterator[tuple[str, str]]:
    """What pools are, key by key."""
    for name, pool in pools.items():
        yield f"pools.{name}.exclusive", _word(pool.exclusive)
        for index, one in enumerate(pool.lists):
            yield f"pools.{name}.cpuLists[{index}]", f"{one.cpus} of socket {one.socket}"


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_options(name: str, node: DocumentNode, where: str, report: Report) -> Any:
    """The options of a policy, by its name and no alias. `where` is the key they stand under.

    None with a problem in the report if they cannot be used; null is a policy of which nothing is said.
    """
    group = OPTIONS[name]
    return group.read(DocumentNode(tag="map", line=node.line) if node.tag == "null" else node, where, report)


def without_effect(name: str, node: DocumentNode) -> tuple[tuple[str, DocumentNode], ...]:
    """What is accepted in the options of a policy and does nothing, for a warning."""
    unread = {key.lower() for key, kind in OPTIONS[name].group.keys.items() if isinstance(kind, Unread)}
    return tuple((key, child) for key, child in node.entries if key.lower() in unread)


def names_option(policy: str, path: str) -> bool:
    """Whether this is an option of a policy, or with a dot one of a group of options, in any case."""
    name, _, below = path.lower().partition(".")
    kind = next((kind for key, kind in OPTIONS[policy].group.keys.items() if key.lower() == name), None)
    if not below:
        return kind is not None
    return isinstance(kind, AnyCase) and below in {key.lower() for key in kind.group.keys}


def read_pools(node: DocumentNode, where: str) -> Mapping[str, Pool]:
    """The pools of a file that holds nothing else; ConfigError with all problems, each beginning with `where`."""
    report = Report(where)
    found = _POOL_FILE.read(node, "", report)
    report.settle()
    pools: Mapping[str, Pool] = found["pools"]
    return pools
