"""What annotations of pods say, and those of their node that plugins read: Koordinator's JSON in, typed values out.

Read as Go reads it: names of fields match without regard to case, unknown ones are ignored, null is as good as absent,
a quantity is text or a number. Whatever the text is, the outcome is a value or a ValueError that names the annotation,
the place in it and what was found there. Everybody who may create pods can write these texts, so their size is bounded:
the largest takes no longer to read than some hundred values.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from interpose.config.strict_json import Object, Whole, about_annotation, describe, expect, read_object
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Pod
from interpose.core.model.qos import QosClass
from interpose.core.model.quantity import MAX_QUANTITY, parse_quantity, whole
from interpose.core.model.text import quoted
from interpose.errors import ConfigError

RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
EXTENDED_RESOURCES: Final = "node.koordinator.sh/extended-resource-spec"
DEVICE_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
OOM_SCORE: Final = "koordinator.sh/oom-score-adj"
OOM_SCORES: Final = "koordinator.sh/oom-score-adj-spec"
SYSTEM_QOS: Final = "node.koordinator.sh/system-qos-resource"  # of nodes
NORMALIZATION_RATIO: Final = "node.koordinator.sh/cpu-normalization-ratio"  # of nodes
MANAGED: Final = "interpose/managed"
SKIP_HOOKS: Final = "runtimeproxy.koordinator.sh/skip-hookserver"

MAX_TEXT: Final = 16 * 1024  # characters; the largest pods there are need a tenth
_MAX_COMMAS: Final = 512  # each is between two values, or between two CPUs

_MAX_NODE: Final = 1023  # of NUMA nodes; kernels are built for at most so many
_MAX_MINOR: Final = 2**20 - 1  # of devices, in the kernel
_MAX_MILLI: Final = 10**9  # a million CPUs, and still a quota that fits into CRI's number
_SAME_RATIO: Final = 0.01
_OOM_RANGE: Final = (-1000, 1000)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")

Amounts = Mapping[str, Fraction]
T = TypeVar("T")


def _no_amounts() -> Amounts:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaResources:
    """What the scheduler gave a pod on one NUMA node."""

    node: int
    resources: Amounts = field(default_factory=_no_amounts, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStatus:
    """Where the scheduler put a pod: the CPUs that are its own, as a normalised list, and its NUMA nodes."""

    cpuset: str = ""
    numa: tuple[NumaResources, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedResources:
    """Resources of a container that CRI does not carry, by name."""

    requests: Amounts = field(default_factory=_no_amounts, hash=False)
    limits: Amounts = field(default_factory=_no_amounts, hash=False)
    init: bool = False  # whether it ends before those that come after it start


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedDevice:
    """A device, or a part of one, that is a pod's."""

    minor: int
    resources: Amounts = field(default_factory=_no_amounts, hash=False)
    id: str = ""


def is_managed(pod: Pod) -> bool:
    """Whether we may touch a pod: one that opts out, or that no hook server is asked about, is left alone."""
    return not any(
        marks.get(MANAGED, "").strip().lower() == "false" or marks.get(SKIP_HOOKS) == "true"
        for marks in (pod.labels, pod.annotations)
    )


def resource_status(annotations: Mapping[str, str]) -> ResourceStatus:
    """The scheduler's decision; empty without one."""
    with about_annotation():
        fields = _fields(_document(annotations, RESOURCE_STATUS), RESOURCE_STATUS)
        cpuset = _cpus(fields.get("cpuset"), f"{RESOURCE_STATUS}: cpuset")
        numa = _each(fields.get("numanoderesources"), f"{RESOURCE_STATUS}: numaNodeResources", _numa_resources)
        return ResourceStatus(cpuset=cpuset, numa=numa)


def extended_resources(annotations: Mapping[str, str]) -> Mapping[str, ExtendedResources]:
    """Batch and mid resources by container, in the order of the text; empty without any."""
    with about_annotation():
        fields = _fields(_document(annotations, EXTENDED_RESOURCES), EXTENDED_RESOURCES)
        return _by_name(fields.get("containers"), f"{EXTENDED_RESOURCES}: containers", _extended)


