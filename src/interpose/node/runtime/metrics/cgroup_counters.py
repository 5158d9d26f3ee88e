"""What cAdvisor's metrics say of a cgroup beyond its usage, from the texts of its files. Pure.

A file that is not there leaves its value None, as in `cgroupstats`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from interpose.node.runtime.cgroups.usage import limit, number, oom_kills, table

_MICRO: Final = 1000
_TICK: Final = 10_000_000  # nanoseconds: USER_HZ is 100 on all that runs Linux
_V1_SERVICED: Final = "blkio.throttle.io_serviced_recursive"
_V1_SERVICE_BYTES: Final = "blkio.throttle.io_service_bytes_recursive"
V1_COUNTER_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpuacct.usage_user": "cpuacct",
        "cpuacct.usage_sys": "cpuacct",
        "cpuacct.stat": "cpuacct",
        "cpu.stat": "cpu",
        "memory.stat": "memory",
        "memory.max_usage_in_bytes": "memory",
        "memory.failcnt": "memory",
        "memory.kmem.usage_in_bytes": "memory",
        "memory.soft_limit_in_bytes": "memory",
        "memory.oom_control": "memory",
        "pids.max": "pids",
        _V1_SERVICED: "blkio",
        _V1_SERVICE_BYTES: "blkio",
    }
)
V2_COUNTER_FILES: Final[tuple[str, ...]] = (
    *("cpu.stat", "memory.stat", "memory.peak", "memory.events", "memory.low", "pids.max", "io.stat"),
)
_V2_OPERATIONS: Final = (("Read", "rbytes", "rios"), ("Write", "wbytes", "wios"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIo:
    """What was read from or written to one block device, `device` as major:minor."""

    device: str
    operation: str
    bytes: int | None = None
    requests: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HugePages:
    """Huge pages of one size. v2 does not know the most there ever were."""

    size: str
    usage: int
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupCounters:
    """Times in nanoseconds, sizes in bytes. A limit of None is no limit."""

    user_ns: int | None = None
    system_ns: int | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_ns: int | None = None
    cache: int | None = None
    mapped: int | None = None
    kernel: int | None = None
    most_memory: int | None = None
    limit_hits: int | None = None
    own_page_faults: int | None = None
    own_major_page_faults: int | None = None
    reservation: int | None = None
    oom_kills: int | None = None
    most_threads: int | None = None
    io: tuple[DeviceIo, ...] = field(default=())


def parse_v1(texts: Mapping[str, str]) -> CgroupCounters:
    """From the files of v1, by name."""
    memory, cpu, ticks = (table(texts.get(name, "")) for name in ("memory.stat", "cpu.stat", "cpuacct.stat"))
    kills = texts.get("memory.oom_control")
    return CgroupCounters(
        user_ns=_first(number(texts.get("cpuacct.usage_user")), _times(ticks.get("user"), _TICK)),
        system_ns=_first(number(texts.get("cpuacct.usage_sys")), _times(ticks.get("system"), _TICK)),
        periods=cpu.get("nr_periods"),
        throttled_periods=cpu.get("nr_throttled"),
        throttled_ns=cpu.get("throttled_time"),
        cache=memory.get("total_cache"),
        mapped=memory.get("total_mapped_file"),
        kernel=number(texts.get("memory.kmem.usage_in_bytes")),
        most_memory=number(texts.get("memory.max_usage_in_bytes")),
        limit_hits=number(texts.get("memory.failcnt")),
        own_page_faults=memory.get("pgfault"),
        own_major_page_faults=memory.get("pgmajfault"),
        reservation=limit(texts.get("memory.soft_limit_in_bytes")),
        oom_kills=oom_kills(kills) if kills else None,
        most_threads=number(texts.get("pids.max")),
        io=tuple(_v1_io(texts.get(_V1_SERVICE_BYTES, ""), texts.get(_V1_SERVICED, ""))),
    )


def parse_v2(texts: Mapping[str, str]) -> CgroupCounters:
    """From the files of v2, by name. What the cgroup itself faulted and what those below it did is one number here."""
    memory, cpu = table(texts.get("memory.stat", "")), table(texts.get("cpu.stat", ""))
    events = texts.get("memory.events")
    return CgroupCounters(
        user_ns=_times(cpu.get("user_usec"), _MICRO),
        system_ns=_times(cpu.get("system_usec"), _MICRO),
        periods=cpu.get("nr_periods"),
        throttled_periods=cpu.get("nr_throttled"),
        throttled_ns=_times(cpu.get("throttled_usec"), _MICRO),
        cache=memory.get("file"),
        mapped=memory.get("file_mapped"),
        # Before Linux 5.18 there is no sum.
        kernel=_first(memory.get("kernel"), _sum(memory, ("kernel_stack", "slab", "percpu", "pagetables"))),
        most_memory=number(texts.get("memory.peak")),
        limit_hits=table(events).get("max") if events else None,
        own_page_faults=memory.get("pgfault"),
        own_major_page_faults=memory.get("pgmajfault"),
        reservation=limit(texts.get("memory.low")),
        oom_kills=oom_kills(events) if events else None,
        most_threads=number(texts.get("pids.max")),
        io=tuple(_v2_io(texts.get("io.stat", ""))),
    )


def huge_page_files(version: int, sizes: Iterable[str]) -> dict[str, str]:
    """Names of the files about huge pages of these sizes, each with the name of its controller."""
    names = ("usage_in_bytes", "max_usage_in_bytes") if version == 1 else ("current",)
    return {f"hugetlb.{size}.{name}": "hugetlb" for size in sizes for name in names}


def huge_pages(texts: Mapping[str, str], sizes: Iterable[str]) -> tuple[HugePages, ...]:
    """Huge pages in use, from the files of either version."""
    found = []
    for size in sizes:
        usage = _first(
            number(texts.get(f"hugetlb.{size}.usage_in_bytes")), number(texts.get(f"hugetlb.{size}.current"))
        )
        if usage is not None:
            most = number(texts.get(f"hugetlb.{size}.max_usage_in_bytes"))
            found.append(HugePages(size=size, usage=usage, most=most))
    return tuple(found)


def _v1_io(sizes: str, requests: str) -> Iterable[DeviceIo]:
    """Lines are `8:0 Read 4096`; those of a device end with its total, the file with that of all."""
    bytes_by, requests_by = _v1_lines(sizes), _v1_lines(requests)
    for key in dict.fromkeys([*bytes_by, *requests_by]):
        yield DeviceIo(device=key[0], operation=key[1], bytes=bytes_by.get(key), requests=requests_by.get(key))


def _v1_lines(text: str) -> dict[tuple[str, str], int]:
    found = {}
    for words in map(str.split, text.splitlines()):
        if len(words) == 3 and words[1] != "Total" and (value := number(words[2])) is not None:
            found[words[0], words[1]] = value
    return found


def _v2_io(text: str) -> Iterable[DeviceIo]:
    """Lines are `8:0 rbytes=4096 wbytes=0 rios=1 wios=0 ...`."""
    for device, _, rest in (line.partition(" ") for line in text.splitlines()):
        values = dict(word.partition("=")[::2] for word in rest.split())
        for operation, size, requests in _V2_OPERATIONS:
            if size in values:
                sizes, counts = number(values[size]), number(values.get(requests))
                yield DeviceIo(device=device, operation=operation, bytes=sizes, requests=counts)


def _times(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _sum(values: Mapping[str, int], names: Iterable[str]) -> int | None:
    found = [values[name] for name in names if name in values]
    return sum(found) if found else None
