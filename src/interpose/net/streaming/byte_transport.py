"""The bytes below SPDY and WebSocket: a TCP connection, or messages of a WebSocket that carries SPDY.

Invariant: what is sent goes out in the order of the calls; `send` never waits, `drain` does while the peer is slow.

`SocketTransport` has a bare socket whose two directions are independent. A server reports the exit of a command and
closes while we may still be sending; our bytes then come back as a reset. Transports of asyncio give up on both
directions at the first error, and what had arrived is lost. Here what the kernel has received is read to the last byte.
At most one task sends; bytes that could not be sent are dropped, and `drain` raises.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from interpose.net.websocket import MessagePiece, WebSocket, WebSocketClosed, WebSocketFailed
from interpose.tasks import TaskBag

CHUNK: Final = 1 << 16
CLOSING: Final = 2.0  # seconds for the last bytes to leave
# States of a TCP connection whose other side sends no more: TIME_WAIT, CLOSE, CLOSE_WAIT, LAST_ACK, CLOSING.
_PEER_CLOSED_STATES: Final = frozenset((6, 7, 8, 9, 11))


class _Socket(Protocol):
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


def is_peer_closed(connection: _Socket) -> bool:
    """Whether the kernel knows that the other side sends no more."""
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _PEER_CLOSED_STATES
    except OSError:
        return True


class ByteTransport(Protocol):
    """A connection that carries bytes in both directions."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end. OSError if the connection broke."""
        ...

    def send(self, data: bytes) -> None:
        """Queue bytes to be sent; never waits."""
        ...

    async def drain(self) -> None:
        """Wait until there is room for more."""
        ...

    def pending(self) -> int:
        """How many bytes were sent and have not left."""
        ...

    def is_gone(self) -> bool:
        """Whether the peer is known to have closed; does not read what it sent before."""
        ...

    def send_close(self) -> None:
        """Send the close message of the protocol, if it has one."""
        ...

    def abort(self) -> None:
        """Close at once; bytes that were not sent are dropped."""
        ...

    async def close(self) -> None:
        """Close when the last bytes have left; a peer that reads none is not waited for."""
        ...


class TcpTransport:
    """A TCP connection, with TLS or without."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._first = b""

    def unread(self, data: bytes) -> None:
        """Give back bytes that were read, so that the next `read` returns them."""
        self._first = data + self._first

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        if self._first:
            data, self._first = self._first, b""
            return data
        return await self._reader.read(CHUNK)

    def send(self, data: bytes) -> None:
        """Send bytes; those that can go nowhere any more are dropped."""
        if data and not self._writer.is_closing():
            self._writer.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._writer.drain()

    def pending(self) -> int:
        """How many bytes were sent and have not left."""
        return self._writer.transport.get_write_buffer_size()

    def is_gone(self) -> bool:
        """Whether the kernel knows that the peer has closed."""
        connection = self._writer.get_extra_info("socket")
        return self._writer.is_closing() or connection is None or is_peer_closed(connection)

    def half_close(self) -> None:
        """Tell the peer that no more bytes follow."""
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()

    def send_close(self) -> None:
        """Nothing: a TCP half-close would end the other direction on some servers."""

    def abort(self) -> None:
        """Close at once; bytes that were not sent are dropped."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close when the last bytes have left."""
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self._writer.wait_closed()
                return
        self.abort()


class WebSocketTransport:
    """The messages of a WebSocket, joined."""

    def __init__(self, below: ByteTransport, *, client: bool, random: Callable[[int], bytes]) -> None:
        self._below = below
        self._websocket = WebSocket(client=client, random=random)

    async def read(self) -> bytes:
        """The bytes of the next messages; empty at the end."""
        while data := await self._below.read():
            events = self._websocket.receive(data)
            self._flush()
            if taken := b"".join(event.data for event in events if isinstance(event, MessagePiece)):
                return taken
            if any(isinstance(event, WebSocketClosed | WebSocketFailed) for event in events):
                return b""
        return b""

    def send(self, data: bytes) -> None:
        """Send bytes as one message."""
        if data:
            self._websocket.message(data)
            self._flush()

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._below.drain()

    def pending(self) -> int:
        """How many bytes were sent and have not left."""
        return self._below.pending()

    def is_gone(self) -> bool:
        """Whether the peer is known to have closed."""
        return self._below.is_gone()

    def send_close(self) -> None:
        """Send the close frame of the WebSocket."""
        self._websocket.close()
        self._flush()

    def abort(self) -> None:
        """Close at once; bytes that were not sent are dropped."""
        self._below.abort()

    async def close(self) -> None:
        """Close when the last bytes have left."""
        self.send_close()
        await self._below.close()

    def _flush(self) -> None:
        self._below.send(self._websocket.take())


_HIGH: Final = 1 << 16  # bytes that may wait before writers do


class SocketTransport:
    """A connected stream socket, not blocking."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._first = b""
        self._queue = bytearray()
        self._flushing = False
        self._sending = 0  # bytes that the kernel is being given
        self._broken: OSError | None = None
        self._moved = asyncio.Event()  # replaced whenever it is set
        self._tasks = TaskBag()
        self._closed = False

    def unread(self, data: bytes) -> None:
        """Give back bytes that were read, so that the next `read` returns them."""
        self._first = data + self._first

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        if self._first:
            data, self._first = self._first, b""
            return data
        return await self._loop.sock_recv(self._socket, CHUNK)

    def send(self, data: bytes) -> None:
        """Send bytes; those that can go nowhere any more are dropped."""
        if not data or self._broken is not None or self._closed:
            return
        self._queue += data
        if not self._flushing:
            self._flushing = True
            self._tasks.spawn(self._flush(), name="streaming send")

    async def drain(self) -> None:
        """Wait until there is room for more. OSError if nothing can be sent any more."""
        while self.pending() > _HIGH:
            await self._moved.wait()
        if self._broken is not None:
            raise ConnectionResetError(str(self._broken))

    def pending(self) -> int:
        """How many bytes were sent and have not left."""
        return len(self._queue) + self._sending

    def is_gone(self) -> bool:
        """Whether the kernel knows that the peer has closed."""
        return self._closed or is_peer_closed(self._socket)

    def send_close(self) -> None:
        """Nothing: a TCP half-close would end the other direction on some servers."""

    def abort(self) -> None:
        """Close at once; a pending `read` ends."""
        self._queue.clear()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """Close when the last bytes have left."""
        if self._closed:
            return
        self._closed = True
        await self._tasks.wait_finished(CLOSING)
        await self._tasks.cancel()
        self._socket.close()

    async def _flush(self) -> None:
        try:
            while self._queue:
                data = bytes(self._queue)
                self._queue.clear()
                self._sending = len(data)
                await self._loop.sock_sendall(self._socket, data)
                self._sending = 0
                self._wake_writers()
        except OSError as error:
            self._broken = error
        finally:
            self._flushing = False
            self._sending = 0
            if self._broken is not None:
                self._queue.clear()
            self._wake_writers()

    def _wake_writers(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


async def connect(host: str, port: int) -> SocketTransport:
    """A connection to the first address of the host that answers. OSError of the last one if none does."""
    loop = asyncio.get_running_loop()
    problem: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _name, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connection, address)
            return SocketTransport(connection)
        except OSError as error:
            problem = error
            connection.close()
        except BaseException:
            connection.close()
            raise
    raise problem
