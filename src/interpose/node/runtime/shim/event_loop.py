"""One thread that waits for everything: descriptors, time, children.

Callbacks are called one after the other and never block. An exception of one is written to the log and ends nothing;
nor does one of the loop itself: who holds a pod does not go because of a mistake.
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
# What ends with us, or is none of our business. Children get the defaults back.
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1, signal.SIGUSR2)
_CROWD = 64
_LONGEST_WAIT = 3600.0  # the kernel counts milliseconds in 32 bits; to wake up now and then costs nothing
_AFTER_A_MISTAKE = 0.1  # one that comes again and again must not take the processor


class LoopTimer:
    """Something to do later."""

    __slots__ = ("at", "todo")

    def __init__(self, at: float, todo: "Callable[[], None]") -> None:
        self.at = at
        self.todo: Callable[[], None] | None = todo

    def cancel(self) -> None:
        """Do not do it, and let go of what it would have needed."""
        self.todo = None

    def __lt__(self, other: "LoopTimer") -> bool:
        return self.at < other.at


class EventLoop:
    """Waits and calls back. `on_child(pid, status)` gets every child that ended."""

    def __init__(self, on_child: "Callable[[int, int], None]") -> None:
        self._on_child = on_child
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._timers: list[LoopTimer] = []
        self._crowd = _CROWD
        self._ended = False
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self.watch(wake, READ, lambda _events: self._woken(wake))

    def watch(self, fd: int, events: int, call: "Callable[[int], None]") -> None:
        """Call back with the events of a descriptor; with other events than before if it is watched already."""
        if fd not in self._watched:
            self._epoll.register(fd, events)
        elif self._watched[fd][0] != events:
            self._epoll.modify(fd, events)
        self._watched[fd] = (events, call)

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor; before it is closed."""
        if self._watched.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def later(self, seconds: float, todo: "Callable[[], None]") -> LoopTimer:
        """Do something in a while, unless the timer is cancelled."""
        if len(self._timers) > self._crowd:  # most are cancelled long before their time
            self._timers = [timer for timer in self._timers if timer.todo is not None]
            heapq.heapify(self._timers)
            self._crowd = max(_CROWD, 2 * len(self._timers))
        timer = LoopTimer(time.monotonic() + seconds, todo)
        heapq.heappush(self._timers, timer)
        return timer

    def run(self) -> None:
        """Until `end`."""
        _guarded(self._reap)  # who ended before we listened
        while not self._ended:
            if not _guarded(self._turn):
                time.sleep(_AFTER_A_MISTAKE)

    def end(self) -> None:
        """Come to an end after what is being done now."""
        self._ended = True

    def _turn(self) -> None:
        for fd, events in self._epoll.poll(self._patience()):
            if (watched := self._watched.get(fd)) is not None:  # an earlier callback may have closed it
                _guarded(lambda call=watched[1], what=events: call(what))  # type: ignore[misc]
        now = time.monotonic()
        while self._timers and (self._timers[0].at <= now or self._timers[0].todo is None):
            todo = heapq.heappop(self._timers).todo
            if todo is not None:
                _guarded(todo)

    def _patience(self) -> float:
        if not self._timers:
            return -1.0
        return min(max(0.0, self._timers[0].at - time.monotonic()), _LONGEST_WAIT)

    def _woken(self, wake: int) -> None:
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
            _guarded(lambda pid=pid, status=status: self._on_child(pid, status))  # type: ignore[misc]


def say(text: str) -> None:
    """A line in the log of the shim."""
    try:
        os.write(2, f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n".encode())
    except OSError:
        return


def say_error(before: str = "") -> None:
    """The exception that is being handled, with the place it came from, as a line in the log."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    say(f"{before}{kind.__name__ if kind else ''}: {error}{where}")


def _guarded(call: "Callable[[], None]") -> bool:
    """Whether it went well."""
    try:
        call()
    except Exception:
        say_error()
        return False
    return True
