"""Timers of a daemon: a tick once a second, and with a heartbeat a measure of how late the event loop is."""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from interpose.log import RateLimited
from interpose.metrics import Buckets, Family

_log = logging.getLogger(__name__)

TICK: Final = 1.0
BEAT: Final = 0.1
_BEATS_PER_TICK: Final = 10
_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Ticker:
    """Calls a function at its start and then once a second, for daemons that do not measure their loop."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Call the function now, and every second until `stop`, also when it raises."""
        self._timer = asyncio.get_running_loop().call_later(TICK, self.start)
        self._tick()

    def stop(self) -> None:
        """Cancel the timer, if it was started."""
        if self._timer is not None:
            self._timer.cancel()


class Heartbeat:
    """Beats ten times a second. A late beat means that something held the loop for that long."""

    def __init__(self, ticks: Sequence[Callable[[], object]]) -> None:
        self._ticks = tuple(ticks)
        self._beats = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._late = [0] * (len(_BOUNDS) + 1)
        self._late_sum = 0.0
        self._remarks = RateLimited(_log)

    def start(self) -> None:
        """The first beat is due after `BEAT` seconds."""
        self._due = self._loop.time() + BEAT
        self._timer = self._loop.call_at(self._due, self._beat)

    def stop(self) -> None:
        """Cancel the timer, if it was started."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        now = self._loop.time()
        late = max(now - self._due, 0.0)
        self._late[bisect_left(_BOUNDS, late)] += 1
        self._late_sum += late
        self._beats += 1
        self._due = now + BEAT
        self._timer = self._loop.call_at(self._due, self._beat)
        if self._beats % _BEATS_PER_TICK == 0:
            for tick in self._ticks:
                try:
                    tick()
                except Exception as error:  # the others are due all the same
                    self._remarks.log(logging.ERROR, "Tick failed", key=repr(error), err=repr(error))

    def collect(self) -> Iterable[Family]:
        """The metric of how late the event loop was."""
        yield Family(
            "interpose_loop_lag_seconds",
            "histogram",
            "How much later than asked the event loop ran a timer, sampled ten times a second.",
            [Buckets(_BOUNDS, list(self._late), self._late_sum)],
        )
