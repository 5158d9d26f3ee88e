"""Two connections without transports, tied together: the odd ends of a relayed call."""

from collections.abc import Callable

import pytest

from interpose.net.h2.client import ClientConnection
from interpose.net.h2.headers import Headers, encode, make_field
from interpose.net.h2.server import ServerConnection
from interpose.relay.passthrough import CallRecorder, Passthrough, code_of
from interpose.relay.stats import MethodStats
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE, TRAILERS, Bench


class Pair:
    """A client's connection, a backend's connection, and one call from the one to the other."""

    def __init__(self, window: int = 65535, *, end: bool = False) -> None:
        self.client: Bench[ServerConnection] = h2_bench.server(None, (4, window))
        self.backend: Bench[ClientConnection] = h2_bench.client()
        self.stats = MethodStats("s", "m")
        recorder = CallRecorder(lambda: 1.0)
        self.client.feed(self.client.request(1, end=end))
        self.stream = self.client.stream(1)
        recorder.begin(self.stream, self.stats)
        Passthrough(recorder).forward(self.stream, self.backend.conn, encode(REQUEST), end)
        self.backend.bytes_out()

    def fields(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """What the client reads in a header block; its decoder has state, so blocks are read in order."""
        return [field[:2] for field in self.client.decoder.decode(block)]

    def reply(self, body: bytes) -> None:
        """The backend answers completely."""
        backend = self.backend
        backend.feed(backend.response(1), h2_peer.data(1, body), backend.response(1, TRAILERS, end=True))


def kinds(frames: list[h2_peer.Frame]) -> list[str]:
    """Their names; windows are told elsewhere."""
    return [frame.kind for frame in frames if frame.kind != "WINDOW_UPDATE"]


def test_call_passes() -> None:
    """There and back, and nothing is left of it."""
    pair = Pair()
    pair.client.feed(h2_peer.data(1, b"ask", end=True))
    assert [frame.payload for frame in pair.backend.frames("DATA")] == [b"ask"]
    pair.reply(b"answer")
    assert kinds(pair.client.frames()) == ["HEADERS", "DATA", "HEADERS"]
    assert (pair.stats.codes[0], pair.stats.in_flight) == (1, 0)
    assert not pair.client.conn.streams
    assert not pair.backend.conn.streams


def test_small_frames_of_an_upload_are_joined() -> None:
    """A backend is not sent a frame for each byte; the client gets its credit when they have gone."""
    pair = Pair()
    pair.client.feed(*[h2_peer.data(1, b"%d" % (number % 10)) for number in range(1000)])
    assert pair.stream.unacked == 0
    assert [frame.payload for frame in pair.backend.frames("DATA")] == [b"0123456789" * 100]
    assert pair.stream.unacked == 1000
    pair.client.feed(h2_peer.data(1, b"of it"), h2_peer.data(1, b", all", end=True))
    assert [(frame.payload, frame.end) for frame in pair.backend.frames("DATA")] == [(b"of it, all", True)]


def early_answer(pair: Pair) -> None:
    """The backend has said everything and wants no more of the upload."""
    pair.backend.feed(h2_peer.rst_stream(1, 0))


def lost_backend(pair: Pair) -> None:
    """The backend went away after it had said everything."""
    pair.backend.conn.lost()


@pytest.mark.parametrize("event", [early_answer, lost_backend])
def test_complete_reply_in_the_queue_is_delivered(event: Callable[[Pair], None]) -> None:
    """The client's window is shut and it still sends; what happens behind the reply does not touch the reply."""
    pair = Pair(window=0)
    pair.reply(b"answer")
    assert kinds(pair.client.frames()) == ["HEADERS"]
    event(pair)
    pair.client.feed(h2_peer.window_update(1, 100))
    frames = [frame for frame in pair.client.frames() if frame.kind in ("DATA", "HEADERS")]
    assert kinds(frames) == ["DATA", "HEADERS"]
    assert pair.fields(frames[-1].payload) == TRAILERS
    assert frames[-1].end
    assert (pair.stats.codes[0], sum(pair.stats.codes)) == (1, 1)


def test_early_answer_stops_the_upload() -> None:
    """Delivered already: the client is told that the rest is of no use."""
    pair = Pair()
    pair.reply(b"answer")
    early_answer(pair)
    frames = pair.client.frames()
    assert kinds(frames) == ["HEADERS", "DATA", "HEADERS", "RST_STREAM"]
    assert frames[-1].code == 0


def test_backend_that_is_lost_midway() -> None:
    """What came is delivered, then UNAVAILABLE; counted once."""
    pair = Pair(end=True)
    pair.backend.feed(pair.backend.response(1), h2_peer.data(1, b"ans"))
    pair.backend.conn.lost()
    frames = pair.client.frames()
    assert kinds(frames) == ["HEADERS", "DATA", "HEADERS"]
    assert (b"grpc-status", b"14") in pair.fields(frames[-1].payload)
    assert pair.stats.codes[14] == 1


def test_reset_by_the_backend_passes_with_its_code() -> None:
    """REFUSED_STREAM tells the client that it may try again."""
    pair = Pair()
    pair.backend.feed(h2_peer.rst_stream(1, 7))
    assert [frame.code for frame in pair.client.frames("RST_STREAM")] == [7]
    assert (pair.stats.codes[14], pair.stats.resets) == (1, 1)


def test_reset_by_the_client_passes_with_its_code() -> None:
    """At once."""
    pair = Pair()
    pair.client.feed(h2_peer.rst_stream(1, 8))
    assert [frame.code for frame in pair.backend.frames("RST_STREAM")] == [8]
    assert (pair.stats.codes[1], pair.stats.resets) == (1, 1)


@pytest.mark.parametrize(
    ("pair", "code"), [((b"grpc-status", b"5"), 5), ((b"grpc-status", b"99"), 2), ((b":status", b"503"), 14)]
)
def test_code_of_a_final_block(pair: tuple[bytes, bytes], code: int) -> None:
    """The gRPC status, or what the HTTP status means."""
    assert code_of(Headers([make_field(*pair)], 0)) == code


def test_interim_headers_are_not_kept_for_a_client_that_does_not_read() -> None:
    """No window bounds them; the real response and its end are kept."""
    pair = Pair(end=True)
    pair.client.conn.blocked = True
    for _ in range(3):
        pair.backend.feed(pair.backend.response(1, [(b":status", b"103")]))
    pair.reply(b"answer")
    pair.client.conn.resume()
    frames = pair.client.frames()
    assert kinds(frames) == ["HEADERS", "DATA", "HEADERS"]
    assert pair.fields(frames[0].payload) == RESPONSE
    assert pair.stats.codes[0] == 1


def test_interim_headers_pass() -> None:
    """A 1xx is followed by the real response."""
    pair = Pair(end=True)
    pair.backend.feed(pair.backend.response(1, [(b":status", b"103")]))
    pair.reply(b"answer")
    frames = pair.client.frames()
    assert kinds(frames) == ["HEADERS", "HEADERS", "DATA", "HEADERS"]
    assert pair.fields(frames[0].payload) == [(b":status", b"103")]
    assert pair.fields(frames[1].payload) == RESPONSE


def test_call_that_is_cancelled_in_the_same_read_never_reaches_the_backend() -> None:
    """Rapid resets are between the client and us; what follows them is served."""
    pair = Pair()
    passthrough = Passthrough(CallRecorder(lambda: 1.0))
    pair.client.conn.accept = lambda stream, headers, end: passthrough.forward(
        stream, pair.backend.conn, headers.wire, end
    )
    pair.client.feed(
        *[pair.client.request(number, end=number % 4 == 1) + h2_peer.rst_stream(number) for number in range(3, 99, 2)],
        pair.client.request(99),
        h2_peer.data(99, b"ask", end=True),
    )
    assert kinds(pair.backend.frames()) == ["HEADERS", "DATA"]
    assert len(pair.backend.conn.streams) == 2
