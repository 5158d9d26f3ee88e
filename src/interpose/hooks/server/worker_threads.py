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
    """Counters of the runs of one plugin: plain numbers, read at each scrape."""

    __slots__ = ("buckets", "failures", "runs", "seconds", "timeouts")

    def __init__(self) -> None:
        self.runs = 0
        self.failures = 0
        self.timeouts = 0  # did not return in time; not among the runs
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, failed: bool, seconds: float) -> None:
        """Count a run that returned or raised."""
        self.runs += 1
        self.failures += failed
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def absorb(self, other: "PluginRunStats") -> None:
        """Add the counters of another object."""
        self.runs += other.runs
        self.failures += other.failures
        self.seconds += other.seconds
        for index, count in enumerate(other.buckets):
            self.buckets[index] += count


class AbandonedError(BaseException):
    """Ends the run of an abandoned thread; not an Exception, so that no plugin catches it."""


class Gate:
    """Which plugins are suspended, and until when. After the pause one run is the trial, others wait for it."""

    def __init__(self, pause: float, now: Callable[[], float]) -> None:
        self.until: dict[str, float] = {}
        self._pause = pause
        self._now = now
        self._lock = threading.Lock()

    def close(self, plugin: str, *, for_good: bool) -> None:
        with self._lock:
            self.until[plugin] = math.inf if for_good else self._now() + self._pause

    def may_try(self, plugin: str) -> bool:
        """Whether a suspended plugin may run as a trial."""
        with self._lock:
            until = self.until.get(plugin)
            if until is None:  # opened just now
                return True
            if self._now() < until:
                return False
            self.until[plugin] = self._now() + self._pause
            return True

    def open(self, plugin: str) -> None:
        """End the suspension of a plugin whose trial has returned, with whatever result."""
        with self._lock:
            if self.until.get(plugin) != math.inf:
                self.until.pop(plugin, None)


class PluginWatch:
    """Progress of a job; `enter` and `leave` are called for every plugin and every target."""

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
        self.culprit = ""  # the plugin that raised SystemExit or the like
        self.recovered: list[str] = []  # plugins that were suspended and have returned this time
        self.stats: dict[str, PluginRunStats] = {}
        self.thread: threading.Thread | None = None
        self._trial = ""
        self._gate = gate
        self._now = now
        self._lock = threading.Lock()

    def enter(self, plugin: str) -> bool:
        """Called before a plugin runs; False if it is suspended."""
        if plugin in self._gate.until:
            if not self._gate.may_try(plugin):
                return False
            self._trial = plugin
        self.current = (plugin, self._now())
        return True

    def leave(self, plugin: str, failure: str) -> None:
        """Called after a plugin ran; raises AbandonedError if this thread was abandoned."""
        with self._lock:
            current, self.current = self.current, None
        if self.abandoned:
            self._end()
        if sys.exc_info()[0] is not None:  # not an Exception, those were handled before this call
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
        """End this abandoned thread. A pending asynchronous exception has to arrive here, not anywhere later."""
        if self.interrupted and sys.exc_info()[0] is not AbandonedError:
            for _ in range(_YIELDS):  # the first turn takes it, unless the plugin has swallowed it
                time.sleep(0)
        raise AbandonedError

    def abandon(self, overdue: tuple[str, float]) -> bool:
        """Abandon the thread if that plugin still runs; whether it was abandoned."""
        with self._lock:
            self.abandoned = self.current is overdue
            return self.abandoned

    def interrupt(self) -> None:
        """End a plugin that is busy in Python by an asynchronous exception.

        Not for one that waits in the kernel: until the exception arrives, it slows down all threads.
        """
        with self._lock:
            if self.current is not None and not self.interrupted and self.thread is not None:
                self.interrupted = True
                ident = ctypes.c_ulong(self.thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(AbandonedError))


T = TypeVar("T")
_log = logging.getLogger(__name__)

# Threads that do not come back cost memory, and those that spin take turns with the loop.
_MOST_STUCK: Final = 8
# If the loop checks later than this part of the deadline, the whole program was stopped, and the plugin with it.
_GRACE: Final = 0.2
# An abandoned thread is interrupted if it uses more than this part of a processor.
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
    """Runs jobs in a few threads and limits the time of plugins. Belongs to one loop; `close` ends the threads."""

    def __init__(
        self,
        *,
        timeout: float = 0.5,
        pause: float = 60.0,
        workers: int = 4,
        most_stuck: int = _MOST_STUCK,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout` seconds for one plugin and one target, `pause` seconds of suspension; `now` is for threads."""
        self.stats: dict[str, PluginRunStats] = {}
        self.stuck = 0  # abandoned threads that have not returned
        self._timeout = timeout
        self._pause = pause
        self._most_threads = workers
        self._most_stuck = most_stuck
        self._now = now
        self._gate = Gate(pause, now)
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._threads: set[_Thread] = set()
        self._jobs: set[_Job[Any]] = set()
        self._ended: asyncio.Event | None = None  # set by `close`

    @property
    def suspended(self) -> Mapping[str, float]:
        """Suspended plugins with the remaining seconds; infinite: until a restart."""
        now = self._now()
        return {plugin: max(until - now, 0.0) for plugin, until in self._gate.until.copy().items()}

    async def run(self, job: Callable[[Watch], T]) -> T:
        """Run a job in a thread: what it returns or raises. Cancellation does not end the job."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._start(job, future)
        return await future

    async def close(self) -> None:
        """Cancel all jobs and end the threads. Threads that hang remain until the process exits."""
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
        """Start threads, as many as there are jobs, up to the limit."""
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

    # -- time limits

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
    """CPU time of the thread of a watch in seconds; 0 if it cannot be read."""
    try:
        native = watch.thread.native_id if watch.thread is not None else None
        return int(Path(f"/proc/self/task/{native}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _stop_timer(job: _Job[Any]) -> None:
    if job.timer is not None:
        job.timer.cancel()


class _Thread(threading.Thread):
    """Runs jobs until the runner closes or the thread is abandoned. A daemon: it must not delay the exit."""

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
            del job, result, error  # their objects must not live until the next job
        self._call_on_loop(self._on_thread_end, self, False)

    def _call_on_loop(self, callback: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *arguments)
