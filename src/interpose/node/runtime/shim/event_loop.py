"""The event loop of a shim, in one thread: descriptors, timers, child processes.

Callbacks are called one after the other and never block. An exception of one is logged and ends nothing; nor does one
of the loop itself: a bug must not end the shim of a running pod.
"""

import heapq
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE, HANGUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLRDHUP
# Signals that a shim ignores. Children get the defaults back.
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2)
_PRUNE_AT = 64
_MAX_WAIT = 3600.0  # seconds; the kernel counts milliseconds in 32 bits
_ERROR_PAUSE = 0.1  # seconds; a repeated error must not use up the CPU


class LoopTimer:
    """A callback at a time, which can be cancelled."""

    __slots__ = ("at", "call")

    def __init__(self, at: float, call: "Callable[[], None]") -> None:
        self.at = at
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Drop the callback, with the objects it refers to."""
        self.call = None

    def __lt__(self, other: "LoopTimer") -> bool:
        return self.at < other.at


class EventLoop:
    """An epoll loop. `on_child(pid, status)` is called for every child that exited."""

    def __init__(self, on_child: "Callable[[int, int], None]") -> None:
        self._on_child = on_child
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._timers: list[LoopTimer] = []
        self._prune_at = _PRUNE_AT
        self._ended = False
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self.watch(wake, READ, lambda _events: self._on_wakeup(wake))

    def watch(self, fd: int, events: int, call: "Callable[[int], None]") -> None:
        """Call `call` with the events of a descriptor; replaces an earlier watch."""
        if fd not in self._watched:
            self._epoll.register(fd, events)
        elif self._watched[fd][0] != events:
            self._epoll.modify(fd, events)
        self._watched[fd] = (events, call)

    def unwatch(self, fd: int) -> None:
        """Stop watching a descriptor, before it is closed."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def later(self, seconds: float, call: "Callable[[], None]") -> LoopTimer:
        """Call `call` after some seconds, unless the timer is cancelled."""
        if len(self._timers) > self._prune_at:  # most are cancelled long before their time
            self._timers = [timer for timer in self._timers if timer.call is not None]
            heapq.heapify(self._timers)
            self._prune_at = max(_PRUNE_AT, 2 * len(self._timers))
        timer = LoopTimer(time.monotonic() + seconds, call)
        heapq.heappush(self._timers, timer)
        return timer

    def run(self) -> None:
        """Run callbacks until `end` is called."""
        _call_guarded(self._reap)  # children that exited before the loop began
        while not self._ended:
            if not _call_guarded(self._run_once):
                time.sleep(_ERROR_PAUSE)

    def end(self) -> None:
        """End the loop after the current callback."""
        self._ended = True

    def _run_once(self) -> None:
        for fd, events in self._epoll.poll(self._wait_time()):
            if (watched := self._watched.get(fd)) is not None:  # an earlier callback may have closed it
                _call_guarded(lambda call=watched[1], what=events: call(what))  # type: ignore[misc]
        now = time.monotonic()
        while self._timers and (self._timers[0].at <= now or self._timers[0].call is None):
            call = heapq.heappop(self._timers).call
            if call is not None:
                _call_guarded(call)

    def _wait_time(self) -> float:
        if not self._timers:
            return -1.0
        return min(max(0.0, self._timers[0].at - time.monotonic()), _MAX_WAIT)

    def _on_wakeup(self, wake: int) -> None:
        os.read(wake, 4096)
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            _call_guarded(lambda pid=pid, status=status: self._on_child(pid, status))  # type: ignore[misc]


def log_line(text: str) -> None:
    """Write a line to the log of the shim."""
    try:
        os.write(2, f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n".encode())
    except OSError:
        return


def log_exception(prefix: str = "") -> None:
    """Log the exception that is being handled, with its file and line."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    log_line(f"{prefix}{kind.__name__ if kind else ''}: {error}{where}")


def _call_guarded(call: "Callable[[], None]") -> bool:
    """Call a function; logs an exception and returns False."""
    try:
        call()
    except Exception:
        log_exception()
        return False
    return True
