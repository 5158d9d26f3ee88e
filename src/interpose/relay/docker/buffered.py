"""A request that is intercepted: buffered whole, handed over, answered whole.

What is held is bounded, for one request and for all together, with what reading a body costs while it is at hand. The
call goes to dockerd on the client's own connection.
"""

import logging
from typing import TYPE_CHECKING, Final

from interpose.net.h1.heads import Framing, MalformedError, RequestHead
from interpose.relay.docker.connection import DockerConnection, HttpReply
from interpose.relay.docker.http_call import CONTINUE, DockerHttpCall
from interpose.relay.docker.stats import EndpointStats
from interpose.relay.docker.translate.body import MOST
from interpose.relay.docker.translate.errors import error_answer
from interpose.relay.docker.upstream import BackendAwayError

if TYPE_CHECKING:
    from interpose.relay.docker.client import DockerClientConnection

_log = logging.getLogger(__name__)
_HEAD_END: Final = b"\r\n\r\n"
# Bytes that reading takes for each byte of a body, at worst: lists of nothing. What the kubelet writes takes a third.
_READING: Final = 24
_NO_ROOM: Final = "too many large requests at once"


def room(limit: int) -> int:
    """Bytes for all calls that are held at once, if each has at most `limit`: for eight that are not read, and for two
    that are, each as large as can be."""
    return max(8 * limit, 2 * (_READING + 2) * min(limit, MOST))


class BufferedRequest:
    """One intercepted request of a client."""

    __slots__ = (
        "_body",
        "_client_was_there",
        "_continued",
        "_head",
        "_held",
        "_link",
        "_raw",
        "_since",
        "_stats",
        "uploaded",
    )

    def __init__(self, link: "DockerClientConnection", head: RequestHead, stats: EndpointStats) -> None:
        self._link = link
        self._head = head
        self._stats = stats
        self._since = link.host.clock()
        self._body = bytearray()
        self._raw = bytearray()  # of a body in chunks, as they came
        self._held = 0
        self._continued = False
        self._client_was_there = False  # when the call began
        self.uploaded = False

    @property
    def pending(self) -> bool:
        """Whether the call runs to its end although the client has left: so it does if that was before it began."""
        return self.uploaded and not self._client_was_there

    def start(self) -> None:
        """Ask for the body, if the client waits for that."""
        link, head = self._link, self._head
        self._stats.bytes_received += len(head.raw)
        if head.framing is Framing.NONE:
            self._run_call()
            return
        limit = link.host.upstream.limit
        if head.framing is Framing.LENGTH and head.length > limit:
            self._give_up(413, f"the body is larger than {limit} bytes")
            return
        if head.expects_continue and not link.reader.buffered:
            self._continued = True
            link.write(CONTINUE)
        link.reader.decode = True
        self.pump()

    def pump(self) -> None:
        """Take the part of the body that was received."""
        if self.uploaded:
            return
        link = self._link
        limit = link.host.upstream.limit
        chunked = self._head.framing is Framing.CHUNKED
        try:
            while not self.uploaded and (part := link.reader.next()) is not None:
                assert not isinstance(part, RequestHead)  # noqa: S101 - a head is taken when the body before is over
                self._body += part.data
                if chunked:
                    self._raw += part.raw
                size = len(self._body) + len(self._raw)
                if len(self._body) > limit or len(self._raw) > 2 * limit:
                    self._give_up(413, f"the body is larger than {limit} bytes")
                    return
                if not link.host.hold(size - self._held):
                    self._give_up(503, _NO_ROOM)
                    return
                self._held = size
                self.uploaded = part.end
        except MalformedError as error:
            link.host.fault(link, error.status, str(error))
            self._give_up(error.status, str(error))
            return
        if self.uploaded:
            link.reader.decode = False
            self._run_call()
        elif link.eof:
            self._give_up(400, "the body ended before its end")

    def _run_call(self) -> None:
        self.uploaded = True
        reading = _READING * len(self._body) if len(self._body) <= MOST else 0
        if not self._link.host.hold(reading):
            self._give_up(503, _NO_ROOM)
            return
        self._held += reading
        link, head = self._link, self._head
        body = bytes(self._body)
        raw = bytes(self._raw) if head.framing is Framing.CHUNKED else None
        self._stats.bytes_received += len(body if raw is None else raw)
        call = DockerHttpCall(head=head, body=body, raw=raw, peer=link.peer, send=self._send, continued=self._continued)
        self._body, self._raw = bytearray(), bytearray()
        link.run(lambda: self._run(call), f"docker call {head.route.endpoint.name}")

    async def _send(self, request: bytes) -> HttpReply:
        link = self._link
        backend = link.ready_backend() or await link.new_backend()
        upstream = link.host.upstream
        return await backend.fetch(self._head.method, request, upstream.limit, last=link.finished_sending)

    async def _run(self, call: DockerHttpCall) -> None:
        self._client_was_there = not self._link.hung_up
        try:
            answer = await self._link.host.relay.handle(call)
            status, keep = self._read(answer)
        except BackendAwayError as error:
            status, keep, answer = 503, False, error_answer(503, str(error), close=True)
        except Exception:
            _log.exception("Handling of a call failed", extra={"kv": {"endpoint": self._head.route.endpoint.name}})
            status, keep, answer = 500, False, error_answer(500, "internal error", close=True)
        link = self._link
        if link.work is not self:
            return  # the client is gone, and the handler went on all the same
        self._stats.bytes_sent += len(answer)
        link.write(answer)
        for afterwards in call.afterwards:
            try:
                afterwards()
            except Exception:
                _log.exception("Post-call processing failed")
        self._end(status)
        link.done(keep=keep)

    def _read(self, answer: bytes) -> tuple[int, bool]:
        """The status of an answer, and whether the connection outlives it. Malformed if it is none."""
        cut = answer.find(_HEAD_END) + len(_HEAD_END)
        head = self._link.host.heads.response(answer[:cut], self._head.method)
        return head.status, self._head.keep_alive and head.keep_alive and head.framing is not Framing.UNTIL_CLOSE

    def _end(self, status: int) -> None:
        link = self._link
        self._stats.finish(status, link.host.clock() - self._since)
        link.host.hold(-self._held)
        self._held = 0
        link.reader.decode = False
        link.work = None

    def _give_up(self, status: int, why: str) -> None:
        self._end(status)
        self._link.turn_away(status, why, self._head.method)

    def on_backend_connected(self, backend: DockerConnection) -> None:
        """Not called: `_send` gets its connection itself."""

    def on_backend_away(self, why: str) -> None:
        """Not called: `_send` gets its connection itself."""

    def client_eof(self) -> None:
        """Called when the client has closed its sending side."""
        if not self.uploaded:
            self.pump()
        elif (backend := self._link.backend) is not None and backend.user is not None and self._link.finished_sending:
            backend.write_eof()

    def client_lost(self) -> None:
        """Called when the client is gone; the task that runs the call is cancelled by the connection."""
        self._end(0)
