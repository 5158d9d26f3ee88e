"""Usage of containers and pods, from the texts of cgroup files and of /proc/<pid>/net/dev. Pure.

A file that is missing or malformed leaves its value None: half a picture is better than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

V1_FILES: Final[Mapping[str, str]] = {
    "cpuacct.usage": "cpuacct",
    "memory.usage_in_bytes": "memory",
    "memory.limit_in_bytes": "memory",
    "memory.stat": "memory",
    "memory.memsw.usage_in_bytes": "memory",
    "memory.memsw.limit_in_bytes": "memory",
    "pids.current": "pids",
}
V2_FILES: Final[tuple[str, ...]] = (
    *("cpu.stat", "memory.current", "memory.max", "memory.stat", "memory.swap.current", "memory.swap.max"),
    *("pids.current", "cpu.pressure", "memory.pressure", "io.pressure"),
)
# Above this a v1 limit is "none": the kernel shows the largest number of whole pages.
_NO_LIMIT: Final = 1 << 62
_MICRO: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """One line of a pressure file: microseconds in all, and shares of the last 10, 60 and 300 seconds."""

    total: int = 0
    avg10: float = 0.0
    avg60: float = 0.0
    avg300: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PressurePair:
    """The pressure of some and of all tasks waiting."""

    some: Pressure
    full: Pressure


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupStats:
    """The usage of a cgroup; None is unknown, a limit of None is no limit."""

    cpu_ns: int | None = None
    memory_usage: int | None = None
    working_set: int | None = None
    rss: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None
    memory_limit: int | None = None
    swap_usage: int | None = None
    swap_limit: int | None = None
    processes: int | None = None
    cpu_pressure: PressurePair | None = None
    memory_pressure: PressurePair | None = None
    io_pressure: PressurePair | None = None

    @property
    def memory_available(self) -> int | None:
        """Bytes that are left below the memory limit; None without a limit."""
        if self.memory_limit is None or self.working_set is None:
            return None
        return max(self.memory_limit - self.working_set, 0)


def parse_v1(texts: Mapping[str, str]) -> CgroupStats:
    """Parse the v1 files of a cgroup, by name."""
    stat = table(texts.get("memory.stat", ""))
    usage, memory_limit = number(texts.get("memory.usage_in_bytes")), limit(texts.get("memory.limit_in_bytes"))
    both, both_limit = (
        number(texts.get("memory.memsw.usage_in_bytes")),
        limit(texts.get("memory.memsw.limit_in_bytes")),
    )
    return CgroupStats(
        cpu_ns=number(texts.get("cpuacct.usage")),
        memory_usage=usage,
        working_set=_less(usage, stat.get("total_inactive_file", 0)),
        rss=stat.get("total_rss"),
        page_faults=stat.get("total_pgfault"),
        major_page_faults=stat.get("total_pgmajfault"),
        memory_limit=memory_limit,
        swap_usage=None if usage is None else _less(both, usage),
        swap_limit=None if memory_limit is None else _less(both_limit, memory_limit),
        processes=number(texts.get("pids.current")),
    )


def parse_v2(texts: Mapping[str, str]) -> CgroupStats:
    """Parse the v2 files of a cgroup, by name."""
    stat = table(texts.get("memory.stat", ""))
    usage = number(texts.get("memory.current"))
    micro = table(texts.get("cpu.stat", "")).get("usage_usec")
    return CgroupStats(
        cpu_ns=None if micro is None else micro * _MICRO,
        memory_usage=usage,
        working_set=_less(usage, stat.get("inactive_file", 0)),
        rss=stat.get("anon"),
        page_faults=stat.get("pgfault"),
        major_page_faults=stat.get("pgmajfault"),
        memory_limit=limit(texts.get("memory.max")),
        swap_usage=number(texts.get("memory.swap.current")),
        swap_limit=limit(texts.get("memory.swap.max")),
        processes=number(texts.get("pids.current")),
        cpu_pressure=_pressures(texts.get("cpu.pressure", "")),
        memory_pressure=_pressures(texts.get("memory.pressure", "")),
        io_pressure=_pressures(texts.get("io.pressure", "")),
    )


def oom_kills(text: str) -> int:
    """The number of OOM kills: the line `oom_kill N` of memory.events (v2) or memory.oom_control (v1)."""
    return table(text).get("oom_kill", 0)


def table(text: str) -> dict[str, int]:
    """Parse lines of a name and a number; other lines are skipped."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if (known := number(value)) is not None:
            found[name] = known
    return found


def number(text: str | None) -> int | None:
    """A whole number, without a sign."""
    plain = (text or "").strip()
    return int(plain) if plain.isascii() and plain.isdigit() else None


def limit(text: str | None) -> int | None:
    """A limit in bytes; None where there is none."""
    value = number(text)
    return None if value is None or value >= _NO_LIMIT else value


def _less(whole: int | None, part: int) -> int | None:
    return None if whole is None else max(whole - part, 0)


def _pressures(text: str) -> PressurePair | None:
    lines = {name: _pressure(rest) for name, _, rest in (line.partition(" ") for line in text.splitlines())}
    some = lines.get("some")
    if some is None:
        return None
    return PressurePair(some=some, full=lines.get("full") or Pressure())  # older kernels have no "full" for CPUs


def _pressure(text: str) -> Pressure | None:
    fields = dict(word.partition("=")[::2] for word in text.split())
    try:
        return Pressure(
            total=int(fields["total"]),
            avg10=float(fields["avg10"]),
            avg60=float(fields["avg60"]),
            avg300=float(fields["avg300"]),
        )
    except (KeyError, ValueError):
        return None


_FIELDS: Final = 12
_LOOPBACK: Final = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounters:
    """The counters of a network interface since it came up."""

    rx_bytes: int
    rx_packets: int
    rx_errors: int
    rx_dropped: int
    tx_bytes: int
    tx_packets: int
    tx_errors: int
    tx_dropped: int


def parse_net_dev(text: str) -> dict[str, InterfaceCounters]:
    """Parse /proc/<pid>/net/dev: all interfaces but the loopback; invalid lines are skipped."""
    found = {}
    for line in text.splitlines():
        name, separator, rest = line.strip().rpartition(":")
        fields = rest.split()
        if not separator or name == _LOOPBACK or len(fields) < _FIELDS or not all(map(str.isdecimal, fields)):
            continue
        rx, tx = [int(field) for field in fields[:4]], [int(field) for field in fields[8:12]]
        found[name] = InterfaceCounters(
            rx_bytes=rx[0],
            rx_packets=rx[1],
            rx_errors=rx[2],
            rx_dropped=rx[3],
            tx_bytes=tx[0],
            tx_packets=tx[1],
            tx_errors=tx[2],
            tx_dropped=tx[3],
        )
    return found
