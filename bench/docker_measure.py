"""One measurement at a time in Docker mode: what a load saw, and what it cost the process in the middle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import docker_load
from bench.docker_workloads import DOWNLOAD, FRESH, KEPT, STREAM, UPLOAD, target_of
from bench.measure import Sample, sampled, settled_cpu
from tests.support.lab.load.peak_memory import PeakMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bench.contestants import Contestant
    from bench.docker_load import Moved
    from bench.workloads import Workload
    from tests.support.lab.load.raw_load import Timing
    from tests.support.lab.processes import Child

MEGABYTE = 1 << 20


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
        before = settled_cpu(contestant, child)
        timing = run(path, load, load.calls)
        after = settled_cpu(contestant, child)
        return sampled(contestant, load, round_, timing, child, cpu_seconds=(after - before) / load.calls)

    def bulk(self, contestant: Contestant, child: Child | None, path: Path, load: Workload, round_: int) -> Sample:
        """One exchange: rate in MB a second, CPU microseconds per MB, and the highest memory while it ran."""
        before = settled_cpu(contestant, child)
        with PeakMemory(child) as peak:
            moved = self._bulk[load.client](path, load.calls * MEGABYTE)
        after = settled_cpu(contestant, child)
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
