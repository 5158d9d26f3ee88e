"""Our own terminal as one end of a session: raw while it lasts, its size, what is typed; and put back as it was.

The terminal is not ours alone: standard input, output and the shell's are one open file. So it is never made
non-blocking; waiting for it is done in a thread. Whatever ends us, but for SIGKILL, ends raw mode before.
"""

import asyncio
import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, TextIO, TypeVar

_T = TypeVar("_T")

_READ: Final = 32 << 10
_LEAVE: Final = b"\x10\x11"  # Ctrl-P Ctrl-Q
_ENDING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def raw_terminal(fd: int) -> Iterator[None]:
    """Every key goes to the other end, Ctrl-C too."""
    before = termios.tcgetattr(fd)

    def end(number: int, _frame: FrameType | None) -> None:
        if _is_ours(fd):
            with suppress(termios.error):  # it is gone
                termios.tcsetattr(fd, termios.TCSANOW, before)
        # As if we had never looked at it.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    with _handle_ending_signals(end):
        try:
            tty.setraw(fd)
            yield
        finally:
            with suppress(termios.error):
                termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _is_ours(fd: int) -> bool:
    """Whether we may change it: in the background we would only be stopped for that."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True  # not the one that we are controlled by


@contextmanager
def _handle_ending_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that would end us; those that are ignored stay ignored."""
    before = {number: signal.getsignal(number) for number in _ENDING}
    handled = [number for number, now in before.items() if now is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


async def _in_thread(work: Callable[[], _T], name: str) -> _T:
    """Run a function that may wait for ever, in a thread that does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def resolve(result: _T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        result: _T | None = None
        error: Exception | None = None
        try:
            result = work()
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the loop is closed, the result is not needed any more
            loop.call_soon_threadsafe(resolve, result, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done


class TypedInput:
    """Standard input: a terminal, a pipe or a file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def read(self) -> bytes:
        """What was typed; nothing at the end."""
        reading = _InterruptibleRead(self._fd)
        try:
            return await _in_thread(reading.read, "standard input")
        finally:
            reading.end()  # what is typed from now on is for another program


class LeavableInput:
    """Standard input that can be left without ending what reads it: Ctrl-P Ctrl-Q sets `left`, and nothing comes any
    more. A Ctrl-P is held back until the next key is known."""

    def __init__(self, typed: TypedInput) -> None:
        self.left = asyncio.Event()
        self._typed = typed
        self._held = b""

    async def read(self) -> bytes:
        """What was typed; nothing at the end."""
        while True:
            data = await self._typed.read()
            text = self._held + data
            self._held = b""
            before, keys, _ = text.partition(_LEAVE)
            if keys:
                self.left.set()
                if not before:
                    await asyncio.Event().wait()  # until the session is cancelled
                return before
            if data and text.endswith(_LEAVE[:1]):
                text, self._held = text[:-1], text[-1:]
            if text or not data:
                return text


class _InterruptibleRead:
    """A read of standard input that another thread can end."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._enough = os.eventfd(0, os.EFD_CLOEXEC)
        self._closed = False
        self._lock = threading.Lock()  # the number of a closed descriptor may be in use again

    def read(self) -> bytes:
        """The bytes that were typed; empty at the end, or after `end`."""
        try:
            return self._read()
        except OSError:
            return b""  # the terminal is gone
        finally:
            with self._lock:
                os.close(self._enough)
                self._closed = True

    def end(self) -> None:
        """Make a read that waits return; from any thread."""
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._enough, 1)

    def _read(self) -> bytes:
        waiting = select.poll()
        for fd in (self._fd, self._enough):
            waiting.register(fd, select.POLLIN)
        while not any(fd == self._enough for fd, _ in waiting.poll()):
            with suppress(BlockingIOError):  # another process that shares the terminal made it so, and was faster
                return os.read(self._fd, _READ)
        return b""


async def watch_sizes(fd: int) -> AsyncIterator[tuple[int, int]]:
    """The size of the terminal (width, height) now, and whenever it changes."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            size = os.get_terminal_size(fd)
            yield size.columns, size.lines
            await changed.wait()
            changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


def make_writer(stream: TextIO) -> Callable[[bytes], Awaitable[None]]:
    """Writes bytes to a text stream's file, all of them, however slowly they are taken."""

    async def write(data: bytes) -> None:
        await _in_thread(lambda: _write(stream.fileno(), data), "standard output")

    return write


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:  # as with reading
            waiting = select.poll()
            waiting.register(fd, select.POLLOUT)
            waiting.poll()


def is_on_terminal() -> bool:
    """Whether standard input and output are both a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()
