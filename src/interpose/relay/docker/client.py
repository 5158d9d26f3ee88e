"""A client's connection: reads requests, one at a time, and sends each on its way.

Requests that come early wait as bytes in a bounded buffer. A client has one connection to dockerd, dialled with its
first request and again if dockerd closed it in between. Invariant: whatever ends the link ends that connection and
every task that works for it.
"""

import array
import asyncio
import contextlib
import fcntl
import logging
import termios
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from interpose.h1.heads import Heads, Malformed, RequestHead
from interpose.h1.streams import RequestReader
from interpose.relay.docker.backend import Backend
from interpose.relay.docker.endpointstats import EndpointStats
from interpose.relay.docker.httpcall import HttpCall
from interpose.relay.docker.intercepting import Intercepting
from interpose.relay.docker.passing import Passing
from interpose.relay.docker.statuses import error_answer
from interpose.relay.docker.tunnel import Tunnel
from interpose.relay.docker.upstream import BackendAway, DockerUpstream
from interpose.relay.docker.wire import Wire
from interpose.rpc.listener import Peer
from interpose.rpc.tasks import TaskBag

_log = logging.getLogger(__name__)
# Bytes that may come before their turn.
_AHEAD: Final = 64 * 1024
# Seconds a client we turned away has to read the answer.
_LINGER: Final = 2.0


class Sighted(Protocol):
    """A call that somebody looks at."""

    def end(self, status: int, why: str = "") -> None: ...


class Switch(Protocol):
    """Who says what is done with each request."""

    def wants(self, head: RequestHead) -> bool: ...

    async def handle(self, call: HttpCall) -> bytes: ...

    def begin(self, head: RequestHead, peer: Any) -> Sighted | None: ...

    def stats(self, endpoint: Any) -> EndpointStats: ...


class Host(Protocol):
    """What the links of a listener share."""

    relay: Switch
    upstream: DockerUpstream
    heads: Heads
    tasks: TaskBag
    clock: Callable[[], float]

    def admit(self, link: "ClientLink") -> bool: ...

    def ended(self, link: "ClientLink") -> None: ...

    def fault(self, link: "ClientLink", status: int, why: str) -> None: ...

    def hold(self, size: int) -> bool: ...