def device_allocated(annotations: Mapping[str, str]) -> Mapping[str, tuple[AllocatedDevice, ...]]:
    """Devices by kind ("gpu", "rdma"); empty without any."""
    with about_annotation():
        document = _document(annotations, DEVICE_ALLOCATED)
        return _by_name(document, DEVICE_ALLOCATED, lambda value, where: _each(value, where, _device))


def oom_scores(annotations: Mapping[str, str]) -> Mapping[str, int]:
    """OOM scores by container; empty without any."""
    with about_annotation():
        return _by_name(_document(annotations, OOM_SCORES), OOM_SCORES, _oom_score)


def oom_score(annotations: Mapping[str, str]) -> int | None:
    """The OOM score of all containers that have none of their own."""
    text = annotations.get(OOM_SCORE)
    if text is None:
        return None
    with about_annotation():
        return _oom_score(Whole(text.strip()) if _WHOLE.fullmatch(text.strip()) else text, OOM_SCORE)


# -- batch and mid: what is left over by others, counted in thousandths of a CPU and in bytes


class _Tier(NamedTuple):
    """Names of the resources of a tier, the one in use first."""

    cpu: tuple[str, ...]
    memory: tuple[str, ...]


_BATCH: Final = _Tier(
    ("kubernetes.io/batch-cpu", "koordinator.sh/batch-cpu"),
    ("kubernetes.io/batch-memory", "koordinator.sh/batch-memory"),
)
_MID: Final = _Tier(("kubernetes.io/mid-cpu",), ("kubernetes.io/mid-memory",))
_TIERS: Final[Mapping[QosClass | None, tuple[_Tier, ...]]] = MappingProxyType(
    {QosClass.BE: (_BATCH, _MID), QosClass.LS: (_MID,), None: (_MID,)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColocatedAmounts:
    """What a container has of a tier; zero is none."""

    cpu_request: int = 0  # thousandths of a CPU, as the limit
    cpu_limit: int = 0
    memory_limit: int = 0  # bytes


def colocated_amounts(qos: QosClass | None, extended: ExtendedResources) -> ColocatedAmounts | None:
    """What a container has of the tier that pods of its class may use; None if it mentions no such resource.

    ValueError if it is more than a node can have.
    """
    for tier in _TIERS.get(qos, ()):
        if any(name in extended.requests or name in extended.limits for name in (*tier.cpu, *tier.memory)):
            return ColocatedAmounts(
                cpu_request=_first(extended.requests, tier.cpu, _MAX_MILLI),
                cpu_limit=_first(extended.limits, tier.cpu, _MAX_MILLI),
                memory_limit=_first(extended.limits, tier.memory, MAX_QUANTITY),
            )
    return None


def _first(amounts: Amounts, names: tuple[str, ...], highest: int) -> int:
    for name in names:
        if name in amounts:
            amount = whole(amounts[name])
            if amount > highest:
                raise ValueError(f"annotation {EXTENDED_RESOURCES}: {name}: {amount} is more than {highest}")
            return amount
    return 0


# -- the node


def system_cpuset(annotations: Mapping[str, str]) -> str:
    """The CPUs of pods of class SYSTEM, as a normalised list, from a node's annotations; empty if there are none."""
    with about_annotation():
        fields = _fields(_document(annotations, SYSTEM_QOS), SYSTEM_QOS)
        return _cpus(fields.get("cpuset"), f"{SYSTEM_QOS}: cpuset")


def normalization_ratio(annotations: Mapping[str, str], previous: float | None) -> float | None:
    """How much faster this node's CPUs are than one counts on; None if nobody says so.

    `previous` is the ratio in force: it stays while the new one differs by less than a hundredth, so that a ratio that
    is measured does not have every container updated all the time.
    """
    text = annotations.get(NORMALIZATION_RATIO)
    if text is None:
        return None
    try:
        ratio = float(parse_quantity(text.strip()))
    except ValueError:
        ratio = 0.0
    if ratio <= 0:
        raise ValueError(f"annotation {NORMALIZATION_RATIO}: expected a number above zero, found {quoted(text)}")
    return previous if previous is not None and abs(ratio - previous) < _SAME_RATIO else ratio


# -- parts


def _numa_resources(value: Any, where: str) -> NumaResources:
    fields = _fields(value, where)
    node = _number(fields.get("node"), f"{where}.node", 0, _MAX_NODE)
    return NumaResources(node=node, resources=_amounts(fields.get("resources"), f"{where}.resources"))


def _extended(value: Any, where: str) -> ExtendedResources:
    fields = _fields(value, where)
    return ExtendedResources(
        requests=_amounts(fields.get("requests"), f"{where}.requests"),
        limits=_amounts(fields.get("limits"), f"{where}.limits"),
        init=_flag(fields.get("init"), f"{where}.init"),
    )


def _device(value: Any, where: str) -> AllocatedDevice:
    fields = _fields(value, where)
    return AllocatedDevice(
        minor=_number(fields.get("minor"), f"{where}.minor", 0, _MAX_MINOR),
        resources=_amounts(fields.get("resources"), f"{where}.resources"),
        id=_text(fields.get("id"), f"{where}.id"),
    )


def _oom_score(value: Any, where: str) -> int:
    return _number(value, where, *_OOM_RANGE)


def _cpus(value: Any, where: str) -> str:
    text = _text(value, where)
    try:
        return str(CpuSet.parse(text))
    except ValueError:
        raise ValueError(f"{where}: expected a list of CPUs such as 0-3,8, found {quoted(text)}") from None


def _amounts(value: Any, where: str) -> Amounts:
    return _by_name(value, where, _amount)


def _amount(value: Any, where: str) -> Fraction:
    if value is None:
        return Fraction(0)
    if not isinstance(value, str):
        raise ValueError(f"{where}: expected a quantity, found {describe(value)}")
    try:
        return parse_quantity(str(value), negative=False)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


# -- JSON


def _document(annotations: Mapping[str, str], annotation: str) -> Object | None:
    text = annotations.get(annotation)
    return None if text is None else read_annotation(text, annotation)


def read_annotation(text: str, where: str) -> Object:
    """The object in the text of an annotation; ConfigError if there is none, or more than anybody needs."""
    if len(text) > MAX_TEXT:
        raise ConfigError(f"{where}: has {len(text)} characters, more than {MAX_TEXT}")
    if (commas := text.count(",")) > _MAX_COMMAS:
        raise ConfigError(f"{where}: has {commas} commas, more than {_MAX_COMMAS}")
    return read_object(text, where)


def _fields(value: Any, where: str) -> dict[str, Any]:
    """The fields of an object under their names in small letters; of several the last counts."""
    return {} if value is None else {key.lower(): entry for key, entry in expect(value, where, Object).pairs}


def _by_name(value: Any, where: str, read: Callable[[Any, str], T]) -> Mapping[str, T]:
    """An object whose keys are names of somebody else's choice, so that case matters."""
    if value is None:
        return MappingProxyType({})
    pairs = expect(value, where, Object).pairs
    return MappingProxyType({key: read(entry, f"{where}[{quoted(key)}]") for key, entry in pairs})


def _each(value: Any, where: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    if value is None:
        return ()
    return tuple(read(entry, f"{where}[{index}]") for index, entry in enumerate(expect(value, where, list)))


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    found: str = expect(value, where, str)
    return found


def _flag(value: Any, where: str) -> bool:
    return value is not None and bool(expect(value, where, bool))


def _number(value: Any, where: str, lowest: int, highest: int) -> int:
    """A whole number in a range. It has no default: a device or a node that is not named is nobody's first one."""
    if value is None:
        raise ValueError(f"{where}: is missing")
    if not isinstance(value, Whole) or not _WHOLE.fullmatch(value) or not lowest <= int(value) <= highest:
        raise ValueError(f"{where}: expected a whole number from {lowest} to {highest}, found {describe(value)}")
    return int(value)
