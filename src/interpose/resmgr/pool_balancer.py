"""Tells policies whose pools follow the load how busy each CPU is, every few seconds.

The kernel counts how long each CPU worked. Two looks at /proc/stat are the load in between, so nobody waits for a
measurement, no lock is held, and the load is that of the whole time. A look takes place in a thread.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from interpose.core.policy.api import LoadFollower
from interpose.log import RateLimited
from interpose.resmgr.tracker import AllocationTracker

_log = logging.getLogger(__name__)

_TIMES: Final = 8  # user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in the first two
_IDLE: Final = (3, 4)  # idle, iowait


class CpuTimes(NamedTuple):
    """What a CPU has done since the machine started, in ticks of the kernel."""

    busy: int
    total: int


def parse_cpu_times(text: str) -> Mapping[int, CpuTimes]:
    """The times of each CPU by its number; CPUs that are offline have none. ValueError if there are none at all."""
    found = {}
    for line in text.splitlines():
        name, *numbers = line.split() or [""]
        if name.startswith("cpu") and name[3:].isdecimal():
            times = [int(number) for number in numbers[:_TIMES]]
            idle = sum(time for place, time in enumerate(times) if place in _IDLE)
            found[int(name[3:])] = CpuTimes(sum(times) - idle, sum(times))
    if not found:
        raise ValueError("no CPU has times there")
    return found


def cpu_loads(before: Mapping[int, CpuTimes], after: Mapping[int, CpuTimes]) -> dict[int, float]:
    """The busy part of the time between two looks, 0 to 1. A CPU that was away meanwhile is left out."""
    found = {}
    for cpu, now in after.items():
        then = before.get(cpu)
        # The kernel's count of idle time may go back a little when CPUs come and go.
        if then is not None and (total := now.total - then.total) > 0:
            found[cpu] = min(1.0, max(0.0, (now.busy - then.busy) / total))
    return found


class PoolBalancer:
    """Looks at the load once per period while a policy follows it. `period` is in ticks; 0: never."""

    def __init__(self, proc: Path, period: int, read: Callable[[Path], str] = Path.read_text) -> None:
        self.problem = ""  # why the load is not known
        self.moves = 0  # how often pools had other CPUs after that
        self._path = proc / "stat"
        self._period = period
        self._read = read
        self._ticks = 0
        self._before: Mapping[int, CpuTimes] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._rate_limited = RateLimited(_log)

    def tick(self, tracker: AllocationTracker) -> None:
        """Look if it is due; to be called once a second."""
        if not self._period or not isinstance(tracker.allocations.policy, LoadFollower):
            self._before, self.problem = None, ""
            return
        self._ticks += 1
        due = self._before is None or self._ticks % self._period == 0
        if due and (self._looking is None or self._looking.done()):
            self._looking = tracker.tasks.spawn(self._look(tracker), name="fit pools to the load")

    async def _look(self, tracker: AllocationTracker) -> None:
        try:
            now = parse_cpu_times(await asyncio.to_thread(self._read, self._path))
        except (OSError, ValueError) as error:
            self.problem = f"the load of CPUs cannot be read: {self._path}: {error}; pools follow requests only"
            self._before = None
            self._rate_limited.log(logging.WARNING, "Load of CPUs cannot be read", err=str(error))
            return
        self.problem = ""
        before, self._before = self._before, now
        # No time has passed for any CPU: that is no load of zero.
        if before is not None and (loads := cpu_loads(before, now)) and tracker.at_rest:
            self._rebalance(tracker, loads)

    def _rebalance(self, tracker: AllocationTracker, loads: Mapping[int, float]) -> None:
        policy = tracker.allocations.policy
        if not isinstance(policy, LoadFollower):  # another one since the look began
            return
        try:
            changed = policy.rebalance(loads)
        except Exception:
            _log.exception("Policy failed to fit its pools to the load")
            return
        if not changed:
            return
        self.moves += 1
        pools = " ".join(f"{name}={cpus}" for name, cpus in policy.pools().items())
        _log.info("Pools follow the load", extra={"kv": {"pools": pools, "containers": len(changed)}})
        tracker.enforce_soon(changed)
        tracker.on_change()