class ClientLink(Wire):
    """One client."""

    __slots__ = (
        "_away",
        "_head_for",
        "_linger",
        "_passing",
        "_requests_before",
        "_task",
        "backend",
        "draining",
        "endless",
        "host",
        "peer",
        "reader",
        "requests",
        "tunnel",
        "work",
    )

    def __init__(self, host: Host) -> None:
        super().__init__()
        self.host = host
        self.peer: Peer | None = None
        self.reader = RequestReader(host.heads)
        self.backend: Backend | None = None
        self.work: Passing | Intercepting | None = None  # the request at hand
        self.tunnel: Tunnel | None = None
        self.requests = 0
        self.endless = False  # the answer at hand ends only when one side leaves
        self.draining = False
        self._passing = Passing(self)
        self._task: asyncio.Task[None] | None = None
        self._away = False  # turned away: what still comes is not looked at
        self._linger: asyncio.TimerHandle | None = None
        self._head_for = 0
        self._requests_before = 0

    # What listeners, drains and views ask

    @property
    def pid(self) -> int:
        """The peer's process, for messages; 0 if nobody asked."""
        return self.peer.pid if self.peer is not None else 0

    @property
    def in_flight(self) -> bool:
        """Whether something is owed to the client."""
        return self.work is not None or self.backlog > 0

    @property
    def tunnelled(self) -> bool:
        return self.tunnel is not None

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self.host.admit(self):
            self.abort()

    def data_received(self, data: bytes) -> None:
        self.bytes_read += len(data)
        try:
            if self.tunnel is not None:
                self.tunnel.from_client(data)
            elif not self._away:
                # Clients repeat themselves: most requests come in one piece that is known.
                head = self.reader.whole(data) if self.work is None else None
                if head is not None:
                    self._begin(head)
                else:
                    self.reader.receive(data)
                    self._advance()
        except Exception:
            # A bug of ours costs this connection, never the process and never the others.
            _log.exception("Handling of a request failed")
            self.abort()

    def eof_received(self) -> bool:
        self.eof = True
        if self.tunnel is not None:
            self.tunnel.client_eof()
        elif self.work is None:
            self.closing = True
            return False
        elif self.hung_up:
            self.vanish()
        else:
            self.work.client_eof()
        return not self.closing

    def on_blocked(self) -> None:
        if self.backend is not None:
            self.backend.read(False)

    def on_writable(self) -> None:
        if self.backend is not None:
            self.backend.read(True)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._linger is not None:
            self._linger.cancel()
        try:
            self._leave()
        finally:
            self.host.ended(self)

    def _leave(self) -> None:
        """Nothing is done for this client any more."""
        if self._task is not None:
            self._task.cancel()
        if self.work is not None:
            self.work.client_lost()
        if self.backend is not None:
            self.backend.close()
            self.backend = None

    def vanish(self) -> None:
        """The client is gone for good; what it had said is still delivered."""
        self._leave()
        self.abort()

    def tick(self, timeout: float) -> bool:
        """A second has passed. False if a head has been on its way for longer than `timeout` seconds."""
        if self.tunnel is not None:
            self.tunnel.tick()
        if (self.eof or not self.reading) and self.hung_up and not self._more_to_take():
            self.vanish()
        if self.work is not None or self._away or self.reader.between or self.requests != self._requests_before:
            self._head_for = 0
            self._requests_before = self.requests
            return True
        self._head_for += 1
        return self._head_for <= timeout

    def _more_to_take(self) -> bool:
        """Whether a client that is gone has left bytes that dockerd should still get."""
        if self.eof or self._fd < 0 or self.work is None or (self.work.uploaded and self.tunnel is None):
            return False
        size = array.array("i", [0])
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._fd, termios.FIONREAD, size)
        return size[0] > 0

    # Requests

    def _advance(self) -> None:
        if self.work is None:
            self._take()
        else:
            self.work.pump()
        self.regulate()

    def _take(self) -> None:
        """The next request, if its head is there."""
        try:
            head = self.reader.next()
        except Malformed as error:
            self.host.fault(self, error.status, str(error))
            self.turn_away(error.status, str(error))
            return
        if isinstance(head, RequestHead):
            self._begin(head)
        elif self.eof:
            self.close()

    def _begin(self, head: RequestHead) -> None:
        self.requests += 1
        endpoint = head.route.endpoint
        self.endless = endpoint.endless
        relay = self.host.relay
        stats = relay.stats(endpoint)
        stats.started += 1
        if relay.wants(head):
            self.work = intercepting = Intercepting(self, head, stats)
            intercepting.start()
        else:
            self.work = passing = self._passing
            passing.start(head, stats)

    def done(self, *, keep: bool, linger: bool = False) -> None:
        """The request at hand was answered. Unless the connection ends with it, the next one is due."""
        self.work = None
        self.endless = False
        if self.closing:
            return
        if not keep or self.draining:
            self._part(linger=linger)
            return
        self.reader.start_next()
        if self.reader.buffered or self.eof:
            self._advance()
        elif not self.reading:
            self.regulate()

    def regulate(self) -> None:
        """Read from the client if there is room for what it says."""
        if self._away or self.closing:
            return
        backend = self.backend
        blocked = backend is not None and backend.blocked and self.work is not None
        self.read(not blocked and self.reader.buffered <= _AHEAD)

    @property
    def spoken_out(self) -> bool:
        """Whether no further request will come."""
        return self.eof and not self.reader.buffered

    # Connections to dockerd, and tasks

    def ready_backend(self) -> Backend | None:
        """The connection to dockerd, if there is one that takes a request."""
        backend = self.backend
        if backend is None or backend.closing or backend.eof or backend.shut:
            return None
        return backend

    async def new_backend(self) -> Backend:
        """Another one. BackendAway if dockerd is."""
        if self.backend is not None:
            self.backend.close()
            self.backend = None
        self.backend = await self.host.upstream.connect()
        return self.backend

    def dial(self) -> None:
        """Get a connection for the request at hand."""
        self.run(self._dial(), "dial of dockerd for a client")

    async def _dial(self) -> None:
        try:
            backend = await self.new_backend()
        except BackendAway as error:
            if self.work is not None:
                self.work.away(str(error))
        else:
            if self.work is not None:
                self.work.connected(backend)
                self.regulate()

    def run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do something for the request at hand; it is cancelled when the client leaves."""
        self._task = self.host.tasks.spawn(self._guarded(work), name=name)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        mine = asyncio.current_task()
        try:
            await work
        except Exception:
            _log.exception("Handling of a request failed")
            self.abort()
        finally:
            if self._task is mine:  # else the next one is under way already
                self._task = None

    # The end

    def turn_away(self, status: int, why: str) -> None:
        """Answer in dockerd's place and close."""
        self.write(error_answer(status, why, close=True))
        self._part(linger=True)

    def _part(self, *, linger: bool = False) -> None:
        """Close. While the client may still be sending, what it says is read away for a moment: closing with unread
        bytes would reset the connection, and it might never see the answer."""
        self._away = True
        if self.backend is not None:
            self.backend.close()
            self.backend = None
        if self.eof or not (linger or self.reader.buffered):
            self.close()
            return
        self.write_eof()
        self.read(True)
        self._linger = asyncio.get_running_loop().call_later(_LINGER, self.close)

    def drain(self) -> None:
        """Take no further request; close when the one at hand is answered."""
        self.draining = True
        if self.work is None and not self._away:
            self._part()

    def cut(self) -> None:
        """End it, whatever is under way."""
        self._leave()
        self.close()
