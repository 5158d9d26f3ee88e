"""Runs plugins in worker threads so that no plugin can stop the program: one that does not return is abandoned.

A job is a function that runs plugins and reports to its `PluginWatch` which plugin runs. The event loop checks the
time. A plugin that exceeds its time is suspended for a while, its thread is abandoned and the job runs again without
it, in another thread. So a job must be pure: it may run more than once, and an abandoned run ends at any point.

Ownership: a watch is written by the thread of its job and read by the loop; the gate has a lock of its own; everything
else, the statistics of all runs included, belongs to the loop.
"""

import asyncio
import ctypes
import logging
import math
import queue
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar

from interpose.hooks.server.plugin import Watch

# A plugin decides in some ten microseconds; its deadline is half a second.
BOUNDS: Final = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_YIELDS: Final = 1000


class PluginRunStats:
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

    def absorb(self, other: "PluginRunStats") -> None:
        """Add the numbers of another."""
        self.runs += other.runs
        self.failures += other.failures
        self.seconds += other.seconds
        for index, count in enumerate(other.buckets):
            self.buckets[index] += count


class AbandonedError(BaseException):
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

    def may_try(self, plugin: str) -> bool:
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
        "culprit",
        "current",
        "interrupted",
        "recovered",
        "stats",
        "thread",
    )

    def __init__(self, gate: Gate, now: Callable[[], float]) -> None:
        self.current: tuple[str, float] | None = None  # the plugin at work, and since when
        self.abandoned = False
        self.interrupted = False
        self.culprit = ""  # the plugin that wanted to end the thread or the program
        self.recovered: list[str] = []  # plugins that were left out before and have returned this time
        self.stats: dict[str, PluginRunStats] = {}
        self.thread: threading.Thread | None = None
        self._trial = ""
        self._gate = gate
        self._now = now
        self._lock = threading.Lock()

    def enter(self, plugin: str) -> bool:
        """A plugin is about to run; False if it is left out."""
        if plugin in self._gate.until:
            if not self._gate.may_try(plugin):
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
            self.recovered.append(plugin)
        if current is not None:
            stats = self.stats.get(plugin)
            if stats is None:
                stats = self.stats[plugin] = PluginRunStats()
            stats.add(bool(failure), self._now() - current[1])

    def _end(self) -> NoReturn:
        """This thread was given up. An exception that is on its way to it has to arrive here, not anywhere later."""
        if self.interrupted and sys.exc_info()[0] is not AbandonedError:
            for _ in range(_YIELDS):  # the first round takes it, unless the plugin has swallowed it
                time.sleep(0)
        raise AbandonedError

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
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(AbandonedError))


T = TypeVar("T")
_log = logging.getLogger(__name__)

# Threads that do not come back cost memory, and those that spin take turns with the loop.
_MOST_STUCK: Final = 8
# If the loop looks later than this part of the deadline, the whole program stood still, and the plugin with it.
_GRACE: Final = 0.2
# A thread that was given up is ended if it uses more than this part of a processor.
_BUSY: Final = 0.1


class _Job(Generic[T]):
    """A job in flight. Run again, it is another one with the same future."""

    __slots__ = ("call", "due", "future", "loop", "timer", "watch")

    def __init__(self, call: Callable[[Watch], T], watch: PluginWatch, future: asyncio.Future[T]) -> None:
        self.call = call
        self.watch = watch
        self.future = future
        self.loop = future.get_loop()
        self.due = 0.0
        self.timer: asyncio.TimerHandle | None = None


