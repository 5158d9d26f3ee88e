"""A backend that neither parses nor decompresses: it keeps requests as they came and answers with given bytes."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from interpose.net.grpc.framing import RESPONSE_HEADERS, frame, status_trailers
from interpose.net.grpc.listener import Admission, ClientLink, Listener
from interpose.net.grpc.status import Code
from interpose.net.grpc.transport import Hub
from interpose.net.h2.headers import Headers, encode
from interpose.net.h2.limits import Limits
from interpose.net.h2.stream import Stream
from interpose.testing.changes import Changes


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it was on the wire."""

    path: str
    metadata: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(slots=True)
class RawAnswer:
    """What to say: encoded header blocks and body. No headers: the trailers alone."""

    headers: bytes | None = RESPONSE_HEADERS
    body: bytes = frame(b"")
    trailers: bytes = status_trailers(Code.OK, "")


class RawBackend:
    """Answers every whole request with `answer`; with None it never answers."""

    def __init__(self) -> None:
        self.answer: RawAnswer | None = RawAnswer()
        self.requests: list[RawRequest] = []
        self.resets: list[int] = []
        self.changes = Changes()
        self.streams: list[Stream] = []

    def accept(self, _link: ClientLink) -> Callable[[Stream, Headers, bool], None]:
        """How streams are taken."""

        def accept(stream: Stream, headers: Headers, end: bool) -> None:
            stream.sink = _Collecting(self, headers)
            if end:
                stream.sink.on_data(stream, b"", True)

        return accept

    def complete(self, stream: Stream, headers: Headers, body: bytes) -> None:
        """A request is whole."""
        self.streams.append(stream)
        self.requests.append(RawRequest(headers.path.decode("latin-1"), headers.items(), body))
        if (answer := self.answer) is not None:
            if answer.headers is not None:
                stream.send_headers(answer.headers, False)
                stream.send_body(answer.body, False)
            stream.send_headers(answer.trailers, True)
        self.changes.notify()


class _Collecting:
    def __init__(self, owner: RawBackend, headers: Headers) -> None:
        self._owner = owner
        self._headers = headers
        self._body = bytearray()

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        self.on_data(stream, b"", end)

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._body += data
        stream.credit(len(data))
        if end:
            self._owner.complete(stream, self._headers, bytes(self._body))

    def on_sent(self, stream: Stream, count: int) -> None:
        """The windows bound it."""

    def on_reset(self, stream: Stream, code: int) -> None:
        self._owner.resets.append(code)
        self._owner.changes.notify()

    def on_lost(self, stream: Stream) -> None:
        """The relay went away."""


def answer_headers(*more: tuple[bytes, bytes]) -> bytes:
    """Response headers with further fields."""
    return RESPONSE_HEADERS + encode(list(more))


@asynccontextmanager
async def raw_backend(path: Path) -> AsyncIterator[RawBackend]:
    """A raw backend on `path` inside the block."""
    backend = RawBackend()
    listener = Listener(hub=Hub(), limits=Limits(), admission=Admission(), accept=backend.accept)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.bind(str(path))
        sock.listen()
        sock.setblocking(False)
        await listener.start(sock)
    try:
        yield backend
    finally:
        listener.stop_accepting()
        listener.abort()
