"""Metrics of the process itself, read from /proc at scrape time.

The names are those every Prometheus client uses, so existing dashboards work. A file that cannot be read leaves its
metric out; a scrape never fails for it.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from interpose.metrics import Family, Sample


def process_collector(proc: Path = Path("/proc")) -> Callable[[], Iterable[Family]]:
    """A collector of memory, CPU time, descriptors, threads and start time of this process."""
    tick = os.sysconf("SC_CLK_TCK")
    page = os.sysconf("SC_PAGE_SIZE")

    def collect() -> Iterable[Family]:
        try:
            # The command name stands in parentheses and may hold spaces; what follows the last one is fixed.
            stat = (proc / "self/stat").read_text().rpartition(")")[2].split()
            boot = _boot_time((proc / "stat").read_text())
            descriptors = sum(1 for _ in (proc / "self/fd").iterdir())
        except OSError:
            return
        # Field numbers of proc(5), less the three that precede the split.
        cpu = (int(stat[14 - 3]) + int(stat[15 - 3])) / tick
        yield _gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", int(stat[23 - 3]))
        yield _gauge("process_resident_memory_bytes", "Resident memory size in bytes.", int(stat[24 - 3]) * page)
        yield _gauge("process_threads", "Number of threads.", int(stat[20 - 3]))
        yield _gauge("process_open_fds", "Number of open file descriptors.", descriptors)
        yield _gauge(
            "process_start_time_seconds", "Start time in seconds since the epoch.", boot + int(stat[22 - 3]) / tick
        )
        total = "process_cpu_seconds_total"
        yield Family(total, "counter", "User and system CPU time in seconds.", [Sample(cpu)])

    return collect


def _boot_time(stat: str) -> float:
    line = next((line for line in stat.splitlines() if line.startswith("btime ")), "btime 0")
    return float(line.split()[1])


def _gauge(name: str, text: str, value: float) -> Family:
    return Family(name, "gauge", text, [Sample(value)])
