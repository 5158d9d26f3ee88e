"""Resctrl: a share of the last-level cache and of the memory bandwidth for a pod, as its annotation says.

The annotation talks of percent; the value is what a resctrl group takes: bit masks of cache ways and the processor's
own measure of bandwidth, for every cache there is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from interpose.config.strict_json import Object, Whole, describe, expect
from interpose.core.model.cgroup import Level, Parameter
from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import PodContext
from interpose.hooks.server.plugin import Input, NodeInputs, Plugin, Resctrl
from interpose.hooks.server.pods.pod_annotations import read_annotation

T = TypeVar("T")
Reader = Callable[[Any, str], T]

ANNOTATION: Final = "node.koordinator.sh/resctrl"
_LAST_ID: Final = 2**31 - 1
_AMD_WHOLE: Final = 2048  # no limit, in eighths of a GB/s
_AMD_MOST: Final = 160  # what one cache's cores get out of memory: 25 GB/s, of which 80 percent, in eighths


def _intel_bandwidth(percent: int) -> int:
    return -(-percent // 10) * 10


def _amd_bandwidth(percent: int) -> int:
    return _AMD_WHOLE if percent == 100 else max(_AMD_MOST * percent // 100, 1)


# Percent to what the MB line takes. Bandwidth of other processors is left alone.
_BANDWIDTH: Final[Mapping[str, Callable[[int], int]]] = MappingProxyType(
    {"GenuineIntel": _intel_bandwidth, "AuthenticAMD": _amd_bandwidth}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResctrlRule:
    """What this node can partition; None if nothing."""

    kernel: Resctrl | None


class ResctrlPlugin(Plugin[ResctrlRule]):
    """One group per pod that asks for it."""

    name = "Resctrl"
    switch = "resctrl"
    summary = "give pods the part of the last-level cache and of the memory bandwidth that their annotation asks for"
    inputs = frozenset((Input.KERNEL,))
    stages = frozenset(
        (
            HookPoint.PRE_RUN_POD_SANDBOX,
            HookPoint.PRE_CREATE_CONTAINER,
            HookPoint.POST_START_CONTAINER,
            HookPoint.POST_STOP_POD_SANDBOX,
        )
    )
    serves = MappingProxyType({Level.POD: frozenset((Parameter.RESCTRL,))})

    def rule(self, node: NodeInputs, previous: ResctrlRule | None) -> ResctrlRule:
        """What the kernel shows; a cache mask with holes cannot be cut by percent."""
        kernel = node.kernel.resctrl
        if kernel is not None and kernel.cbm_mask & (kernel.cbm_mask + 1):
            raise ValueError(f"resctrl: cbm_mask {kernel.cbm_mask:x} of the L3 cache has holes")
        return ResctrlRule(kernel=kernel)

    def pod(self, rule: ResctrlRule, context: PodContext) -> None:
        """The schemata of the pod's group."""
        text = context.request.annotations.get(ANNOTATION)
        if rule.kernel is None or text is None:
            return
        try:
            schemata = schemata_of(text, rule.kernel)
        except (ConfigError, ValueError) as error:
            raise ValueError(f"annotation {error}") from None
        if schemata:
            context.response.set(Parameter.RESCTRL, schemata, f"annotation {ANNOTATION}")


def schemata_of(text: str, kernel: Resctrl) -> str:
    """The lines of a group for an annotation. Caches it does not name have what it says for all, else everything."""
    parts = _fields(read_annotation(text, ANNOTATION), ANNOTATION)
    ways = kernel.cbm_mask.bit_length()
    llc = _settings(parts.get("llc"), f"{ANNOTATION}: llc", "range", _range, kernel.l3_ids, (0, 100))
    mb = _settings(parts.get("mb"), f"{ANNOTATION}: mb", "percent", _percent, kernel.mb_ids, 100)
    bandwidth = _BANDWIDTH.get(kernel.vendor)
    lines = ""
    if llc and ways:
        lines += f"L3:{''.join(f'{cache}={cache_mask(ways, *part):x};' for cache, part in llc.items())}\n"
    if mb and bandwidth is not None:
        lines += f"MB:{''.join(f'{cache}={bandwidth(percent)};' for cache, percent in mb.items())}\n"
    return lines


def cache_mask(ways: int, start: int, end: int) -> int:
    """The ways from one percentage to another, both rounded up. The kernel wants at least one."""
    high = -(-ways * end // 100)
    low = min(-(-ways * start // 100), high - 1)
    return (1 << high) - (1 << low)


def _settings(value: Any, where: str, key: str, read: Reader[T], caches: tuple[int, ...], whole: T) -> dict[int, T]:
    """What every cache gets; empty if nothing is asked for."""
    fields = _fields(value, where)
    common = _fields(fields.get("schemata"), f"{where}.schemata").get(key)
    singles = _list(fields.get("schematapercache"), f"{where}.schemataPerCache")
    if common is None and not singles:
        return {}
    rest = whole if common is None else read(common, f"{where}.schemata.{key}")
    settings = dict.fromkeys(caches, rest)
    for index, entry in enumerate(singles):
        location = f"{where}.schemataPerCache[{index}]"
        parts = _fields(entry, location)
        cache = _number(parts.get("cacheid"), f"{location}.cacheID", 0, _LAST_ID)
        if caches and cache not in caches:
            known = ", ".join(map(str, caches))
            raise ValueError(f"{location}.cacheID: this node has no cache {cache}, it has {known}")
        setting = read(parts.get(key), f"{location}.{key}")
        if caches:
            settings[cache] = setting
    return settings


def _range(value: Any, where: str) -> tuple[int, int]:
    entries = _list(value, where)
    if len(entries) != 2:
        raise ValueError(f"{where}: expected two percentages, start and end, found {len(entries)}")
    start, end = (_number(entry, f"{where}[{index}]", 0, 100) for index, entry in enumerate(entries))
    if start >= end:
        raise ValueError(f"{where}: expected a start below the end, found {start} and {end}")
    return start, end


def _percent(value: Any, where: str) -> int:
    return _number(value, where, 1, 100)


# -- JSON as Go reads it: names of fields without regard to case, null is as good as absent


def _fields(value: Any, where: str) -> dict[str, Any]:
    return {} if value is None else {key.lower(): entry for key, entry in expect(value, where, Object).pairs}


def _list(value: Any, where: str) -> list[Any]:
    found: list[Any] = [] if value is None else expect(value, where, list)
    return found


def _number(value: Any, where: str, lowest: int, highest: int) -> int:
    if not isinstance(value, Whole) or len(value) > 12 or not lowest <= int(value) <= highest:
        found = "nothing" if value is None else describe(value)
        raise ValueError(f"{where}: expected a whole number from {lowest} to {highest}, found {found}")
    return int(value)
