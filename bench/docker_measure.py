"""One measurement at a time in Docker mode: what a load saw, and what it cost the process in the middle."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bench import docker_load
from bench.docker_workloads import DOWNLOAD, FRESH, KEPT, STREAM, UPLOAD, target_of
from bench.measure import Sample, sampled
from interpose.testing.lab.processes import Child, LabError, children, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.contestants import Contestant
    from bench.docker_load import Moved
    from bench.workloads import Workload
    from interpose.testing.lab.rawload import Timing

MEGABYTE = 1 << 20
# Memory is looked at this often; the kernel keeps the highest, so only what a process does in its last moments is lost.
LOOK_EVERY = 0.01


class DockerBench:
    """Runs loads against a Docker socket or a proxy in front of it."""

    def __init__(self, folder: Path, *, archive: bytes, image: str, container: str) -> None:
        self._folder = folder
        self._short: Mapping[str, Callable[[Path, Workload, int], Timing]] = {
            KEPT: lambda path, load, calls: docker_load.kept(
                folder, path, target_of(load), calls=calls, connections=load.streams
            ),
            FRESH: lambda path, load, calls: docker_load.fresh(path, target_of(load), calls=calls),
        }
        self._bulk: Mapping[str, Callable[[Path, int], Moved]] = {
            UPLOAD: lambda path, _size: docker_load.upload(path, archive),
            DOWNLOAD: lambda path, size: docker_load.download(path, image, least=size),
            STREAM: lambda path, size: docker_load.stream(path, container, size),
        }

    def requests(self, contestant: Contestant, child: Child | None, path: Path, load: Workload, round_: int) -> Sample:
        """Warm up, run, and divide the CPU time of the process by the calls."""
        run = self._short[load.client]
        run(path, load, load.warm_up)
        before = settled_cpu(child)
        timing = run(path, load, load.calls)
        after = settled_cpu(child)
        return sampled(contestant, load, round_, timing, child, cpu_seconds=(after - before) / load.calls)

    def bulk(self, contestant: Contestant, child: Child | None, path: Path, load: Workload, round_: int) -> Sample:
        """One exchange: rate in MB a second, CPU microseconds per MB, and the highest memory while it ran."""
        before = settled_cpu(child)
        with PeakMemory(child) as peak:
            moved = self._bulk[load.client](path, load.calls * MEGABYTE)
        after = settled_cpu(child)
        megabytes = moved.size / MEGABYTE
        return Sample(
            contestant=contestant.name,
            workload=load.name,
            round=round_,
            rate=megabytes / moved.seconds,
            p50=moved.seconds * 1e6,
            p99=moved.seconds * 1e6,
            cpu=None if child is None else (after - before) / megabytes * 1e6,
            rss=None if child is None else peak.bytes,
        )


class PeakMemory:
    """The highest resident memory of a process, or of one that it made, within a block."""

    def __init__(self, child: Child | None) -> None:
        self.bytes = 0
        self._child = child
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak", daemon=True)

    def __enter__(self) -> Self:
        if self._child is not None:
            # "5" starts the kernel's own record of the highest value anew.
            Path(f"/proc/{self._child.pid}/clear_refs").write_text("5")
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._child is not None:
            self._thread.join()

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._over.wait(LOOK_EVERY)
            self._look()

    def _look(self) -> None:
        if self._child is None:
            return
        for pid in (self._child.pid, *children(self._child.pid)):
            with contextlib.suppress(OSError):
                self.bytes = max(self.bytes, highest(Path(f"/proc/{pid}/status").read_text()))


def highest(status: str) -> int:
    """The highest resident memory so far, from a process's status; 0 for one that has ended."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def settled_cpu(child: Child | None) -> float:
    """CPU time once the children of finished connections (socat forks) have been counted in."""
    if child is None:
        return 0.0
    try:
        wait_for(lambda: not children(child.pid), what="the last connection's process to end")
    except LabError as error:
        raise child.error(str(error)) from None
    return child.cpu_seconds()
