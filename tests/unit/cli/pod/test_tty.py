"""Our own terminal as one end of a session."""

import asyncio
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from fcntl import F_GETFL, fcntl, ioctl
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO, cast

import pytest

from interpose.cli.pod.exec import run_until_left
from interpose.cli.pod.tty import LeavableInput, TypedInput, make_writer, raw_terminal, watch_sizes
from interpose.testing.eventually import WAIT_LIMIT, eventually


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of one."""
    ends = pty.openpty()
    yield ends
    for fd in ends:
        os.close(fd)


def writer_to(fd: int) -> Callable[[bytes], Awaitable[None]]:
    """Writes to a descriptor that stays open."""
    return make_writer(cast("TextIO", SimpleNamespace(fileno=lambda: fd)))


def names_of_threads() -> list[str]:
    """Of this process."""
    return [one.name for one in threading.enumerate()]


def test_a_terminal_is_raw_for_a_while(terminal: tuple[int, int]) -> None:
    """And then as it was, whatever happens."""
    _, fd = terminal
    before = termios.tcgetattr(fd)
    with raw_terminal(fd):
        assert not termios.tcgetattr(fd)[3] & (termios.ECHO | termios.ISIG)
    assert termios.tcgetattr(fd) == before
    with suppress(ValueError), raw_terminal(fd):
        raise ValueError
    assert termios.tcgetattr(fd) == before


async def test_what_is_typed_is_read(terminal: tuple[int, int]) -> None:
    """As it comes."""
    master, fd = terminal
    with raw_terminal(fd):
        os.write(master, b"a\x03")
        assert await TypedInput(fd).read() == b"a\x03"


async def test_pipes_end_and_files_are_read(tmp_path: Path) -> None:
    """Files cannot be waited for, so they are read at once."""
    reading, writing = os.pipe()
    os.write(writing, b"x")
    os.close(writing)
    typed = TypedInput(reading)
    assert [await typed.read(), await typed.read()] == [b"x", b""]
    os.close(reading)
    (tmp_path / "file").write_bytes(b"text")
    with (tmp_path / "file").open("rb") as file:
        typed = TypedInput(file.fileno())
        assert [await typed.read(), await typed.read()] == [b"text", b""]


async def test_the_terminal_is_never_made_non_blocking(terminal: tuple[int, int]) -> None:
    """The shell has the same open file."""
    master, fd = terminal
    before = fcntl(fd, F_GETFL)
    with raw_terminal(fd):
        reading = asyncio.ensure_future(TypedInput(fd).read())
        await writer_to(fd)(b"x")
        assert fcntl(fd, F_GETFL) == before
        os.write(master, b"a")
        assert await reading == b"a"
    assert fcntl(fd, F_GETFL) == before


async def test_whoever_stops_reading_takes_nothing(terminal: tuple[int, int]) -> None:
    """What is typed afterwards is for others."""
    master, fd = terminal
    with raw_terminal(fd):
        reading = asyncio.ensure_future(TypedInput(fd).read())
        await eventually(lambda: "standard input" in names_of_threads(), "somebody to read")
        reading.cancel()
        await eventually(lambda: "standard input" not in names_of_threads(), "nobody to read")
        os.write(master, b"for others")
        assert os.read(fd, 100) == b"for others"


class Typed(TypedInput):
    """What is typed, piece by piece."""

    def __init__(self, *pieces: bytes, ends: bool = True) -> None:
        super().__init__(-1)
        self._pieces = list(pieces)
        self._ends = ends

    async def read(self) -> bytes:
        """The next piece, and then the end, if there is one."""
        if not self._pieces and not self._ends:
            await asyncio.Event().wait()
        return self._pieces.pop(0) if self._pieces else b""


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        ((b"a", b"b"), [b"a", b"b"]),
        ((b"a\x10", b"b"), [b"a", b"\x10b"]),
        ((b"\x10", b"\x10", b"x"), [b"\x10", b"\x10x"]),
        ((b"\x10",), [b"\x10"]),
        ((b"\x11\x10b",), [b"\x11\x10b"]),
    ],
)
async def test_all_that_is_typed_arrives(pieces: tuple[bytes, ...], read: list[bytes]) -> None:
    """Also half of what would end it."""
    typed = LeavableInput(Typed(*pieces))
    got = []
    while data := await typed.read():
        got.append(data)
    assert got == read
    assert not typed.left.is_set()


@pytest.mark.parametrize(
    ("pieces", "read"), [((b"a\x10\x11b",), [b"a"]), ((b"a\x10", b"\x11b"), [b"a"]), ((b"\x10\x11",), [])]
)
async def test_two_keys_leave(pieces: tuple[bytes, ...], read: list[bytes]) -> None:
    """What was typed before them arrives, and no end."""
    typed = LeavableInput(Typed(*pieces, ends=False))
    got = []

    async def session() -> int:
        while data := await typed.read():
            got.append(data)
        return 0

    assert await run_until_left(typed.left, session()) is None
    assert got == read


async def test_a_session_that_ends_or_fails_does_so() -> None:
    """Nobody left."""

    async def ends() -> int:
        return 3

    async def fails() -> int:
        raise ValueError("so")

    assert await run_until_left(asyncio.Event(), ends()) == 3
    with pytest.raises(ValueError, match="so"):
        await run_until_left(asyncio.Event(), fails())


async def test_a_terminal_that_is_gone_is_the_end() -> None:
    """Whoever typed has hung up."""
    master, fd = pty.openpty()
    os.close(master)
    assert await TypedInput(fd).read() == b""
    os.close(fd)


@pytest.mark.parametrize("blocking", [True, False])
async def test_all_is_written_however_slowly_it_is_read(terminal: tuple[int, int], blocking: bool) -> None:
    """Also if somebody else has made the terminal non-blocking; the loop goes on meanwhile."""
    master, fd = terminal
    os.set_blocking(fd, blocking)
    much = b"x" * 300_000
    with raw_terminal(fd):
        writing = asyncio.ensure_future(writer_to(fd)(much))
        got = b""
        while len(got) < len(much):
            got += await asyncio.to_thread(os.read, master, 65536)
        await writing
    assert got == much


async def test_a_failure_to_write_is_raised() -> None:
    """Nobody reads it."""
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError):
        await writer_to(writing)(b"x")
    os.close(writing)


# Whatever runs the tests may ignore signals, and its children do then, too: nohup does.
CHILD = """
import asyncio, signal, sys, uvloop
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
from interpose.cli.pod.tty import TypedInput, raw_terminal

