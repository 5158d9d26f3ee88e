"""Accepts connections on a listening socket that is bound already, and ends them.

The accept loop is our own: event loops' unix servers may unlink the socket's path when they close, and during a
take-over that path belongs to the successor. Invariants: the number of connections is bounded; there is room for
a new client unless requests of all clients are being handled; and `close` leaves no task and no descriptor behind, the
listening one included.
"""

import asyncio
import importlib
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from interpose.log import RateLimited
from interpose.net.httpd.limits import BodyBudget, HttpServerLimits, HttpSession, Stage, choose_eviction
from interpose.net.httpd.routes import Router, RouteTable
from interpose.tasks import TaskBag

if TYPE_CHECKING:
    from interpose.net.httpd.transports import Pipe

_log = logging.getLogger(__name__)

# Health probes, a scraper and a few people; more is a mistake or an attack.
MAX_CONNECTIONS = 64
# Out of descriptors: they come back when one is closed, so try again soon but not in a tight loop.
_ACCEPT_PAUSE = 0.1
# Seconds that a client has for its first request when the server is about to end.
_FIRST_REQUEST_TIMEOUT = 1.0
# Seconds that a client has for a request in any case, so that one that really sends a request gets that far, however
# many connect. Others wait in the backlog as long.
_LEAST_TIME = 0.1
# Seconds in which an evicted connection is closed; it takes two turns of the loop.
_EVICTION_TIMEOUT = 1.0
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class AdminServer:
    """The server; owns the listening socket from the start on.

    `any_host` takes requests for whatever host: right on addresses that others shall reach, and wrong on a loopback
    one. `handshake` makes a pipe of a connected socket, which it owns, or None if it failed. A client that is one too
    many takes the place of another, see `choose_eviction`.
    """

    def __init__(
        self,
        listener: socket.socket,
        routes: RouteTable,
        *,
        max_connections: int = MAX_CONNECTIONS,
        any_host: bool = False,
        limits: HttpServerLimits | None = None,
        budget: BodyBudget | None = None,
        handshake: "Callable[[socket.socket], Awaitable[Pipe | None]] | None" = None,
        title: str = "Admin",
    ) -> None:
        self._listener = listener
        self._router = Router(routes)
        self._max_connections = max_connections
        self._any_host = any_host
        self._limits = limits or HttpServerLimits()
        self._budget = budget
        self._handshake = handshake
        self._title = title  # for the log
        self._tasks = TaskBag()
        self._accepting: asyncio.Task[None] | None = None
        self._sessions: dict[HttpSession, asyncio.Task[None]] = {}
        self._unserved: dict[HttpSession, socket.socket] = {}  # their tasks have not run yet
        self._draining = False
        self._h11_loaded = False
        self._limited = RateLimited(_log)
        self.refused = 0  # connections that were turned away because there were too many
        self.cut = 0  # connections that had to make room for others

    @property
    def connections(self) -> int:
        """The number of clients connected now."""
        return len(self._sessions)

    @property
    def busy(self) -> int:
        """Requests that are being received or answered."""
        return sum(session.busy for session in self._sessions)

    def start(self) -> None:
        """Begin to accept; the socket already listens, so no client was refused before."""
        self._listener.setblocking(False)
        self._accepting = self._tasks.spawn(self._accept(), name="admin accept")

    def begin_drain(self) -> None:
        """From now on each answer is the last on its connection. Clients are still served, new ones too."""
        self._draining = True
        for session in self._sessions:
            session.last = True

    async def finish(self, timeout: float) -> None:
        """Accept no more, close idle connections, give requests under way `timeout` seconds to end."""
        self.begin_drain()
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._listener.close()
        # A client that has just connected is about to send a request.
        self._cancel_idle(lambda session: session.requests > 0)
        await self._wait_until_ended(min(timeout, _FIRST_REQUEST_TIMEOUT))
        self._cancel_idle(lambda _visit: True)
        await self._wait_until_ended(max(0.0, timeout - _FIRST_REQUEST_TIMEOUT))

    def _cancel_idle(self, selects: Callable[[HttpSession], bool]) -> None:
        for session, task in self._sessions.items():
            if not session.busy and selects(session):
                task.cancel()

    async def _wait_until_ended(self, timeout: float) -> None:
        if self._sessions:
            await asyncio.wait(self._sessions.values(), timeout=timeout)

    async def close(self) -> None:
        """Stop accepting, cut what is open, close the listening socket. The caller unlinks its path."""
        for session in self._sessions:
            session.cut = True
        await self._tasks.cancel()
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._wait_readable()
                # Not by the loop: a cancellation must not lose a socket that is accepted and not handed over yet.
                sock, address = self._listener.accept()
            except (ConnectionAbortedError, BlockingIOError):  # the client left the backlog again
                continue
            except OSError as error:
                self._limited.log(logging.ERROR, f"{self._title} connection could not be accepted", err=str(error))
                await asyncio.sleep(_ACCEPT_PAUSE)
                continue
            sock.setblocking(False)
            try:
                room = self.connections < self._max_connections or await self._make_room()
            except asyncio.CancelledError:
                sock.close()
                raise
            if not room:
                self._refuse(sock)
                continue
            host = address[0] if isinstance(address, tuple) else ""
            session = HttpSession(address=host, since=loop.time(), last=self._draining)
            self._unserved[session] = sock
            task = self._tasks.spawn(self._serve(session), name="admin connection")
            self._sessions[session] = task
            task.add_done_callback(partial(self._on_ended, session))

    def _on_ended(self, session: HttpSession, _task: "asyncio.Task[None]") -> None:
        del self._sessions[session]
        if unserved := self._unserved.pop(session, None):  # cancelled before it began
            unserved.close()

    async def _wait_readable(self) -> None:
        """Wait until a client waits in the backlog."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._listener, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._listener)

    async def _make_room(self) -> bool:
        """Close a connection in favour of a new one; False if none can be closed."""
        loop = asyncio.get_running_loop()
        while (session := choose_eviction(self._sessions)) is not None:
            if session.stage is not Stage.IDLE and (early := session.since + _LEAST_TIME - loop.time()) > 0:
                await asyncio.sleep(early)
                if self.connections < self._max_connections:
                    return True
                continue  # by now it may be the last that should go
            self.cut += 1
            self._limited.log(logging.WARNING, f"{self._title} connection made room", limit=self._max_connections)
            session.cut = True
            task = self._sessions[session]
            task.cancel()
            await asyncio.wait([task], timeout=_EVICTION_TIMEOUT)
            return self.connections < self._max_connections
        return False

    def _refuse(self, sock: socket.socket) -> None:
        self.refused += 1
        self._limited.log(logging.WARNING, f"{self._title} connection was refused", limit=self._max_connections)
        with sock:
            if self._handshake is not None:
                return  # an answer in plain text would be noise to it
            try:
                sock.send(_BUSY)
            except OSError:
                return

    async def _serve(self, session: HttpSession) -> None:
        sock = self._unserved.pop(session)
        ours = True
        try:
            if not self._h11_loaded:
                # In a thread: reading h11 from disk would hold up the calls on this loop.
                await asyncio.to_thread(importlib.import_module, "interpose.net.httpd.connection")
                self._h11_loaded = True
            from interpose.net.httpd.connection import serve
            from interpose.net.httpd.transports import SocketPipe

            if self._handshake is None:
                pipe: Pipe | None = SocketPipe(sock)
            else:
                ours = False
                pipe = await self._handshake(sock)
            if pipe is not None:
                host, budget = self._any_host, self._budget
                await serve(pipe, self._router, self._limits, any_host=host, session=session, budget=budget)
        finally:
            if ours:
                sock.close()
