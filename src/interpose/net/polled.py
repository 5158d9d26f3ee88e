"""Sockets that are read and written without the transports of the event loop.

A connection that lives for one request pays for the loop's transport: its objects, its timers and callbacks, and three
system calls to watch a descriptor. Here all sockets of an owner are watched by one epoll instance, and the loop watches
that one. `PolledTransport` is to its protocol what the loop's transport would be, and has the same order of callbacks:
`connection_made`, data, at most one end, `connection_lost`; the latter never from within a call of the protocol's own.
"""

import asyncio
import contextlib
import logging
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

_log = logging.getLogger(__name__)
_READ: Final = select.EPOLLIN
_WRITE: Final = select.EPOLLOUT
_EVENTS_AT_ONCE: Final = 64
_SMALL_READ: Final = 64 * 1024
_LARGE_READ: Final = 256 * 1024
_PIECES_AT_ONCE: Final = 64
# Seconds without accepting after an error, which mostly is that there are no descriptors left.
_ACCEPT_PAUSE: Final = 1.0


class Watched(Protocol):
    """What a poller calls."""

    def on_ready(self, events: int) -> None:
        """The descriptor is readable, writable or broken."""

    def on_removed(self) -> None:
        """Called once, from no other call, after `remove_soon`."""


class PolledProtocol(Protocol):
    """What a transport calls, as `asyncio.Protocol` has it."""

    def connection_made(self, transport: Any) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class SocketPoller:
    """Watches descriptors by an epoll instance of its own, which exists while there are any."""

    def __init__(self) -> None:
        self._watched: dict[int, Watched] = {}
        self._removed: list[Watched] = []
        self._epoll: Any = None
        self._poll: Any = None
        # Not typed: uvloop's `remove_reader` may return None, which the compiled build would not take for a bool.
        self._loop: Any = None
        self._in_turn = False

    def add(self, fd: int, watched: Watched, events: int) -> None:
        """Begin to watch a descriptor."""
        if self._epoll is None:
            self._loop = asyncio.get_running_loop()
            self._epoll = select.epoll()
            self._poll = self._epoll.poll
            self._loop.add_reader(self._epoll.fileno(), self._turn)
        self._epoll.register(fd, events)
        self._watched[fd] = watched

    def change(self, fd: int, events: int) -> None:
        """Watch for other events."""
        self._epoll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Stop watching a descriptor. It must still be open: another process may hold a copy."""
        if self._watched.pop(fd, None) is None:
            return
        self._epoll.unregister(fd)
        if not self._watched and self._loop is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = self._poll = None

    def remove_soon(self, watched: Watched) -> None:
        """Call `on_removed` when whoever is being called now has returned."""
        if not self._removed and not self._in_turn:
            (self._loop or asyncio.get_running_loop()).call_soon(self._end_removed)
        self._removed.append(watched)

    def _turn(self) -> None:
        self._in_turn = True
        try:
            for fd, events in self._poll(0, _EVENTS_AT_ONCE):
                watched = self._watched.get(fd)
                # Closed by a call before, in this very turn. Its number may have been given to another socket, which
                # then finds nothing to read.
                if watched is not None:
                    watched.on_ready(events)
        finally:
            self._in_turn = False
            self._end_removed()

    def _end_removed(self) -> None:
        while self._removed:
            removed, self._removed = self._removed, []
            for watched in removed:
                watched.on_removed()


class PolledTransport:
    """A connected socket and its protocol."""

    __slots__ = (
        "_buffer",
        "_buffered",
        "_closing",
        "_ending",
        "_eof_wanted",
        "_error",
        "_events",
        "_fd",
        "_high",
        "_paused",
        "_poller",
        "_protocol",
        "_read_size",
        "_reading",
        "_sock",
    )

    def __init__(self, poller: SocketPoller, sock: socket.socket, protocol: PolledProtocol) -> None:
        """The socket is the transport's from now on; it must not block."""
        self._poller = poller
        self._sock = sock
        self._fd = sock.fileno()
        self._protocol = protocol
        self._buffer: deque[bytes | memoryview] = deque()
        self._buffered = 0
        self._high = _LARGE_READ
        self._paused = False  # the protocol
        self._reading = True
        self._read_size = _SMALL_READ
        self._eof_wanted = False
        self._closing = False
        self._ending = False
        self._error: Exception | None = None
        self._events = 0  # that the poller watches for
        protocol.connection_made(self)
        self._watch()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The socket, by the name `socket`."""
        return self._sock if name == "socket" else default

    def set_write_buffer_limits(self, high: int) -> None:
        """The protocol is paused above this many unwritten bytes, until a quarter of it is left."""
        self._high = high

    def get_write_buffer_size(self) -> int:
        return self._buffered

    def is_closing(self) -> bool:
        return self._closing

    # Reading

    def pause_reading(self) -> None:
        """Leave what the peer says where it is."""
        self._reading = False
        self._watch()

    def resume_reading(self) -> None:
        if not self._closing:
            self._reading = True
            self._watch()

    def on_ready(self, events: int) -> None:
        """Called by the poller. An error and a hang-up show in what is watched for."""
        try:
            if self._buffered and events & ~_READ:
                self._flush()
            if self._reading and events & ~_WRITE:
                self._receive()
        except Exception as error:
            _log.exception("Handling of a connection failed")
            self._end(error)

    def _receive(self) -> None:
        try:
            data = os.read(self._fd, self._read_size)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if data:
            self._read_size = _LARGE_READ if len(data) >= _SMALL_READ else _SMALL_READ
            self._protocol.data_received(data)
            return
        self._reading = False
        self._watch()
        if not self._protocol.eof_received():
            self.close()

    # Writing

    def write(self, data: bytes | memoryview) -> None:
        """Write what the socket takes and keep the rest. Nothing is written after the end."""
        if self._ending or not data:
            return
        if not self._buffered:
            try:
                written = os.write(self._fd, data)
            except (BlockingIOError, InterruptedError):
                written = 0
            except OSError as error:
                self._end(error)
                return
            if written == len(data):
                return
            data = memoryview(data)[written:]
        self._buffer.append(data)
        self._buffered += len(data)
        self._watch()
        if self._buffered > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def _flush(self) -> None:
        buffer = self._buffer
        try:
            written = os.writev(self._fd, [buffer[i] for i in range(min(len(buffer), _PIECES_AT_ONCE))])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        self._buffered -= written
        while written:
            piece = buffer.popleft()
            size = len(piece)
            if size > written:
                buffer.appendleft(memoryview(piece)[written:])
                break
            written -= size
        if not self._buffered:
            self._watch()
            if self._eof_wanted:
                self._shut()
            if self._closing:
                self._end(None)
        if self._paused and self._buffered <= self._high // 4:
            self._paused = False
            if not self._ending:
                self._protocol.resume_writing()

    def write_eof(self) -> None:
        """Say that nothing will follow, after what was written."""
        if not self._closing and not self._eof_wanted:
            self._eof_wanted = True
            if not self._buffered:
                self._shut()

    def _shut(self) -> None:
        with contextlib.suppress(OSError):  # the peer is gone, which reading will tell
            self._sock.shutdown(socket.SHUT_WR)

    # The end

    def close(self) -> None:
        """Close after what was written is out; nothing is read any more."""
        if not self._closing:
            self._closing = True
            self._reading = False
            if self._buffered:
                self._watch()
            else:
                self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._ending:
            return
        self._ending = self._closing = True
        self._reading = False
        self._error = error
        self._buffer.clear()
        self._buffered = 0
        self._watch()
        self._poller.remove_soon(self)

    def on_removed(self) -> None:
        """Called by the poller: tell the protocol, which may have a last look at the socket."""
        try:
            self._protocol.connection_lost(self._error)
        except Exception:
            _log.exception("Handling of the end of a connection failed")
        finally:
            self._sock.close()
            self._fd = -1

    def _watch(self) -> None:
        """Watch for what is wanted. Nothing is no reason to stay watched: a hang-up would be told again and again."""
        events = (_READ if self._reading else 0) | (_WRITE if self._buffered else 0)
        before = self._events
        if events == before:
            return
        self._events = events
        if not events:
            self._poller.remove(self._fd)
        elif before:
            self._poller.change(self._fd, events)
        else:
            self._poller.add(self._fd, self, events)


class PolledListener:
    """A listening socket whose connections are polled. It takes one at each look, so that those it has are not kept
    waiting by those that come."""

    def __init__(self, poller: SocketPoller, sock: socket.socket, make_protocol: Callable[[], PolledProtocol]) -> None:
        """The socket, which listens, is the listener's from now on."""
        sock.setblocking(False)
        self._poller = poller
        self._sock = sock
        self._make_protocol = make_protocol
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False
        poller.add(sock.fileno(), self, _READ)

    def on_ready(self, events: int) -> None:
        """Called by the poller: take one connection."""
        try:
            sock, _ = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            _log.warning("Connections are not accepted", extra={"kv": {"err": str(error)}})
            self._poller.remove(self._sock.fileno())
            self._pause = asyncio.get_running_loop().call_later(_ACCEPT_PAUSE, self._resume)
            return
        try:
            sock.setblocking(False)
            # Most clients have sent their request by now, which saves a turn.
            PolledTransport(self._poller, sock, self._make_protocol()).on_ready(_READ)
        except Exception:
            _log.exception("Handling of a new connection failed")
            sock.close()

    def _resume(self) -> None:
        if not self._closed:
            self._poller.add(self._sock.fileno(), self, _READ)

    def on_removed(self) -> None:
        """Not called: `close` needs no later moment."""

    def close(self) -> None:
        """Stop accepting. Other holders of the socket go on."""
        if not self._closed:
            self._closed = True
            if self._pause is not None:
                self._pause.cancel()
            self._poller.remove(self._sock.fileno())
            self._sock.close()


def connect(poller: SocketPoller, path: str, make_protocol: Callable[[], PolledProtocol]) -> None:
    """Connect to a unix socket, which happens at once or not at all. OSError says why not.

    The kernel queues a connection without the listener's help, so there is nothing to wait for.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.connect(path)
        PolledTransport(poller, sock, make_protocol())
    except BaseException:
        sock.close()
        raise
