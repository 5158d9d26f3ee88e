"""Accepts admin connections on a listening socket that somebody else bound.

The accept loop is our own: event loops' unix servers may unlink the socket's path when they close, and during a
take-over that path belongs to the successor. Invariants: the number of connections is bounded, a client never
disturbs another, and `close` leaves no task and no descriptor behind, the listening one included.
"""

import asyncio
import importlib
import logging
import socket

from interpose.admin.routes import RouteTable
from interpose.instrumentation.logging import RateLimited
from interpose.rpc.tasks import TaskBag

_log = logging.getLogger(__name__)

# Health probes, a scraper and a few people; more is a mistake or an attack.
MAX_CONNECTIONS = 64
# Out of descriptors: they come back when somebody closes one, so ask again soon but not in a tight loop.
_ACCEPT_PAUSE = 0.1
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class AdminServer:
    """The server; owns the listening socket from the start on."""

    def __init__(self, listener: socket.socket, routes: RouteTable, *, max_connections: int = MAX_CONNECTIONS) -> None:
        self._listener = listener
        self._routes = routes
        self._max_connections = max_connections
        self._tasks = TaskBag()
        self._connections = 0
        self._h11_loaded = False
        self._limited = RateLimited(_log)

    @property
    def connections(self) -> int:
        """Clients connected now."""
        return self._connections

    def start(self) -> None:
        """Begin to accept; the socket already listens, so nobody was refused before."""
        self._listener.setblocking(False)
        self._tasks.spawn(self._accept(), name="admin accept")

    async def close(self) -> None:
        """Stop accepting, cut what is open, close the listening socket. Its path stays: whoever bound it unlinks."""
        await self._tasks.cancel()
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(self._listener)
            except ConnectionAbortedError:  # the client left the backlog again
                continue
            except OSError as error:
                self._limited.log(logging.ERROR, "Admin connection could not be accepted", err=str(error))
                await asyncio.sleep(_ACCEPT_PAUSE)
                continue
            sock.setblocking(False)
            if self._connections >= self._max_connections:
                self._refuse(sock)
                continue
            self._connections += 1
            self._tasks.spawn(self._converse(sock), name="admin connection")

    def _refuse(self, sock: socket.socket) -> None:
        self._limited.log(logging.WARNING, "Admin connection was refused", limit=self._max_connections)
        with sock:
            try:
                sock.send(_BUSY)
            except OSError:
                return

    async def _converse(self, sock: socket.socket) -> None:
        try:
            if not self._h11_loaded:
                # In a thread: reading h11 from disk would hold up the calls on this loop.
                await asyncio.to_thread(importlib.import_module, "interpose.admin.connection")
                self._h11_loaded = True
            from interpose.admin.connection import HttpLimits, serve

            await serve(sock, self._routes, HttpLimits())
        finally:
            self._connections -= 1
            sock.close()
