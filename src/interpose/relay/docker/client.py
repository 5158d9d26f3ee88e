"""A client's connection: reads requests, one at a time, and sends each on its way.

Requests that come early wait as bytes in a bounded buffer, so do those of a client that does not read its answers. It
has one connection to dockerd, dialled with its first request and again if dockerd closed it in between. What a client
has said reaches dockerd even if it leaves at once. Invariant: whatever ends the link ends that connection and every
task that works for it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from interpose.net.grpc.listener import Peer
from interpose.net.h1.heads import Heads, MalformedError, RequestHead
from interpose.net.h1.messages import RequestReader
from interpose.relay.docker.buffered import BufferedRequest
from interpose.relay.docker.connection import DockerConnection
from interpose.relay.docker.http_call import DockerHttpCall
from interpose.relay.docker.passthrough import PassthroughRequest
from interpose.relay.docker.socket import DockerSocket
from interpose.relay.docker.stats import EndpointStats
from interpose.relay.docker.translate.errors import error_answer
from interpose.relay.docker.tunnel import Tunnel
from interpose.relay.docker.upstream import BackendAwayError, DockerUpstream
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
# Bytes that may come before their turn.
_AHEAD: Final = 64 * 1024
# Seconds a client we turned away has to read the answer.
_LINGER: Final = 2.0
_HEAD_END: Final = b"\r\n\r\n"


class ObservedRequest(Protocol):
    """A call that taps see."""

    def end(self, status: int, why: str = "") -> None: ...


class CallHandler(Protocol):
    """Decides how each request is handled."""

    def needs_buffering(self, head: RequestHead) -> bool: ...

    async def handle(self, call: DockerHttpCall) -> bytes: ...

    def begin(self, head: RequestHead, peer: Any) -> ObservedRequest | None: ...

    def stats(self, endpoint: Any) -> EndpointStats: ...


class ConnectionHost(Protocol):
    """The listener, as its connections see it."""

    relay: CallHandler
    upstream: DockerUpstream
    heads: Heads
    tasks: TaskBag
    clock: Callable[[], float]

    def arrived(self, link: "DockerClientConnection") -> None: ...

    def ended(self, link: "DockerClientConnection") -> None: ...

    def fault(self, link: "DockerClientConnection", status: int, why: str) -> None: ...

    def hold(self, size: int) -> bool: ...


class DockerClientConnection(DockerSocket):
    """The connection of one Docker client."""

    __slots__ = (
        "_head_for",
        "_heard_after_drain",
        "_linger",
        "_passthrough",
        "_quiet_at",
        "_refusal",
        "_requests_before",
        "_task",
        "_turned_away",
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

    def __init__(self, host: ConnectionHost) -> None:
        super().__init__()
        self.host = host
        self.peer: Peer | None = None
        self.reader = RequestReader(host.heads)
        self.backend: DockerConnection | None = None
        self.work: PassthroughRequest | BufferedRequest | None = None  # the request at hand
        self.tunnel: Tunnel | None = None
        self.requests = 0
        self.endless = False  # the answer at hand ends only when one side leaves
        self.draining = False
        self._passthrough = PassthroughRequest(self)
        self._task: asyncio.Task[None] | None = None
        self._turned_away = False  # what still comes is discarded
        self._refusal = ""  # the reason to answer with as soon as the client sends something
        self._heard_after_drain = False
        self._linger: asyncio.TimerHandle | None = None
        self._head_for = 0
        self._requests_before = 0
        self._quiet_at = -1  # how many requests there had been at a tick that found nothing under way

    # What listeners, drains and views ask

    @property
    def pid(self) -> int:
        """The peer's process id, for messages; 0 if unknown."""
        return self.peer.pid if self.peer is not None else 0

    @property
    def in_flight(self) -> bool:
        """Whether the client waits for an answer, or for the rest of one."""
        return self.work is not None or self.backlog > 0

    def evictable(self) -> bool:
        """Whether nothing has been under way for a second or more. Who has just come is about to ask."""
        return self._quiet_at == self.requests and not (self.in_flight or self.tunnelled or self.reader.buffered)

    @property
    def tunnelled(self) -> bool:
        return self.tunnel is not None

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.host.arrived(self)

    def data_received(self, data: bytes) -> None:
        self.bytes_read += len(data)
        try:
            if self.tunnel is not None:
                self.tunnel.from_client(data)
            elif not self._turned_away:
                # Clients repeat themselves: most requests come in one piece that is known.
                head = self.reader.whole(data) if self.work is None and not self.blocked else None
                if head is not None:
                    self._begin(head)
                else:
                    self.reader.receive(data)
                    self._advance()
            elif self._refusal:
                why, self._refusal = self._refusal, ""
                self.turn_away(503, why, "HEAD" if data.startswith(b"HEAD ") else "")
        except Exception:
            # A bug of ours costs this connection, never the process and never the others.
            _log.exception("Handling of a request failed")
            self.abort()

    def eof_received(self) -> bool:
        self.eof = True
        work = self.work
        if self.tunnel is not None:
            self.tunnel.client_eof()
        elif work is None:
            if not (self.blocked and self.reader.buffered) or self._turned_away or self.hung_up:
                self.closing = True
        elif self.hung_up and not work.pending:
            self.vanish()
        else:
            work.client_eof()
        return not self.closing

    def on_blocked(self) -> None:
        if self.backend is not None:
            self.backend.read(False)

    def on_writable(self) -> None:
        if self.backend is not None:
            self.backend.read(True)
        if self.work is None and (self.reader.buffered or self.eof) and not self._turned_away and not self.closing:
            try:
                self._advance()
            except Exception:
                _log.exception("Handling of a request failed")
                self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._linger is not None:
            self._linger.cancel()
        try:
            self._cancel_work()
        finally:
            self.host.ended(self)

    def _cancel_work(self) -> None:
        """Stop all work for this client."""
        if self._task is not None:
            self._task.cancel()
        if self.work is not None:
            self.work.client_lost()
        if self.backend is not None:
            self.backend.close()
            self.backend = None

    def vanish(self) -> None:
        """Close: the client is gone for good; what it had sent is still delivered."""
        self._cancel_work()
        self.abort()

    def tick(self, timeout: float) -> bool:
        """A second has passed. False if a head has been on its way for longer than `timeout` seconds."""
        self._quiet_at = -1 if self.in_flight or self.tunnelled else self.requests
        if self.tunnel is not None:
            self.tunnel.tick()
        if (self.eof or not self.reading) and self.hung_up and not self._has_unsent_request():
            self.vanish()
        if self.work is not None or self._turned_away or self.reader.between or self.requests != self._requests_before:
            self._head_for = 0
            self._requests_before = self.requests
            return True
        self._head_for += 1
        return self._head_for <= timeout

    def _has_unsent_request(self) -> bool:
        """Whether a client that is gone has sent something that dockerd should still get."""
        work = self.work
        if work is None:
            return False
        if work.pending:
            return True
        return not self.eof and (self.tunnel is not None or not work.uploaded) and self.unread > 0

    # Requests

    def _advance(self) -> None:
        if self.work is not None:
            self.work.pump()
        elif not (
            self.blocked and self.reader.buffered
        ):  # a client that does not read its answers may not send more requests
            self._take_request()
        self.regulate()

    def _take_request(self) -> None:
        """Begin the next request, if its head is complete."""
        try:
            head = self.reader.next()
        except MalformedError as error:
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
        if relay.needs_buffering(head):
            self.work = intercepting = BufferedRequest(self, head, stats)
            intercepting.start()
        else:
            self.work = passing = self._passthrough
            passing.start(head, stats)

    def done(self, *, keep: bool, linger: bool = False) -> None:
        """Called when the current request was answered: begin the next one, or close."""
        self.work = None
        self.endless = False
        if self.closing:
            return
        if not keep:
            self._close_gracefully(linger=linger)
            return
        self.reader.start_next()
        if self.draining:
            self._stop_after_request()
        if self.reader.buffered or self.eof:
            self._advance()
        elif not self.reading:
            self.regulate()

    def regulate(self) -> None:
        """Read from the client if there is room for more input."""
        if self._turned_away or self.closing:
            return
        backend = self.backend
        blocked = backend is not None and backend.blocked and self.work is not None
        self.read(not blocked and self.reader.buffered <= _AHEAD)

    @property
    def finished_sending(self) -> bool:
        """Whether the client has closed its sending side and everything was read."""
        return self.eof and not self.deaf and not self.reader.buffered

    # Connections to dockerd, and tasks

    def ready_backend(self) -> DockerConnection | None:
        """The connection to dockerd, if there is one that takes a request."""
        backend = self.backend
        if backend is None or backend.closing or backend.eof or backend.shut:
            return None
        return backend

    async def new_backend(self, first: ConnectionError | None = None) -> DockerConnection:
        """A new connection to dockerd, by a further attempt if the `first` has failed. Raises BackendAwayError."""
        self._drop_backend()
        self.backend = await self.host.upstream.connect(lambda: not self.hung_up, first)
        return self.backend

    def _drop_backend(self) -> None:
        if self.backend is not None:
            self.backend.close()
            self.backend = None

    def dial(self) -> None:
        """Get a connection for the current request: at once, or by a task that waits for dockerd."""
        self._drop_backend()
        try:
            self.backend = self.host.upstream.dial()
        except ConnectionError as error:
            first = error
            self.run(lambda: self._dial(first), "dial of dockerd for a client")
        else:
            self._use(self.backend)

    async def _dial(self, first: ConnectionError) -> None:
        try:
            backend = await self.new_backend(first)
        except BackendAwayError as error:
            if self.work is not None:
                self.work.on_backend_away(str(error))
        else:
            if self.work is not None:
                self._task = None  # what follows may end the link, and that is no reason to cancel this
                self._use(backend)

    def _use(self, backend: DockerConnection) -> None:
        """Send the current request on a new connection."""
        if self.work is not None:
            self.work.on_backend_connected(backend)
            if self.eof and self.hung_up:
                self.vanish()
            else:
                self.regulate()

    def run(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Run a task for the current request; it is cancelled when the client leaves."""
        self._task = self.host.tasks.spawn(self._guarded(work), name=name)

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        mine = asyncio.current_task()
        try:
            await work()
        except Exception:
            _log.exception("Handling of a request failed")
            self.abort()
        finally:
            if self._task is mine:  # else the next one is under way already
                self._task = None

    # The end

    def refuse(self, why: str) -> None:
        """Refuse a client as soon as it sends something: some clients ignore an answer that comes before their
        request."""
        self._turned_away = True
        self._refusal = why
        self._linger = asyncio.get_running_loop().call_later(_LINGER, self.close)

    def turn_away(self, status: int, why: str, method: str = "") -> None:
        """Answer in dockerd's place and close."""
        answer = error_answer(status, why, close=True)
        self.write(answer if method != "HEAD" else answer.partition(_HEAD_END)[0] + _HEAD_END)
        self._close_gracefully(linger=True)

    def _close_gracefully(self, *, linger: bool = False) -> None:
        """Close. While the client may still be sending, what it says is read away for a moment: closing with unread
        bytes would reset the connection, and it might never see the answer."""
        self._turned_away = True
        if self.backend is not None:
            self.backend.close()
            self.backend = None
        if self.eof or not (linger or self.reader.buffered):
            self.close()
            return
        self.write_eof()
        self.read(True)
        if self._linger is not None:
            self._linger.cancel()
        self._linger = asyncio.get_running_loop().call_later(_LINGER, self.close)

    def drain(self) -> None:
        """Take no further request than those that are here; close when they are answered."""
        self.draining = True
        if self.work is None and not self._turned_away and not self.closing:
            self._stop_after_request()

    def _stop_after_request(self) -> None:
        """Nothing is owed at this moment. Who has begun to say something may say it to its end, but only once: who
        never stops asking would keep us for ever. So may who has just come: no client asks again when its very first
        word on a connection fails. Others are listened to no more; see `stop_listening`."""
        if not self._heard_after_drain and (self.reader.buffered or self.unread or not self.requests):
            self._heard_after_drain = True
        else:
            self.stop_listening()
        self.regulate()

    def cut(self) -> None:
        """Close at once, whatever is under way."""
        self._cancel_work()
        self.close()
