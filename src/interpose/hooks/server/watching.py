"""Plugins at work as their watch sees them: who runs since when, who is left out, and the numbers of all runs.

A watch is written by the thread of its job and looked at by the loop; the gate has a lock of its own.
"""

import ctypes
import math
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NoReturn

# A plugin decides in some ten microseconds; its deadline is half a second.
BOUNDS: Final = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_SHORT_WAIT: Final = 1000


class PluginStats:
    """What is known about the runs of one plugin. Plain numbers, read when somebody scrapes."""

    __slots__ = ("buckets", "failures", "runs", "seconds", "timeouts")

    def __init__(self) -> None:
        self.runs = 0
        self.failures = 0
        self.timeouts = 0  # did not return in time; not among the runs
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, failed: bool, seconds: float) -> None:
        """It returned, or raised."""
        self.runs += 1
        self.failures += failed
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def absorb(self, other: "PluginStats") -> None:
        """Add the numbers of another."""
        self.runs += other.runs
        self.failures += other.failures
        self.seconds += other.seconds
        for index, count in enumerate(other.buckets):
            self.buckets[index] += count


class Abandoned(BaseException):
    """Ends the run of a thread that was given up; no plugin that catches Exception can stop it."""


class Gate:
    """Which plugins are left out, and until when. After the pause one run tries, the others wait for its outcome."""

    def __init__(self, pause: float, now: Callable[[], float]) -> None:
        self.until: dict[str, float] = {}
        self._pause = pause
        self._now = now
        self._lock = threading.Lock()

    def close(self, plugin: str, *, for_good: bool) -> None:
        with self._lock:
            self.until[plugin] = math.inf if for_good else self._now() + self._pause

    def lets(self, plugin: str) -> bool:
        """Whether a plugin that was left out may be tried."""
        with self._lock:
            until = self.until.get(plugin)
            if until is None:  # opened a moment ago
                return True
            if self._now() < until:
                return False
            self.until[plugin] = self._now() + self._pause
            return True

    def open(self, plugin: str) -> None:
        """It was tried and came back, whatever it said."""
        with self._lock:
            if self.until.get(plugin) != math.inf:
                self.until.pop(plugin, None)


class PluginWatch:
    """What a job tells while it runs; `enter` and `leave` are called for every plugin and every subject."""

    __slots__ = (
        "_gate",
        "_lock",
        "_now",
        "_trial",
        "abandoned",
        "back",
        "culprit",
        "current",
        "interrupted",
        "stats",
        "thread",
    )

    def __init__(self, gate: Gate, now: Callable[[], float]) -> None:
        self.current: tuple[str, float] | None = None  # the plugin at work, and since when
        self.abandoned = False
        self.interrupted = False
        self.culprit = ""  # the plugin that wanted to end the thread or the program
        self.back: list[str] = []  # plugins that were left out before and have returned this time
        self.stats: dict[str, PluginStats] = {}
        self.thread: threading.Thread | None = None
        self._trial = ""
        self._gate = gate
        self._now = now
        self._lock = threading.Lock()

    def enter(self, plugin: str) -> bool:
        """A plugin is about to run; False if it is left out."""
        if plugin in self._gate.until:
            if not self._gate.lets(plugin):
                return False
            self._trial = plugin
        self.current = (plugin, self._now())
        return True

    def leave(self, plugin: str, failure: str) -> None:
        """It is done."""
        with self._lock:
            current, self.current = self.current, None
        if self.abandoned:
            self._end()
        if sys.exc_info()[0] is not None:  # not an Exception, those are dealt with when we are told
            self.culprit = plugin
        if plugin == self._trial:
            self._trial = ""
            self._gate.open(plugin)
            self.back.append(plugin)
        if current is not None:
            stats = self.stats.get(plugin)
            if stats is None:
                stats = self.stats[plugin] = PluginStats()
            stats.add(bool(failure), self._now() - current[1])

    def _end(self) -> NoReturn:
        """This thread was given up. An exception that is on its way to it has to arrive here, not anywhere later."""
        if self.interrupted and sys.exc_info()[0] is not Abandoned:
            for _ in range(_SHORT_WAIT):  # the first round takes it, unless the plugin has swallowed it
                time.sleep(0)
        raise Abandoned

    def abandon(self, overdue: tuple[str, float]) -> bool:
        """Give the thread up if that plugin is still at work."""
        with self._lock:
            self.abandoned = self.current is overdue
            return self.abandoned

    def interrupt(self) -> None:
        """End a plugin that is busy in Python. One that waits in the kernel would not notice, but everybody else would:
        until such an exception has arrived, the interpreter looks for it at every turn."""
        with self._lock:
            if self.current is not None and not self.interrupted and self.thread is not None:
                self.interrupted = True
                ident = ctypes.c_ulong(self.thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Abandoned))
