"""A wire on a bare socket, whose two directions do not know each other.

A server tells the end of a command and closes, while we may still be sending: then our bytes come back as a reset.
Transports of asyncio give up on both directions at the first error, and what had arrived is lost. Here what the kernel
has received can be read to the last byte, whatever becomes of what we send.

Invariant: at most one task sends; bytes that could not be sent are dropped, and `drain` says so.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Final

from interpose.net.streaming.byte_transport import CHUNK, CLOSING, is_over
from interpose.tasks import TaskBag

_HIGH: Final = 1 << 16  # bytes that may wait before writers do


class SocketWire:
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
        """These bytes were read and are to be read again."""
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

    def gone(self) -> bool:
        """Whether the kernel knows that the peer has left."""
        return self._closed or is_over(self._socket)

    def farewell(self) -> None:
        """TCP has no word for it that leaves the other direction alone everywhere."""

    def abort(self) -> None:
        """Let go at once. Whoever reads reads no more."""
        self._queue.clear()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """Let go when the last bytes have left."""
        if self._closed:
            return
        self._closed = True
        await self._tasks.finished(CLOSING)
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
                self._tell()
        except OSError as error:
            self._broken = error
        finally:
            self._flushing = False
            self._sending = 0
            if self._broken is not None:
                self._queue.clear()
            self._tell()

    def _tell(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


async def connect(host: str, port: int) -> SocketWire:
    """A connection to the first address of the host that answers. OSError of the last one if none does."""
    loop = asyncio.get_running_loop()
    problem: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _name, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connection, address)
            return SocketWire(connection)
        except OSError as error:
            problem = error
            connection.close()
        except BaseException:
            connection.close()
            raise
    raise problem
