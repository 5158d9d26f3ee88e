"""One socket of the event loop: written to at once, read from only while there is room for it, closed by halves.

Invariant: bytes leave in the order they were written, and what waits for a peer that does not read is bounded by the
high water mark and one read of its feeder, because `pause_writing` stops the feeder.
"""

import array
import asyncio
import contextlib
import fcntl
import os
import select
import socket
import termios
from collections.abc import Callable
from typing import Any, Final

HIGH_WATER: Final = 256 * 1024
"""Unwritten bytes above which the other side is no longer read."""


class DockerSocket(asyncio.Protocol):
    """A transport and its state. Who inherits says what happens with what comes."""

    __slots__ = (
        "_fd", "blocked", "bytes_read", "closing", "deaf", "eof", "gone", "reading", "shut", "transport", "write",
    )  # fmt: skip
    write: Callable[[bytes], None]

    def __init__(self) -> None:
        self.transport: Any = None
        self.write = discard
        self.bytes_read = 0
        self.blocked = False  # the peer does not read: more would only pile up
        self.reading = True
        self.eof = False  # nothing more will come
        self.deaf = False  # that is our own doing
        self.shut = False  # we have said all that we will say
        self.closing = False
        self.gone = False
        self._fd = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(high=HIGH_WATER)
        sock = transport.get_extra_info("socket")
        self._fd = sock.fileno() if sock is not None else -1
        self.write = self._write_now if self._fd >= 0 else self.transport.write

    def _write_now(self, data: bytes) -> None:
        """Write to the socket itself: the transport would only do it later in the same turn, at a price."""
        try:
            written = os.write(self._fd, data)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self.write_failed(error, data)
            return
        if written != len(data):
            self.write = self._write_queued
            self.transport.write(memoryview(data)[written:])

    def _write_queued(self, data: bytes) -> None:
        """Bytes wait in the transport's buffer: new ones have to stand behind them."""
        if self.transport.get_write_buffer_size():
            self.transport.write(data)
        else:
            self.write = self._write_now
            self._write_now(data)

    def write_failed(self, error: OSError, data: bytes) -> None:
        """The peer takes nothing any more. The transport finds that out by itself, and ends the connection."""
        self.transport.write(data)

    def pause_writing(self) -> None:
        self.blocked = True
        self.on_blocked()

    def resume_writing(self) -> None:
        self.blocked = False
        self.on_writable()

    def on_blocked(self) -> None:
        """The peer does not read any more."""

    def on_writable(self) -> None:
        """The peer reads again."""

    def read(self, wanted: bool) -> None:
        """Read from the peer, or leave what it says where it is."""
        if wanted is self.reading or self.closing:
            return
        self.reading = wanted
        if self.eof:
            return  # the transport has stopped, and must not be told to meet the end once more
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def write_eof(self) -> None:
        """Say that nothing will follow, after what was written before."""
        if not self.shut and not self.closing:
            self.shut = True
            self.write = discard
            self.transport.write_eof()

    def stop_listening(self) -> None:
        """Let the peer say nothing more: a later word fails on its side, before anything of it is on its way. What it
        said before still comes, and then the end of it."""
        if self._fd < 0 or self.eof or self.deaf or self._events(select.POLLRDHUP):
            return  # it has said all that it will say
        self.deaf = True
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._fd)) as sock:
            sock.shutdown(socket.SHUT_RD)

    @property
    def unread(self) -> int:
        """Bytes that wait in the socket."""
        size = array.array("i", [0])
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._fd, termios.FIONREAD, size)
        return size[0]

    def _events(self, wanted: int) -> int:
        poller = select.poll()
        poller.register(self._fd, wanted)
        return sum(events for _, events in poller.poll(0))

    def connection_lost(self, exc: Exception | None) -> None:
        self.write = discard
        self._fd = -1
        self.closing = self.gone = True

    @property
    def backlog(self) -> int:
        """Bytes the peer has not read yet."""
        size: int = self.transport.get_write_buffer_size() if self.transport is not None else 0
        return size

    def fileno(self) -> int:
        """The descriptor; -1 when it is closed."""
        return self._fd

    @property
    def hung_up(self) -> bool:
        """Whether the peer has closed altogether, not just said that nothing will follow."""
        if self._fd < 0:
            return True
        # With our own half closed, a peer that closed its half looks like one that is gone; there is nothing left to
        # say to it either way.
        return bool(self._events(0) & select.POLLHUP)

    def close(self) -> None:
        """Close after what was written is out."""
        if not self.closing:
            self.closing = True
            self.write = discard
            self.transport.close()

    def abort(self) -> None:
        self.closing = True
        self.write = discard
        if self.transport is not None:
            self.transport.abort()


def discard(data: bytes) -> None:
    """Nothing is sent any more."""
