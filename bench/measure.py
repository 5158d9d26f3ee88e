"""One measurement at a time: run a load against a socket and read what it cost the process in the middle."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.targets import EARLY_CALLS, LATE_CALLS
from bench.workloads import CHANGING
from tests.support.lab.load import h2load
from tests.support.lab.load.raw_load import RawConnection, Timing, build_requests
from tests.support.lab.processes import Child, LabError, accepts, children, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from bench.contestants import Contestant
    from bench.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One timed run. `cpu` is per call; `cpu` and `rss` are None when there is no process in the middle."""

    contestant: str
    workload: str
    round: int
    rate: float
    p50: float
    p99: float
    cpu: float | None
    rss: int | None


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """A fresh process: seconds to its first answer, bytes after few and many calls, and after changing headers."""

    contestant: str
    start_seconds: float
    rss_early: int
    rss_late: int
    rss_changing: int


class Bench:
    """Runs loads; the requests with changing headers are built once and used for everyone."""

    def __init__(self, folder: Path, changing_calls: int) -> None:
        self._folder = folder
        self._changing = build_requests(changing_calls) if changing_calls else []
        self._one_request = build_requests(1)

    def sample(self, contestant: Contestant, child: Child | None, socket: Path, load: Workload, round_: int) -> Sample:
        """Warm up, run, and divide the CPU time of the process by the calls."""
        calls = max(int(load.calls * contestant.share), load.streams)
        warm_up = max(int(load.warm_up * contestant.share), 1)
        counted = calls
        if load.client == CHANGING:
            # One connection for both parts, so both count: socat's share is known only after the connection.
            before = settled_cpu(contestant, child)
            with RawConnection(socket, self._changing) as connection:
                connection.run(warm_up, load.streams)
                timing = connection.run(calls, load.streams)
            counted += warm_up
        else:
            self._h2load(socket, warm_up, load.streams)
            before = settled_cpu(contestant, child)
            timing = self._h2load(socket, calls, load.streams)
        after = settled_cpu(contestant, child)
        return sampled(contestant, load, round_, timing, child, cpu_seconds=(after - before) / counted)

    def start_seconds(self, contestant: Contestant, folder: Path, listen: Path, backend: Path) -> tuple[float, Child]:
        """From before the process exists to its first answered call, through a fresh connection."""
        if contestant.start is None:
            raise ValueError(f"{contestant.name} has no process to start")
        begin = time.perf_counter()
        child = contestant.start(folder, listen, backend)
        self.first_call(listen)
        return time.perf_counter() - begin, child

    def first_call(self, socket: Path) -> None:
        wait_for(lambda: accepts(socket), what=f"{socket} to accept", every=0.001)
        with RawConnection(socket, self._one_request) as connection:
            connection.run(1, 1)

    def footprint(
        self, contestant: Contestant, folder: Path, listen: Path, backend: Path, starts: int, scale: float
    ) -> Footprint:
        """Start several times for the median of the start, then load the last process and watch its memory."""
        seconds: list[float] = []
        for turn in range(starts):
            taken, child = self.start_seconds(contestant, folder, listen, backend)
            seconds.append(taken)
            if turn < starts - 1:
                child.stop()
        with child:
            early = int(EARLY_CALLS * scale)
            self._h2load(listen, early, 16)
            rss_early = child.rss_bytes()
            self._h2load(listen, int(LATE_CALLS * scale) - early, 16)
            rss_late = child.rss_bytes()
            with RawConnection(listen, self._changing) as connection:
                connection.run(len(self._changing), 16)
            rss_changing = child.rss_bytes()
        return Footprint(
            contestant=contestant.name,
            start_seconds=statistics.median(seconds),
            rss_early=rss_early,
            rss_late=rss_late,
            rss_changing=rss_changing,
        )

    def _h2load(self, socket: Path, calls: int, streams: int) -> Timing:
        return h2load.run(self._folder, socket, count=calls, streams=min(streams, calls))


def sampled(
    contestant: Contestant, load: Workload, round_: int, timing: Timing, child: Child | None, *, cpu_seconds: float
) -> Sample:
    """What a timed run was like; `cpu_seconds` are those of one call in the process in the middle, if there is one."""
    cuts = statistics.quantiles(timing.durations, n=100, method="inclusive")
    return Sample(
        contestant=contestant.name,
        workload=load.name,
        round=round_,
        rate=timing.rate,
        p50=cuts[49],
        p99=cuts[98],
        cpu=None if child is None else cpu_seconds * 1e6,
        rss=None if child is None else child.rss_bytes(),
    )


def settled_cpu(contestant: Contestant, child: Child | None) -> float:
    """CPU time, with that of the processes of connections that have ended."""
    if child is None:
        return 0.0
    if contestant.forks:
        try:
            wait_for(lambda: not children(child.pid), what="the last connection's process to end")
        except LabError as error:
            raise child.error(str(error)) from None
    return child.cpu_seconds()