async def main():
    with raw_terminal(0):
        reading = asyncio.ensure_future(TypedInput(0).read())
        print("READY", flush=True)
        await reading
        await asyncio.Event().wait()

asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_whatever_ends_us_the_terminal_is_as_it_was(terminal: tuple[int, int], number: signal.Signals) -> None:
    """And we end by that signal, so that others see why. (SIGINT is an exception in Python.)"""
    master, fd = terminal
    before, flags = termios.tcgetattr(fd), fcntl(fd, F_GETFL)
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=fd, stdout=fd, stderr=subprocess.DEVNULL)
    try:
        said = b""
        while b"READY" not in said:
            said += os.read(master, 1000)
        assert not termios.tcgetattr(fd)[3] & termios.ECHO
        child.send_signal(number)
        code = child.wait(WAIT_LIMIT)
    finally:
        child.kill()
        child.wait()
    assert termios.tcgetattr(fd) == before
    assert fcntl(fd, F_GETFL) == flags
    assert code == -number


def test_signals_that_are_ignored_stay_so(terminal: tuple[int, int]) -> None:
    """As with nohup; all are as before afterwards."""
    _, fd = terminal
    of_ending = signal.getsignal(signal.SIGTERM)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raw_terminal(fd):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) != of_ending
        assert signal.getsignal(signal.SIGTERM) == of_ending
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_a_size_is_told_at_first_and_when_it_changes(terminal: tuple[int, int]) -> None:
    """By the signal that terminals send."""
    _, fd = terminal
    ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    told = watch_sizes(fd)
    assert await anext(told) == (80, 24)
    ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    os.kill(os.getpid(), signal.SIGWINCH)
    assert await anext(told) == (120, 50)
    await told.aclose()  # type: ignore[attr-defined]
