"""Accepts connections on a listening socket that somebody else bound, and ends them.

The accept loop is our own: event loops' unix servers may unlink the socket's path when they close, and during a
take-over that path belongs to the successor. Invariants: the number of connections is bounded; there is room for
somebody new unless all clients are being worked for; and `close` leaves no task and no descriptor behind, the listening
one included.
"""

import asyncio
import importlib
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from interpose.log import RateLimited
from interpose.net.httpd.limits import BodyBudget, HttpServerLimits, Stage, Visit, first_to_go
from interpose.net.httpd.routes import Router, RouteTable
from interpose.tasks import TaskBag

if TYPE_CHECKING:
    from interpose.net.httpd.transports import Pipe

_log = logging.getLogger(__name__)

# Health probes, a scraper and a few people; more is a mistake or an attack.
MAX_CONNECTIONS = 64
# Out of descriptors: they come back when somebody closes one, so ask again soon but not in a tight loop.
_ACCEPT_PAUSE = 0.1
# Seconds that a client has for its first request when the server is about to end.
_NEWCOMER = 1.0
# Seconds that a client has for a request in any case: however many come, whoever really asks something gets that far.
# Others wait in the backlog as long.
_TRY = 0.1
# Seconds in which somebody who has to go is gone; it takes two turns of the loop.
_GONE = 1.0
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class AdminServer:
    """The server; owns the listening socket from the start on.

    `any_host` takes requests for whatever host: right on addresses that others shall reach, and wrong on a loopback
    one. `greet` makes a pipe of a connected socket, which it owns, or None if that came to nothing. A client that is
    one too many takes the place of another, see `first_to_go`.
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
        greet: "Callable[[socket.socket], Awaitable[Pipe | None]] | None" = None,
        title: str = "Admin",
    ) -> None:
        self._listener = listener
        self._router = Router(routes)
        self._max_connections = max_connections
        self._any_host = any_host
        self._limits = limits or HttpServerLimits()
        self._budget = budget
        self._greet = greet
        self._title = title  # for the log
        self._tasks = TaskBag()
        self._accepting: asyncio.Task[None] | None = None
        self._visits: dict[Visit, asyncio.Task[None]] = {}
        self._unmet: dict[Visit, socket.socket] = {}  # their tasks have not run yet
        self._leaving = False
        self._h11_loaded = False
        self._limited = RateLimited(_log)
        self.refused = 0  # connections that were turned away because there were too many
        self.cut = 0  # connections that had to make room for others

    @property
    def connections(self) -> int:
        """Clients connected now."""
        return len(self._visits)

    @property
    def busy(self) -> int:
        """Requests that are being received or answered."""
        return sum(visit.busy for visit in self._visits)

    def start(self) -> None:
        """Begin to accept; the socket already listens, so nobody was refused before."""
        self._listener.setblocking(False)
        self._accepting = self._tasks.spawn(self._accept(), name="admin accept")

    def begin_drain(self) -> None:
        """From now on each answer is the last on its connection. Clients are still served, new ones too."""
        self._leaving = True
        for visit in self._visits:
            visit.last = True

    async def finish(self, timeout: float) -> None:
        """Accept no more, let idle clients go, give requests under way so many seconds to end."""
        self.begin_drain()
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._listener.close()
        # Who has just connected did so to ask something.
        self._part(lambda visit: visit.requests > 0)
        await self._ended(min(timeout, _NEWCOMER))
        self._part(lambda _visit: True)
        await self._ended(max(0.0, timeout - _NEWCOMER))

    def _part(self, chosen: Callable[[Visit], bool]) -> None:
        for visit, task in self._visits.items():
            if not visit.busy and chosen(visit):
                task.cancel()

    async def _ended(self, timeout: float) -> None:
        if self._visits:
            await asyncio.wait(self._visits.values(), timeout=timeout)

    async def close(self) -> None:
        """Stop accepting, cut what is open, close the listening socket. Its path stays: whoever bound it unlinks."""
        for visit in self._visits:
            visit.cut = True
        await self._tasks.cancel()
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._knock()
                # Not by the loop: who cancels us must not lose a socket that is accepted and not handed over yet.
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
            visit = Visit(address=host, since=loop.time(), last=self._leaving)
            self._unmet[visit] = sock
            task = self._tasks.spawn(self._converse(visit), name="admin connection")
            self._visits[visit] = task
            task.add_done_callback(partial(self._over, visit))

    def _over(self, visit: Visit, _task: "asyncio.Task[None]") -> None:
        del self._visits[visit]
        if unmet := self._unmet.pop(visit, None):  # cancelled before it began
            unmet.close()

    async def _knock(self) -> None:
        """Wait until somebody is there."""
        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        loop.add_reader(self._listener, there.set)
        try:
            await there.wait()
        finally:
            loop.remove_reader(self._listener)

    async def _make_room(self) -> bool:
        """Part with somebody; False if there is nobody to part with."""
        loop = asyncio.get_running_loop()
        while (visit := first_to_go(self._visits)) is not None:
            if visit.stage is not Stage.IDLE and (early := visit.since + _TRY - loop.time()) > 0:
                await asyncio.sleep(early)
                if self.connections < self._max_connections:
                    return True
                continue  # by now it may be the last that should go
            self.cut += 1
            self._limited.log(logging.WARNING, f"{self._title} connection made room", limit=self._max_connections)
            visit.cut = True
            task = self._visits[visit]
            task.cancel()
            await asyncio.wait([task], timeout=_GONE)
            return self.connections < self._max_connections
        return False

    def _refuse(self, sock: socket.socket) -> None:
        self.refused += 1
        self._limited.log(logging.WARNING, f"{self._title} connection was refused", limit=self._max_connections)
        with sock:
            if self._greet is not None:
                return  # an answer in plain text would be noise to it
            try:
                sock.send(_BUSY)
            except OSError:
                return

    async def _converse(self, visit: Visit) -> None:
        sock = self._unmet.pop(visit)
        ours = True
        try:
            if not self._h11_loaded:
                # In a thread: reading h11 from disk would hold up the calls on this loop.
                await asyncio.to_thread(importlib.import_module, "interpose.net.httpd.connection")
                self._h11_loaded = True
            from interpose.net.httpd.connection import serve
            from interpose.net.httpd.transports import SocketPipe

            if self._greet is None:
                pipe: Pipe | None = SocketPipe(sock)
            else:
                ours = False
                pipe = await self._greet(sock)
            if pipe is not None:
                host, budget = self._any_host, self._budget
                await serve(pipe, self._router, self._limits, any_host=host, visit=visit, budget=budget)
        finally:
            if ours:
                sock.close()
