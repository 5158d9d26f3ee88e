"""One HTTP call of a client that is held in the hand: looked at whole, sent on at most once, answered whole.

Pure but for `send`, which is passed in.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from interpose.net.grpc.listener import Peer
from interpose.net.h1.heads import Framing, RequestHead
from interpose.relay.docker.connection import HttpReply

_LENGTH: Final = b"content-length"
# What says how the body is framed, or goes with that.
_FRAMING: Final = frozenset((_LENGTH, b"transfer-encoding", b"trailer"))
_EXPECT: Final = b"expect"

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class DockerHttpCall:
    """A request whose body is complete. `afterwards` is run when the answer has been written."""

    __slots__ = ("_continued", "_raw", "_send", "afterwards", "body", "forwarded", "head", "peer", "target")

    def __init__(
        self,
        *,
        head: RequestHead,
        body: bytes,
        send: Callable[[bytes], Awaitable[HttpReply]],
        raw: bytes | None = None,
        peer: Peer | None = None,
        continued: bool = False,
    ) -> None:
        """`raw` is the body as it came, if that is not `body`; `continued`: we have sent 100 Continue."""
        self.head = head
        self.body = body
        self.peer = peer
        self.afterwards: list[Callable[[], None]] = []
        self.forwarded = False
        self.target = ""  # what dockerd is asked for, if that is to be something else than what the client wrote
        self._raw = body if raw is None else raw
        self._send = send
        self._continued = continued

    async def forward(self, body: bytes | None = None) -> HttpReply:
        """Send it to dockerd, as it came or with another body, and wait for the whole answer.

        At most once: RuntimeError otherwise. BackendAway if dockerd could not be reached, so that nothing was sent;
        whatever goes wrong later is in the reply's `failure`.
        """
        if self.forwarded:
            raise RuntimeError("a call is sent on at most once")
        self.forwarded = True
        request = self._request(body)
        return await self._send(retargeted(request, self.target) if self.target else request)

    def _request(self, body: bytes | None) -> bytes:
        head = self.head
        if body is None:
            return (without_expect(head.raw) if self._continued else head.raw) + self._raw
        return resized(head, len(body)) + body


def retargeted(request: bytes, target: str) -> bytes:
    """The request with another target; of its first line the rest stays, too."""
    method, _, rest = request.partition(b" ")
    return b" ".join((method, target.encode("latin-1"), rest.partition(b" ")[2]))


def without_expect(raw: bytes) -> bytes:
    """The head of a request whose body follows at once."""
    return _rebuilt([line for line in _lines(raw) if _name(line) != _EXPECT])


def resized(head: RequestHead, length: int) -> bytes:
    """The head with another length of the body, which follows at once and in one piece."""
    said = b"Content-Length: %d" % length
    lines: list[bytes] = []
    for line in _lines(head.raw):
        name = _name(line)
        if name in _FRAMING:
            if said and name != b"trailer":
                lines.append(said)
                said = b""
        elif name != _EXPECT:
            lines.append(line)
    if said and (length or head.framing is not Framing.NONE):
        lines.append(said)
    return _rebuilt(lines)


def _lines(raw: bytes) -> list[bytes]:
    return raw.removesuffix(b"\r\n\r\n").split(b"\r\n")


def _name(line: bytes) -> bytes:
    """Of a header; the first line has none that anybody looks for."""
    return line.partition(b":")[0].lower()


def _rebuilt(lines: list[bytes]) -> bytes:
    return b"\r\n".join(lines) + b"\r\n\r\n"