class Runner:
    """A few threads, and the clock over the plugins that run in them. Belongs to one loop; `close` ends the threads."""

    def __init__(
        self,
        *,
        timeout: float = 0.5,
        pause: float = 60.0,
        workers: int = 4,
        most_stuck: int = _MOST_STUCK,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout` seconds for one plugin and one subject, `pause` seconds without it; `now` is for threads."""
        self.stats: dict[str, PluginRunStats] = {}
        self.stuck = 0  # threads that were given up and have not come back
        self._timeout = timeout
        self._pause = pause
        self._most_threads = workers
        self._most_stuck = most_stuck
        self._now = now
        self._gate = Gate(pause, now)
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._threads: set[_Thread] = set()
        self._jobs: set[_Job[Any]] = set()
        self._ended: asyncio.Event | None = None  # there from the moment of closing

    @property
    def suspended(self) -> Mapping[str, float]:
        """Plugins that do not run at present, with the seconds they still wait; infinite: until a restart."""
        now = self._now()
        return {plugin: max(until - now, 0.0) for plugin, until in self._gate.until.copy().items()}

    async def run(self, job: Callable[[Watch], T]) -> T:
        """What the job returns or raises. Who stops waiting stops only that."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._start(job, future)
        return await future

    async def close(self) -> None:
        """End: nobody gets an answer any more. Threads that hang are left to the end of the process."""
        ended = self._ended = asyncio.Event()
        for job in self._jobs:
            _stop_timer(job)
            job.future.cancel()
        self._jobs.clear()
        for _ in self._threads:
            self._queue.put(None)
        if self._threads:
            try:
                async with asyncio.timeout(self._timeout):
                    await ended.wait()
            except TimeoutError:
                _log.warning("Plugin threads are still running", extra={"kv": {"threads": len(self._threads)}})

    # -- jobs

    def _start(self, call: Callable[[Watch], T], future: asyncio.Future[T]) -> None:
        if self._ended is not None:
            raise RuntimeError("the runner is closed")
        job = _Job(call, PluginWatch(self._gate, self._now), future)
        self._jobs.add(job)
        self._schedule_check(job, self._timeout)
        self._queue.put(job)
        self._start_threads()

    def _start_threads(self) -> None:
        """As many threads as there are jobs, within limits."""
        while len(self._threads) < min(len(self._jobs), self._most_threads):
            thread = _Thread(asyncio.get_running_loop(), self._queue, self._on_finished, self._on_thread_end)
            self._threads.add(thread)
            thread.start()

    def _on_finished(self, job: _Job[Any], result: Any, error: BaseException | None) -> None:
        if job not in self._jobs:
            return  # closed meanwhile
        self._jobs.discard(job)
        _stop_timer(job)
        watch = job.watch
        for plugin, stats in watch.stats.items():
            self._stats_of(plugin).absorb(stats)
        for plugin in watch.recovered:
            _log.info("Plugin responds again", extra={"kv": {"plugin": plugin}})
        if error is not None and watch.culprit:
            # SystemExit and the like: as bad as not to return.
            self._stats_of(watch.culprit).failures += 1
            self._suspend(watch.culprit, f"raised {type(error).__name__}")
            self._run_again(job)
        elif job.future.done():
            pass
        elif error is None:
            job.future.set_result(result)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            job.future.set_exception(error)
        else:  # in the loop these would mean something
            job.future.set_exception(RuntimeError(f"the job raised {type(error).__name__}: {error}"))

    def _run_again(self, job: _Job[Any]) -> None:
        if not job.future.done():
            self._start(job.call, job.future)
        else:
            self._start_threads()

    # -- the clock

    def _schedule_check(self, job: _Job[Any], delay: float) -> None:
        job.due = job.loop.time() + delay
        job.timer = job.loop.call_at(job.due, self._check_deadline, job)

    def _check_deadline(self, job: _Job[Any]) -> None:
        current = job.watch.current
        remaining = self._timeout if current is None else current[1] + self._timeout - self._now()
        if current is None or remaining > 0:
            self._schedule_check(job, remaining)
        elif job.loop.time() - job.due > self._timeout * _GRACE:
            self._schedule_check(job, self._timeout * _GRACE)
        elif not job.watch.abandon(current):
            self._schedule_check(job, self._timeout)
        else:
            self._abandon(job, current[0])

    def _abandon(self, job: _Job[Any], plugin: str) -> None:
        self._jobs.discard(job)
        self._stats_of(plugin).timeouts += 1
        if job.watch.thread is not None:
            self._threads.discard(job.watch.thread)
        self.stuck += 1
        self._suspend(plugin, f"did not return within {self._timeout:g} s")
        self._run_again(job)
        grace = self._timeout * _GRACE
        job.loop.call_later(grace, self._interrupt_if_busy, job.watch, _busy_seconds(job.watch), grace)

    def _interrupt_if_busy(self, watch: PluginWatch, before: float, during: float) -> None:
        if _busy_seconds(watch) - before > during * _BUSY:
            watch.interrupt()

    def _suspend(self, plugin: str, reason: str) -> None:
        for_good = self.stuck >= self._most_stuck
        self._gate.close(plugin, for_good=for_good)
        kv = {"plugin": plugin, "err": reason, "stuck_threads": self.stuck}
        if for_good:
            _log.error("Plugin disabled until the next start", extra={"kv": kv})
        else:
            _log.error("Plugin suspended", extra={"kv": kv | {"seconds": self._pause}})

    def _on_thread_end(self, thread: "_Thread", abandoned: bool) -> None:
        self._threads.discard(thread)
        if abandoned:
            self.stuck -= 1
        if self._ended is not None and not self._threads:
            self._ended.set()

    def _stats_of(self, plugin: str) -> PluginRunStats:
        return self.stats.setdefault(plugin, PluginRunStats())


def _busy_seconds(watch: PluginWatch) -> float:
    """For how long the processor has worked for the thread of a watch; 0 if nobody knows."""
    try:
        native = watch.thread.native_id if watch.thread is not None else None
        return int(Path(f"/proc/self/task/{native}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _stop_timer(job: _Job[Any]) -> None:
    if job.timer is not None:
        job.timer.cancel()


class _Thread(threading.Thread):
    """Takes jobs until it is told to end or given up. A daemon: one that hangs must not hold up the end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: "queue.SimpleQueue[_Job[Any] | None]",
        on_finished: Callable[[_Job[Any], Any, BaseException | None], None],
        on_end: Callable[["_Thread", bool], None],
    ) -> None:
        super().__init__(name="plugins", daemon=True)
        self._loop = loop
        self._jobs = jobs
        self._on_finished = on_finished
        self._on_thread_end = on_end

    def run(self) -> None:
        """Until the end."""
        while (job := self._jobs.get()) is not None:
            job.watch.thread = self
            result = error = None
            try:
                if not job.future.cancelled():
                    result = job.call(job.watch)
            except AbandonedError:
                self._call_on_loop(self._on_thread_end, self, True)
                return
            except BaseException as raised:
                error = raised
            self._call_on_loop(self._on_finished, job, result, error)
            del job, result, error  # what they hold shall not live until the next job comes
        self._call_on_loop(self._on_thread_end, self, False)

    def _call_on_loop(self, callback: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(callback, *arguments)
