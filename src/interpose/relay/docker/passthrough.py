"""A request that is not intercepted: its bytes go to dockerd as they come, and the answer's bytes to the client.

Both directions are read along to know where messages end; what is sent is what came. One object serves all requests of
a client, one after the other. A request is over when it was sent and answered; an answer may come before the request
is complete, which then goes on unless one side says that the connection ends with the answer.
"""

from typing import TYPE_CHECKING, Any, Final

from interpose.net.h1.heads import Framing, MalformedError, RequestHead, ResponseHead
from interpose.relay.docker.connection import DockerConnection
from interpose.relay.docker.stats import EndpointStats
from interpose.relay.docker.tunnel import Tunnel

if TYPE_CHECKING:
    from interpose.relay.docker.client import DockerClientConnection

_CONTINUE: Final = 100
_SWITCHED: Final = 101
_OK: Final = 200
_REDIRECT: Final = 300
_RAW: Final = (b"application/vnd.docker.raw-stream", b"application/vnd.docker.multiplexed-stream")
_NONE: Final = Framing.NONE
_UNTIL_CLOSE: Final = Framing.UNTIL_CLOSE


class PassthroughRequest:
    """The current request of a client connection; reused for the next one."""

    __slots__ = (
        "_answered",
        "_backend",
        "_began",
        "_continued",
        "_got_answer_bytes",
        "_head",
        "_link",
        "_response",
        "_sent",
        "_since",
        "_stats",
        "_tunnel",
        "_view",
        "uploaded",
    )
    _head: RequestHead
    _stats: EndpointStats

    def __init__(self, link: "DockerClientConnection") -> None:
        self._link = link
        self._backend: DockerConnection | None = None
        self._response: ResponseHead | None = None
        self._tunnel: Tunnel | None = None
        self._view: Any = None
        self._since = 0.0
        self._sent = self._answered = self._continued = self._began = self._got_answer_bytes = False
        self.uploaded = False

    @property
    def pending(self) -> bool:
        """Whether nothing of it is on its way yet. It will be, even if the client has left by then."""
        return self._backend is None

    def start(self, head: RequestHead, stats: EndpointStats) -> None:
        link = self._link
        self._head = head
        self._stats = stats
        self._response = None
        self._sent = self._answered = self._continued = self._began = self._got_answer_bytes = False
        self.uploaded = head.framing is _NONE
        self._since = link.host.clock()
        self._view = link.host.relay.begin(head, link.peer)
        backend = self._backend = link.ready_backend()
        if backend is None:
            link.dial()
        else:
            self.on_backend_connected(backend)

    def on_backend_connected(self, backend: DockerConnection) -> None:
        """Called with the connection to dockerd: send the request."""
        self._backend = backend
        head = self._head
        backend.ask(head.method, self)
        if self.uploaded and not self._link.eof:
            self._sent = True
            self._stats.bytes_received += len(head.raw)
            backend.write(head.raw)
        else:
            self.pump()

    def on_backend_away(self, why: str) -> None:
        """Called when dockerd cannot be reached: answer 503."""
        self._give_up(503, why)

    def pump(self) -> None:
        """Send on the part of the request that was received."""
        backend = self._backend
        if backend is None:
            return
        link = self._link
        reader = link.reader
        pieces = []
        if not self._sent:
            self._sent = True
            pieces.append(self._head.raw)
        try:
            while not self.uploaded and (part := reader.next()) is not None:
                assert not isinstance(part, RequestHead)  # noqa: S101 - a head is taken when the body before is over
                pieces.append(part.raw)
                self.uploaded = part.end
        except MalformedError as error:
            self._refuse(error)
            return
        if pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._stats.bytes_received += len(data)
            backend.write(data)
        if link.finished_sending if self.uploaded else link.eof:
            backend.write_eof()
        if self.uploaded and self._answered:
            self._finish(keep=True)

    def _refuse(self, error: MalformedError) -> None:
        """The client's body is broken. dockerd never sees its end."""
        link = self._link
        link.host.fault(link, error.status, str(error))
        if self._began:
            self._end(self._status, str(error))
            link.close()
        else:
            self._give_up(error.status, str(error))

    def on_data(self, data: bytes) -> None:
        backend = self._backend
        assert backend is not None  # noqa: S101 - it calls us
        reader = backend.reader
        self._got_answer_bytes = True
        if not self._began and (whole := reader.whole(data)) is not None:
            self._response = whole
            self._began = True
            self._send_on(backend, data)
            self._complete()
            return
        reader.receive(data)
        pieces = []
        began = self._began
        done = tunnelled = False
        try:
            while (item := reader.next()) is not None:
                pieces.append(item.raw)
                if isinstance(item, ResponseHead):
                    if item.interim:
                        self._continued = self._continued or item.status == _CONTINUE
                        continue
                    self._response = item
                    began = True
                    if self._switches(item):
                        tunnelled = True
                        break
                    done = item.framing is _NONE
                else:
                    done = item.end
                if done:
                    break
        except MalformedError as error:
            self._broken(f"docker daemon answered what is not HTTP: {error}")
            return
        self._began = began
        if pieces:
            self._send_on(backend, pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if tunnelled:
            self._open_tunnel(backend)
        elif done:
            self._complete()

    def _send_on(self, backend: DockerConnection, data: bytes) -> None:
        """Send a part of the answer to the client."""
        link = self._link
        self._stats.bytes_sent += len(data)
        link.write(data)
        if link.blocked:
            backend.read(False)

    def _switches(self, head: ResponseHead) -> bool:
        """Whether raw bytes follow, both ways."""
        status = head.status
        if status == _SWITCHED:
            return True
        if self._head.method == "CONNECT":
            return _OK <= status < _REDIRECT
        if status != _OK or not self._head.route.endpoint.hijack or head.framing is not _UNTIL_CLOSE:
            return False
        kind = (head.get(b"content-type") or b"").partition(b";")[0].strip().lower()
        return kind in _RAW

    def _open_tunnel(self, backend: DockerConnection) -> None:
        link = self._link
        early = link.reader.take_rest()
        first = backend.reader.take_rest()
        tunnel = self._tunnel = link.tunnel = Tunnel(link, backend, self._stats, self)
        if early:
            tunnel.from_client(early)
        if first:
            tunnel.on_data(first)
        if link.eof:
            tunnel.client_eof()
        else:
            link.read(not backend.blocked)

    def tunnel_ended(self) -> None:
        """Raw bytes no longer pass; both sides are closing."""
        self._tunnel = self._link.tunnel = None
        self._backend = None
        self._end(self._status, "")

    def _complete(self) -> None:
        """Called when the whole answer was written."""
        self._answered = True
        head, response = self._head, self._response
        keep = (
            head.keep_alive
            and response is not None
            and response.keep_alive
            and response.framing is not _UNTIL_CLOSE
            # It is unknown whether the body will come.
            and (self.uploaded or self._continued or not head.expects_continue)
        )
        if self.uploaded or not keep:
            self._finish(keep=keep)

    def _finish(self, *, keep: bool) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.release(keep=keep)
        self._end(self._status, "")
        self._link.done(keep=keep, linger=not self.uploaded)

    @property
    def _status(self) -> int:
        return self._response.status if self._response is not None else 0

    def _end(self, status: int, why: str) -> None:
        self._stats.finish(status, self._link.host.clock() - self._since)
        view, self._view = self._view, None
        if view is not None:
            view.end(status, why)
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.user = None
            backend.close()
        self._link.work = None

    def _give_up(self, status: int, why: str) -> None:
        """Answer in dockerd's place."""
        if self._backend is not None:
            self._backend.abort()
        self._end(status, why)
        self._link.turn_away(status, why, self._head.method)

    def _broken(self, why: str) -> None:
        link = self._link
        link.host.fault(link, 502, why)
        self._cut(why)

    def _cut(self, why: str) -> None:
        """End the request: dockerd will not complete its answer."""
        if not self._began:
            self._give_up(502, why)
            return
        if self._backend is not None:
            self._backend.abort()
        self._end(self._status, why)
        self._link.close()

    def on_eof(self) -> bool:
        backend = self._backend
        assert backend is not None  # noqa: S101 - it calls us
        try:
            part = backend.reader.eof()
        except MalformedError as error:
            self._cut(f"docker daemon closed the connection in the middle of its answer: {error}")
            return False
        if part is not None:
            if part.raw:
                self._stats.bytes_sent += len(part.raw)
                self._link.write(part.raw)
            self._complete()
        return False

    def on_lost(self, why: str) -> None:
        backend, self._backend = self._backend, None
        if self._answered:
            # The answer is complete; the rest of the request has no reader.
            self._finish(keep=False)
        elif backend is not None and backend.served > 1 and not self._got_answer_bytes:
            # As it is without us: a client whose kept connection is just being closed knows what it may ask again.
            self._end(0, why)
            self._link.close()
        else:
            self._cut(f"docker daemon was lost before it had answered: {why}")

    def on_blocked(self) -> None:
        self._link.regulate()

    def on_writable(self) -> None:
        self._link.regulate()

    def client_eof(self) -> None:
        """Called when the client has closed its sending side."""
        self.pump()

    def client_lost(self) -> None:
        """Called when the client is gone. dockerd gets what it had sent, and then sees it leave."""
        if self._tunnel is not None:
            self._tunnel.end()
        else:
            self._end(self._status if self._began else 0, "the client is gone")
