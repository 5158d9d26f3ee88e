"""A server of streams for tests, with TLS or without: nothing of it outlives `stop`.

asyncio.start_server does not hold a connection during its TLS handshake, nor while its end waits for the other side. A
loop that is closed in one of these moments leaves a transport open, which the garbage collector finds in another test.
Here a connection is a task from the accepted socket to the closed one.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import cast

from interpose.tasks import TaskBag

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class _AcceptedProtocol(asyncio.StreamReaderProtocol):
    """Knows its transport from the end of the TLS handshake on, also if nobody waits for that any more."""

    transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over."""
        self.transport = cast(asyncio.WriteTransport, transport)  # uvloop's are of no class of asyncio
        super().connection_made(transport)


class StreamServer:
    """Calls `serve` for each connection, and closes the connection when that returns."""

    def __init__(self, serve: Serve, *, name: str) -> None:
        self._serve = serve
        self._name = name
        self._tasks = TaskBag()
        self._writers: set[asyncio.StreamWriter] = set()
        self._accepted: set[socket.socket] = set()
        self._listening: socket.socket | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = self._listening = socket.create_server((host, port), family=family)
        listening.setblocking(False)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening, tls)
        found: int = listening.getsockname()[1]
        return found

    def abort(self) -> None:
        """Break all connections, now."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def stop(self) -> None:
        """Listen no more and break all connections; they are closed when this returns."""
        listening, self._listening = self._listening, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        self.abort()
        await self._tasks.cancel()
        for accepted in self._accepted:  # of tasks that never ran
            accepted.close()
        self._accepted.clear()

    def _accept(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        try:
            accepted, _ = listening.accept()
        except OSError:
            return  # it left already
        accepted.setblocking(False)
        self._accepted.add(accepted)
        self._tasks.spawn(self._converse(accepted, tls), name=f"{self._name}-connection")

    async def _converse(self, accepted: socket.socket, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = _AcceptedProtocol(reader, loop=loop)
        self._accepted.discard(accepted)
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=tls)
        except BaseException as error:
            if protocol.transport is not None:  # closing, with TLS it waits for the other side
                protocol.transport.abort()
            else:
                accepted.close()
            if isinstance(error, OSError):
                return  # it left, or spoke no TLS
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
            if not transport.is_closing():  # closed again, a transport with TLS cannot be aborted any more
                writer.close()
            await self._closed(writer)
        finally:
            transport.abort()
            await self._closed(writer)
            self._writers.discard(writer)

    @staticmethod
    async def _closed(writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await writer.wait_closed()
