"""The engine on a workbench: one connection without a transport, its sinks recording, its output as frames.

A test feeds bytes with `feed` and reads `events` and `frames()`. `server()` is our accepting role with a client
as its peer, `client()` our opening role with a server as its peer; both have exchanged settings already.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from interpose.net.h2.client import ClientConnection
from interpose.net.h2.connection import Connection
from interpose.net.h2.headers import Headers, encode
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from interpose.net.h2.stream import Flushable, Stream
from tests.support.net import h2_peer
from tests.support.net.hpack import Decoder, Encoder, Pair

Event = tuple[Any, ...]
C = TypeVar("C", bound=Connection)

REQUEST: list[Pair] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/runtime.v1.RuntimeService/Version"),
    (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
]
RESPONSE: list[Pair] = [(b":status", b"200"), (b"content-type", b"application/grpc")]
TRAILERS: list[Pair] = [(b"grpc-status", b"0")]


class Recorder:
    """A sink that writes down what it is told. With `credit`, received bytes are given back at once."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.streams: dict[int, Stream] = {}
        self.credit = True
        self.react: Callable[[str, Stream], None] = _idle

    def accept(self, stream: Stream, headers: Headers, end: bool) -> None:
        """For a server: take the stream."""
        stream.sink = self
        self.streams[stream.number] = stream
        self._note("oversized" if headers.oversized else "request", stream, headers.items(), end)

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        self._note("headers", stream, headers.items(), end)

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        if self.credit:
            stream.credit(len(data))
        self._note("data", stream, bytes(data), end)

    def on_sent(self, stream: Stream, count: int) -> None:
        self._note("sent", stream, count)

    def on_reset(self, stream: Stream, code: int) -> None:
        self._note("reset", stream, int(code))

    def on_lost(self, stream: Stream) -> None:
        self._note("lost", stream)

    def _note(self, what: str, stream: Stream, *details: object) -> None:
        self.events.append((what, stream.number, *details))
        self.react(what, stream)


class Bench(Generic[C]):
    """One connection, its recorder, and what it wrote."""

    def __init__(self, conn: C, recorder: Recorder, dirty: list[Flushable]) -> None:
        self.conn = conn
        self.recorder = recorder
        self.encoder = Encoder()
        self.decoder = Decoder()
        self.dirty = dirty
        self.raw = bytearray()
        self.idle_calls = 0
        conn.write = self.raw.extend
        conn.on_idle = self._on_idle

    def _on_idle(self) -> None:
        self.idle_calls += 1

    def feed(self, *parts: bytes) -> Self:
        """Bytes from the peer, in one piece, handled to their end."""
        self.conn.receive(b"".join(parts))
        while self.conn.unread:
            self.conn.proceed()
        return self

    def tick(self) -> None:
        """A second has passed."""
        self.conn.tick()
        self.conn.guard.tick()

    def bytes_out(self) -> bytes:
        """What was written since the last look."""
        while self.dirty:
            self.dirty.pop().flush()
        self.conn.flush()
        while self.conn.unread:
            self.conn.proceed()
            self.conn.flush()
        self.dirty.clear()
        data = bytes(self.raw)
        self.raw.clear()
        return data

    def frames(self, *kinds: str) -> list[h2_peer.Frame]:
        """The same as frames; with `kinds`, only those."""
        frames = h2_peer.read_frames(self.bytes_out().removeprefix(h2_peer.PREFACE))
        return [frame for frame in frames if not kinds or frame.kind in kinds]

    @property
    def events(self) -> list[Event]:
        """What the sinks were told since the last look."""
        events, self.recorder.events = self.recorder.events, []
        return events

    @property
    def code(self) -> int | None:
        """The error code this connection ended with, if it did."""
        return None if self.conn.failed is None else int(self.conn.failed.code)

    def request(self, number: int, pairs: list[Pair] = REQUEST, *, end: bool = False) -> bytes:
        """A request as a client would send it."""
        return h2_peer.headers(number, self.encoder.block(pairs), end=end)

    def response(self, number: int, pairs: list[Pair] = RESPONSE, *, end: bool = False) -> bytes:
        """A response or trailers as a server would send it."""
        return h2_peer.headers(number, self.encoder.block(pairs), end=end)

    def stream(self, number: int) -> Stream:
        """A stream the connection has accepted."""
        return self.recorder.streams[number]


def fresh_server(limits: Limits | None = None) -> Bench[ServerConnection]:
    """Our accepting role, before the first byte."""
    dirty: list[Flushable] = []
    recorder = Recorder()
    conn = ServerConnection(limits=limits or Limits(), huffman=HuffmanDecoder(), dirty=dirty)
    conn.accept = recorder.accept
    return Bench(conn, recorder, dirty)


def server(limits: Limits | None = None, *settings: tuple[int, int]) -> Bench[ServerConnection]:
    """Our accepting role after the handshake; `settings` are the client's."""
    bench = fresh_server(limits)
    bench.feed(h2_peer.PREFACE, h2_peer.settings(*settings), h2_peer.settings_ack())
    bench.bytes_out()
    return bench


def fresh_client(limits: Limits | None = None) -> Bench[ClientConnection]:
    """Our opening role, before the first byte."""
    dirty: list[Flushable] = []
    conn = ClientConnection(limits=limits or Limits(), huffman=HuffmanDecoder(), dirty=dirty)
    conn.start()
    return Bench(conn, Recorder(), dirty)


def client(limits: Limits | None = None, *settings: tuple[int, int]) -> Bench[ClientConnection]:
    """Our opening role after the handshake; `settings` are the server's."""
    bench = fresh_client(limits)
    bench.feed(h2_peer.settings(*settings), h2_peer.settings_ack())
    bench.bytes_out()
    return bench


def open_call(bench: Bench[ClientConnection], *, end: bool = False) -> Stream:
    """Send a request from our opening role."""
    return bench.conn.open(bench.recorder, encode(REQUEST), end)


def _idle(what: str, stream: Stream) -> None:
    """Nothing to do."""


def opened(limits: Limits | None = None, *settings: tuple[int, int]) -> Bench[ServerConnection]:
    """A server with stream 1 open; its events and frames so far are forgotten."""
    bench = server(limits, *settings)
    bench.feed(bench.request(1))
    assert bench.events[0][:2] == ("request", 1)
    bench.bytes_out()
    return bench


def reset_code(bench: Bench[ServerConnection], number: int = 1) -> int:
    """The stream was reset, and both the peer and the sink were told the same; the connection goes on."""
    (frame,) = bench.frames("RST_STREAM")
    assert frame.stream == number
    assert bench.events[-1] == ("reset", number, frame.code)
    assert bench.code is None
    assert number not in bench.conn.streams
    return frame.code
