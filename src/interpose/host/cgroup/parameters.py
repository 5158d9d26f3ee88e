"""The one table of what can be set on a cgroup: which file, in which form, on cgroup v1 and on cgroup v2.

Values are those of `core.model.cgroup`; texts are what the kernel reads and writes. Pure: nothing here opens a file.
Invariant: what `render` writes and a kernel accepts, `parse` reads back as a value that is `same`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from interpose.core.model.cgroup import (
    CLEAR,
    MAX_SHARES,
    MIN_QUOTA,
    MIN_SHARES,
    PERIOD,
    UNLIMITED,
    Parameter,
    Special,
    Value,
)
from interpose.core.model.cpuset import CpuSet

PAGE: Final = 4096
MIN_WEIGHT: Final = 1
MAX_WEIGHT: Final = 10_000
MAX_QUOTA: Final = (1 << 44) - 1  # microseconds; the kernel refuses more
MAX_PERIOD: Final = 1_000_000
# No limit reads as 2^63 - 1 rounded down to a page, on v1. Pages have up to 64 KiB; no node has that much memory.
_NO_MEMORY_LIMIT: Final = (1 << 63) - (1 << 16)
# Writing nothing at all does not reach the kernel: write(2) of no bytes does nothing.
_EMPTY: Final = "\n"


def weight_of(shares: int) -> int:
    """The weight of cgroup v2 for CPU shares of v1, in proportion: the kubelet's conversion, and older runtimes'."""
    return min(max(1 + (shares - MIN_SHARES) * (MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES), MIN_WEIGHT), MAX_WEIGHT)


def curved_weight_of(shares: int) -> int:
    """The weight by newer runtimes (runc from 1.3.2 on, crun from 1.23 on): the default of v1 has the default of v2.

    The common logarithm of the weight is a square function of the binary one of the shares.
    """
    doublings = math.log2(min(max(shares, MIN_SHARES), MAX_SHARES))
    return math.ceil(round(10 ** ((doublings + 125) * doublings / 612 - 7 / 34), 9))


def shares_of_weight(weight: int) -> int:
    """The least CPU shares that have this weight, so that writing them back changes nothing.

    An idle group has weight 0 on some kernels, which counts as the least.
    """
    return -((1 - max(weight, MIN_WEIGHT)) * (MAX_SHARES - MIN_SHARES) // (MAX_WEIGHT - 1)) + MIN_SHARES


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterFormat:
    """The file of a parameter in one version of cgroups, and how its values are parsed and rendered."""

    file: str
    parse: Callable[[str], Value]
    render: Callable[[Value], str]
    # The file holds another value as well: (what was rendered, what the file has now) -> what to write.
    join: Callable[[str, str], str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpec:
    """What is known of one parameter. `cleared` is the value that CLEAR stands for; None if there is no such thing."""

    controller: str  # the hierarchy it is in on v1
    v1: ParameterFormat
    v2: ParameterFormat
    lowest: int = 0
    highest: int = 0
    unlimited: bool = False
    cleared: Value | None = None
    effective: tuple[str, ...] = ()  # files with what is in force in the end: v2 and newer v1, older v1

    def form(self, version: int) -> ParameterFormat:
        """The format in one version of cgroups."""
        return self.v1 if version == 1 else self.v2

    @property
    def is_list(self) -> bool:
        """Whether its values are lists of CPUs or memory nodes."""
        return bool(self.effective)


def _list(text: str) -> Value:
    return str(CpuSet.parse(text)) or CLEAR


def _render_list(value: Value) -> str:
    return _EMPTY if value is CLEAR else str(value)


def _negative_unlimited(text: str) -> Value:
    number = int(text)
    return UNLIMITED if number < 0 else number


def _memory(text: str) -> Value:
    number = int(text)
    return UNLIMITED if number < 0 or number >= _NO_MEMORY_LIMIT else number


def _max_or_number(text: str) -> Value:
    return UNLIMITED if text.strip() == "max" else int(text)


def _quota_of_max(text: str) -> Value:
    return _max_or_number(text.split()[0] if text.strip() else text)


def _period_of_max(text: str) -> Value:
    fields = text.split()
    return int(fields[1]) if len(fields) > 1 else PERIOD


def _with_quota(period: str, found: str) -> str:
    return f"{found.split()[0] if found.strip() else 'max'} {period}"


def _minus_one(value: Value) -> str:
    return "-1" if value is UNLIMITED else str(value)


def _max(value: Value) -> str:
    return "max" if value is UNLIMITED else str(value)


def _weight(value: Value) -> str:
    return str(weight_of(int(str(value))))


def _number(file: str) -> ParameterFormat:
    return ParameterFormat(file=file, parse=int, render=str)


TABLE: Final[Mapping[Parameter, ParameterSpec]] = MappingProxyType(
    {
        Parameter.CPU_SHARES: ParameterSpec(
            controller="cpu",
            v1=_number("cpu.shares"),
            v2=ParameterFormat(file="cpu.weight", parse=lambda text: shares_of_weight(int(text)), render=_weight),
            lowest=MIN_SHARES,
            highest=MAX_SHARES,
        ),
        Parameter.CPU_QUOTA: ParameterSpec(
            controller="cpu",
            v1=ParameterFormat(file="cpu.cfs_quota_us", parse=_negative_unlimited, render=_minus_one),
            # Quota and period; the kernel keeps the period when only the first is written.
            v2=ParameterFormat(file="cpu.max", parse=_quota_of_max, render=_max),
            lowest=MIN_QUOTA,
            highest=MAX_QUOTA,
            unlimited=True,
            cleared=UNLIMITED,
        ),
        Parameter.CPU_PERIOD: ParameterSpec(
            controller="cpu",
            v1=_number("cpu.cfs_period_us"),
            v2=ParameterFormat(file="cpu.max", parse=_period_of_max, render=str, join=_with_quota),
            lowest=MIN_QUOTA,
            highest=MAX_PERIOD,
        ),
        Parameter.CPU_BURST: ParameterSpec(
            controller="cpu",
            v1=_number("cpu.cfs_burst_us"),
            v2=_number("cpu.max.burst"),
            highest=MAX_QUOTA,
            cleared=0,
        ),
        Parameter.CPU_IDLE: ParameterSpec(controller="cpu", v1=_number("cpu.idle"), v2=_number("cpu.idle"), highest=1),
        Parameter.CPU_BVT: ParameterSpec(
            controller="cpu", v1=_number("cpu.bvt_warp_ns"), v2=_number("cpu.bvt_warp_ns"), lowest=-1, highest=2
        ),
        Parameter.CPUSET_CPUS: ParameterSpec(
            controller="cpuset",
            v1=ParameterFormat(file="cpuset.cpus", parse=_list, render=_render_list),
            v2=ParameterFormat(file="cpuset.cpus", parse=_list, render=_render_list),
            cleared=CLEAR,
            effective=("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"),
        ),
        Parameter.CPUSET_MEMS: ParameterSpec(
            controller="cpuset",
            v1=ParameterFormat(file="cpuset.mems", parse=_list, render=_render_list),
            v2=ParameterFormat(file="cpuset.mems", parse=_list, render=_render_list),
            cleared=CLEAR,
            effective=("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems"),
        ),
        Parameter.MEMORY_LIMIT: ParameterSpec(
            controller="memory",
            v1=ParameterFormat(file="memory.limit_in_bytes", parse=_memory, render=_minus_one),
            v2=ParameterFormat(file="memory.max", parse=_max_or_number, render=_max),
            highest=(1 << 63) - 1,
            unlimited=True,
            cleared=UNLIMITED,
        ),
    }
)


def parse(parameter: Parameter, text: str, version: int) -> Value:
    """The value in a file of the kernel; ValueError that names parameter and text."""
    try:
        return TABLE[parameter].form(version).parse(text)
    except ValueError:
        raise ValueError(f"{parameter}: cannot read {_quote(text)}") from None


def render(parameter: Parameter, value: Value, version: int) -> str:
    """What to write; ValueError that names parameter and value for what no kernel accepts."""
    row = TABLE[parameter]
    wanted = row.cleared if value is CLEAR else value
    if wanted is None:
        raise ValueError(f"{parameter}: cannot be cleared")
    if row.is_list:
        if wanted is not CLEAR:
            wanted = _checked_list(parameter, wanted)
    elif isinstance(wanted, Special):
        if not row.unlimited:
            raise ValueError(f"{parameter}: cannot be unlimited")
    elif not isinstance(wanted, int) or isinstance(wanted, bool):
        raise ValueError(f"{parameter}: {_quote(wanted)} is not a whole number")
    elif not row.lowest <= wanted <= row.highest:
        raise ValueError(f"{parameter}: {wanted} is not between {row.lowest} and {row.highest}")
    return row.form(version).render(wanted)


def same(parameter: Parameter, found: Value | None, wanted: Value, version: int, page: int = PAGE) -> bool:
    """Whether what is found is what writing the wanted value leads to."""
    if found is None:
        return False
    if found == wanted:
        return True
    return _as_kernel_keeps(parameter, found, version, page) == _as_kernel_keeps(parameter, wanted, version, page)


def same_by_runtime(parameter: Parameter, found: Value | None, wanted: Value, version: int, page: int = PAGE) -> bool:
    """Whether what is found is what a runtime makes of the wanted value, which it may convert in either way."""
    if same(parameter, found, wanted, version, page):
        return True
    if parameter is not Parameter.CPU_SHARES or version != 2 or not isinstance(wanted, int) or found is None:
        return False
    return _as_kernel_keeps(parameter, found, version, page) == curved_weight_of(wanted)


def _as_kernel_keeps(parameter: Parameter, value: Value, version: int, page: int) -> Value:
    """A value as the kernel keeps it after a write."""
    row = TABLE[parameter]
    if value is CLEAR:
        return CLEAR if row.cleared is None else row.cleared
    if row.is_list:
        try:
            return str(CpuSet.parse(str(value)))
        except ValueError:
            return value
    if not isinstance(value, int):
        return value
    if parameter is Parameter.CPU_SHARES and version == 2:
        return weight_of(value)
    if parameter is Parameter.MEMORY_LIMIT:
        return UNLIMITED if value >= _NO_MEMORY_LIMIT else value // page * page
    return value


def _checked_list(parameter: Parameter, value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{parameter}: {_quote(value)} is not a list")
    try:
        numbers = CpuSet.parse(value)
    except ValueError as error:
        raise ValueError(f"{parameter}: {error}") from None
    if not numbers:
        raise ValueError(f"{parameter}: an empty list would leave nothing to run on")
    return str(numbers)


def _quote(value: object) -> str:
    return repr(str(value)[:80])
