"""Counts of processes in containers, from /proc, which may take long: for a sampler's threads.

Processes come and go meanwhile: those that are gone, or may not be read, are skipped.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interpose.node.runtime.metrics.sampler import Sampler
from interpose.node.runtime.metrics.values import ProcessCounts

_PROC: Final = Path("/proc")
_TIMEOUT: Final = 5.0
_BATCH: Final = 256  # entries; after each batch other threads may run
_PAUSE: Final = 0.001
_SOCKET: Final = "socket:"
# Letters of /proc/<pid>/stat as cAdvisor calls them.
_STATES: Final = {
    "R": "running",
    "S": "sleeping",
    "I": "sleeping",
    "D": "uninterruptible",
    "T": "stopped",
    "t": "stopped",
}
_LIMIT: Final = "Max open files"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProcesses:
    """The key of a container's processes: its cgroup, and its first process."""

    cgroup: str
    pid: int


def process_sampler(members: Callable[[str], list[int]]) -> Sampler[ContainerProcesses, ProcessCounts]:
    """A sampler of process counts; `members`, called in a thread, are the processes of a cgroup."""

    def measure(key: ContainerProcesses, stop: threading.Event) -> ProcessCounts:
        # Without kernel cgroups only the first process is known.
        return count_processes(members(key.cgroup) or [key.pid], key.pid, stop)

    return Sampler(measure, "process-counts", timeout=_TIMEOUT)


def count_processes(pids: Iterable[int], first: int, stop: threading.Event, *, proc: Path = _PROC) -> ProcessCounts:
    """Threads, descriptors and sockets of these processes; the limits are those of the process `first`."""
    found: Counter[str] = Counter()
    states = Counter(dict.fromkeys(_STATES.values(), 0))
    walk = _PacedWalk(stop)
    for pid in pids:
        folder = f"{proc}/{pid}"
        with suppress(OSError):
            tasks = os.listdir(f"{folder}/task")  # noqa: PTH208 - names are enough, and there may be many
            found["processes"] += 1
            found["threads"] += len(tasks)
            for task in walk.entries(tasks):
                with suppress(OSError):
                    states[_state(Path(f"{folder}/task/{task}/stat").read_text(errors="replace"))] += 1
        with suppress(OSError):
            descriptors = os.listdir(f"{folder}/fd")  # noqa: PTH208
            found["descriptors"] += len(descriptors)
            for descriptor in walk.entries(descriptors):
                with suppress(OSError):
                    target = os.readlink(f"{folder}/fd/{descriptor}")  # noqa: PTH115
                    found["sockets"] += target.startswith(_SOCKET)
    return ProcessCounts(
        processes=found["processes"],
        threads=found["threads"],
        descriptors=found["descriptors"],
        sockets=found["sockets"],
        states={state: count for state, count in states.items() if state},
        open_files_limit=_open_files(proc / str(first) / "limits"),
    )


class _PacedWalk:
    """Iterates over many entries with pauses; ends early when `stop` is set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._count = 0

    def entries(self, entries: Iterable[str]) -> Iterable[str]:
        for entry in entries:
            self._count += 1
            if self._stop.is_set() or (self._count % _BATCH == 0 and self._stop.wait(_PAUSE)):
                return
            yield entry


def _state(stat: str) -> str:
    """cAdvisor's word for the state in a stat file, which follows a name with arbitrary characters."""
    return _STATES.get(stat.rpartition(")")[2].strip()[:1], "")


def _open_files(limits: Path) -> int | None:
    with suppress(OSError):
        for line in limits.read_text().splitlines():
            if line.startswith(_LIMIT):
                words = line.removeprefix(_LIMIT).split()
                return int(words[0]) if words and words[0].isdigit() else None
    return None
