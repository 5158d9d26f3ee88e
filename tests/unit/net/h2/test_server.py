"""The accepting role: how a client begins, new streams, limits, and going away in peace."""

import pytest

from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.headers import encode
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from interpose.net.h2.stream import Flushable
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE, Bench


class TestGreeting:
    """The first bytes of a connection."""

    @pytest.mark.parametrize("step", [1, 5, 1000])
    @pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "OPTIONS", "HEAD", "DELETE", "CONNECT", "TRACE"])
    def test_http1_gets_an_answer_it_can_read(self, method: str, step: int) -> None:
        """However slowly the request comes, and without a single frame before it."""
        bench = h2_bench.fresh_server()
        request = f"{method} / HTTP/1.1\r\nhost: x\r\n\r\n".encode()
        for start in range(0, len(request), step):
            bench.feed(request[start : start + step])
        answer = bench.bytes_out()
        assert answer.startswith(b"HTTP/1.1 505 ")
        assert b"gRPC" in answer
        assert bench.code == ErrorCode.HTTP_1_1_REQUIRED

    @pytest.mark.parametrize("start", [b"\x16\x03\x01", b"PRI * HTTP/1.0\r\n", b"GEX", b"\0" * 30, b"get / HTTP/1.1"])
    def test_bad_preface(self, start: bytes) -> None:
        """Anything else is refused as soon as it shows."""
        bench = h2_bench.fresh_server().feed(start)
        assert bench.code == ErrorCode.PROTOCOL_ERROR
        assert [frame.kind for frame in bench.frames()] == ["GOAWAY"]

    def test_settings_follow_the_preface(self) -> None:
        """We do not wait for the client's settings with ours."""
        bench = h2_bench.fresh_server().feed(h2_peer.PREFACE[:-1])
        assert bench.bytes_out() == b""
        bench.feed(h2_peer.PREFACE[-1:])
        assert [frame.kind for frame in bench.frames()] == ["SETTINGS", "WINDOW_UPDATE"]

    @pytest.mark.parametrize("first", [h2_peer.ping(), h2_peer.settings_ack(), h2_peer.window_update(0, 1)])
    def test_first_frame_has_to_be_settings(self, first: bytes) -> None:
        """An acknowledgement is none."""
        assert h2_bench.fresh_server().feed(h2_peer.PREFACE, first).code == ErrorCode.PROTOCOL_ERROR


class TestAccepting:
    """Which header blocks open a stream."""

    def test_request(self) -> None:
        """With and without a body to follow."""
        bench = h2_bench.server()
        bench.feed(bench.request(1), bench.request(5, end=True))
        assert bench.events == [("request", 1, REQUEST, False), ("request", 5, REQUEST, True)]
        assert bench.conn.last_stream == 5

    @pytest.mark.parametrize("number", [0, 2, 100, 2**31 - 2])
    def test_wrong_parity(self, number: int) -> None:
        """Clients open odd streams, and stream 0 is the connection."""
        bench = h2_bench.server()
        bench.feed(bench.request(number))
        assert bench.code == ErrorCode.PROTOCOL_ERROR
        assert bench.events == []

    def test_ids_only_grow(self) -> None:
        """A smaller id is a closed stream: what was skipped cannot be opened any more."""
        bench = h2_bench.server()
        bench.feed(bench.request(9), bench.request(5))
        assert [(frame.stream, frame.code) for frame in bench.frames()] == [(5, ErrorCode.STREAM_CLOSED)]
        assert len(bench.events) == 1
        bench.feed(h2_peer.window_update(7, 1), h2_peer.data(7, b"x"))
        assert bench.code is None

    @pytest.mark.parametrize(
        "pairs",
        [
            [],
            [(b"grpc-status", b"0")],
            RESPONSE,
            REQUEST[:2],
            [*REQUEST, (b"connection", b"close")],
            [*REQUEST, (b"Upper", b"x")],
            [(b":method", b"GET"), *REQUEST],
        ],
    )
    def test_malformed_request(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """A stream error; nobody is told; later frames of that stream are ignored; the next call is fine."""
        bench = h2_bench.server()
        bench.feed(bench.request(1, pairs), h2_peer.data(1, b"body", end=True), bench.request(3))
        assert [(frame.stream, frame.code) for frame in bench.frames()] == [(1, ErrorCode.PROTOCOL_ERROR)]
        assert bench.events == [("request", 3, REQUEST, False)]

    def test_oversized_request(self) -> None:
        """Comes to `accept`, marked, so that the refusal can say why; the table is intact."""
        bench = h2_bench.server(Limits(header_list=1000))
        bench.feed(bench.request(1, [*REQUEST, (b"big", b"x" * 2000)]), bench.request(3))
        assert [event[:2] for event in bench.events] == [("oversized", 1), ("request", 3)]
        assert bench.code is None

    def test_stream_limit(self) -> None:
        """One too many is refused, late frames of it are ignored, and there is room again afterwards."""
        bench = h2_bench.server(Limits(streams=2))
        bench.feed(bench.request(1), bench.request(3), bench.request(5), h2_peer.data(5, b"x"))
        assert [(frame.stream, frame.code) for frame in bench.frames()] == [(5, ErrorCode.REFUSED_STREAM)]
        bench.feed(h2_peer.rst_stream(1), bench.request(7))
        assert [event[:2] for event in bench.events] == [("request", 1), ("request", 3), ("reset", 1), ("request", 7)]

    def test_reaction_inside_accept(self) -> None:
        """The answer may be complete before the request's headers have been handled."""
        bench = h2_bench.server()
        bench.recorder.react = lambda what, stream: stream.send_headers(encode(RESPONSE), True)
        bench.feed(bench.request(1, end=True))
        assert [frame.kind for frame in bench.frames()] == ["HEADERS"]
        assert bench.conn.streams == {}

    def test_interim_responses_are_relayed(self) -> None:
        """Several header blocks before the body."""
        bench = h2_bench.server()
        bench.feed(bench.request(1))
        bench.stream(1).send_headers(encode([(b":status", b"103")]), False)
        bench.stream(1).send_headers(encode(RESPONSE), True)
        assert [(frame.kind, frame.end) for frame in bench.frames()] == [("HEADERS", False), ("HEADERS", True)]


def pong(bench: Bench[ServerConnection]) -> bytes:
    """The client's answer to the PING of a drain."""
    (ping,) = bench.frames("PING")
    return h2_peer.ping(ping.payload, ack=True)


class TestDrain:
    """GOAWAY in two steps around a PING: no call is cut and none is lost."""

    def test_two_goaways(self) -> None:
        """The first names no stream; calls that were on their way are taken; then the last one is named."""
        bench = h2_bench.server()
        bench.feed(bench.request(1))
        bench.conn.drain()
        bench.conn.drain()
        first, ping = bench.frames()
        assert (first.kind, first.number, first.code) == ("GOAWAY", 2**31 - 1, ErrorCode.NO_ERROR)
        bench.feed(bench.request(3), h2_peer.ping(ping.payload, ack=True))
        (second,) = bench.frames()
        assert (second.kind, second.number, second.code) == ("GOAWAY", 3, ErrorCode.NO_ERROR)
        assert bench.idle_calls == 0
        bench.feed(bench.request(5), h2_peer.ping(ping.payload, ack=True))
        assert [(frame.kind, frame.stream, frame.code) for frame in bench.frames()] == [
            ("RST_STREAM", 5, ErrorCode.REFUSED_STREAM)
        ]
        assert [event[:2] for event in bench.events] == [("request", 1), ("request", 3)]

    def test_idle_when_the_last_call_ends(self) -> None:
        """Told once, by whatever ends it."""
        bench = h2_bench.server()
        bench.feed(bench.request(1, end=True), bench.request(3))
        bench.conn.drain()
        bench.feed(pong(bench))
        bench.stream(1).send_headers(encode(RESPONSE), True)
        assert (bench.idle_calls, bench.conn.leaving) == (0, True)
        bench.feed(h2_peer.rst_stream(3))
        assert (bench.idle_calls, bench.conn.leaving) == (1, True)

    def test_calls_on_their_way(self) -> None:
        """Until the client has answered our PING a further call may come, so an empty connection is kept."""
        bench = h2_bench.server()
        bench.feed(bench.request(1, end=True))
        bench.conn.drain()
        answer = pong(bench)
        bench.stream(1).send_headers(encode(RESPONSE), True)
        assert bench.idle_calls == 0
        bench.feed(bench.request(3, end=True), answer)
        assert bench.idle_calls == 0
        bench.stream(3).send_headers(encode(RESPONSE), True)
        assert bench.idle_calls == 1

    def test_without_calls(self) -> None:
        """Idle as soon as the client has answered."""
        bench = h2_bench.server()
        bench.conn.drain()
        assert (bench.idle_calls, bench.conn.leaving) == (0, False)
        bench.feed(h2_peer.ping(b"not this", ack=True))
        assert bench.idle_calls == 0
        answer = pong(bench)
        bench.feed(answer)
        assert (bench.idle_calls, bench.conn.leaving) == (1, True)

    def test_leaving_at_once(self) -> None:
        """One GOAWAY that names the last stream that was seen; nothing to say before the preface or after a failure."""
        bench = h2_bench.server()
        bench.feed(bench.request(1, end=True))
        bench.conn.leave()
        assert [(frame.kind, frame.number, frame.code) for frame in bench.frames()] == [("GOAWAY", 1, 0)]
        for silent in (h2_bench.fresh_server(), h2_bench.server().feed(h2_peer.window_update(0, 0))):
            silent.bytes_out()
            silent.conn.leave()
            assert silent.bytes_out() == b""

    def test_before_the_preface(self) -> None:
        """A client that has not even begun may go at once."""
        bench = h2_bench.fresh_server()
        bench.conn.drain()
        assert bench.idle_calls == 1
        assert bench.bytes_out() == b""

    def test_after_failure(self) -> None:
        """There is nothing to drain."""
        bench = h2_bench.server().feed(h2_peer.window_update(0, 0))
        bench.bytes_out()
        bench.conn.drain()
        assert bench.bytes_out() == b""

    def test_pong_without_a_drain(self) -> None:
        """An unexpected PING answer has no effect."""
        bench = h2_bench.server().feed(h2_peer.ping(b"draining", ack=True))
        assert bench.frames() == []
        assert not bench.conn.leaving

    def test_goaway_of_the_client(self) -> None:
        """It will open no more streams; the open ones go on."""
        bench = h2_bench.server()
        bench.feed(bench.request(1), h2_peer.goaway(0, 0, b"bye"))
        bench.stream(1).send_headers(encode(RESPONSE), True)
        assert [frame.kind for frame in bench.frames()] == ["HEADERS"]


def test_without_a_transport() -> None:
    """A connection nobody gave a transport, a sink or an ear drops what it would say."""
    dirty: list[Flushable] = []
    conn = ServerConnection(limits=Limits(), huffman=HuffmanDecoder(), dirty=dirty)
    bench = h2_bench.server()
    conn.receive(h2_peer.PREFACE + h2_peer.settings() + bench.request(1))
    conn.flush()
    assert conn.streams == {}
    conn.drain()
    conn.receive(h2_peer.ping(b"draining", ack=True))
    assert conn.leaving


def test_failure() -> None:
    """GOAWAY with code, reason and last stream; every stream is lost; what comes later is not looked at."""
    bench = h2_bench.server()
    bench.feed(bench.request(1), bench.request(3), h2_peer.push_promise(1, 2, b""))
    (goaway,) = bench.frames()
    assert (goaway.number, goaway.code) == (3, ErrorCode.PROTOCOL_ERROR)
    assert b"PUSH_PROMISE" in goaway.payload
    assert [event[:2] for event in bench.events] == [("request", 1), ("request", 3), ("lost", 1), ("lost", 3)]
    bench.feed(bench.request(5), h2_peer.ping())
    bench.conn.fail(ConnectionFault(ErrorCode.INTERNAL_ERROR, "again"))
    assert bench.code == ErrorCode.PROTOCOL_ERROR
    assert bench.events == []
    assert bench.bytes_out() == b""


def test_failure_by_the_shell() -> None:
    """The shell may end a connection with its own reason."""
    bench = h2_bench.client()
    h2_bench.open_call(bench)
    bench.conn.fail(ConnectionFault(ErrorCode.SETTINGS_TIMEOUT, "slow"))
    assert bench.events == [("lost", 1)]
    assert bench.frames("GOAWAY")[0].code == ErrorCode.SETTINGS_TIMEOUT


def test_loss() -> None:
    """Streams end, waiting ones too; sending into them is harmless."""
    bench = h2_bench.server(None, (4, 0))
    bench.feed(bench.request(1))
    stream = bench.stream(1)
    stream.send_headers(encode(h2_bench.RESPONSE), False)
    stream.send_data(b"waits", True)
    bench.bytes_out()
    assert stream.queued == 5
    bench.conn.lost()
    assert bench.events[-1] == ("lost", 1)
    assert (stream.queued, stream.closed, bench.conn.waiting) == (0, True, {})
    stream.send_headers(b"", True)
    stream.reset(ErrorCode.CANCEL)
    bench.conn.resume()
    assert bench.bytes_out() == b""


def conversation() -> tuple[h2_bench.Bench[ServerConnection], bytes]:
    """A server, and bytes that make it do a bit of everything."""
    bench = h2_bench.fresh_server()
    block = bench.encoder.block([*REQUEST, (b"x-long", b"v" * 100)])
    wire = b"".join(
        [
            h2_peer.PREFACE,
            h2_peer.settings((4, 100_000), (1, 0)),
            h2_peer.window_update(0, 1000),
            h2_peer.headers(1, block[:10], more=True, pad=7, depends_on=0),
            h2_peer.continuation(1, block[10:20], more=True),
            h2_peer.continuation(1, block[20:]),
            h2_peer.data(1, bytes(range(256)) * 20),
            bench.request(3, end=True),
            h2_peer.ping(),
            h2_peer.data(1, b"padded", pad=50),
            h2_peer.raw(0x55, 1, 1, b"unknown"),
            bench.request(1, [(b"trailer", b"1")], end=True),
            bench.request(5),
            h2_peer.rst_stream(5),
            h2_peer.goaway(0),
        ]
    )
    return bench, wire


@pytest.mark.parametrize("step", [1, 2, 7, 24, 1000])
def test_delivery_in_pieces(step: int) -> None:
    """However the bytes arrive, the events and the answers are the same."""
    whole, wire = conversation()
    whole.feed(wire)
    assert len(whole.recorder.events) == 7
    parts, _ = conversation()
    for start in range(0, len(wire), step):
        parts.feed(wire[start : start + step])
    assert parts.code is None
    assert parts.events == whole.events
    assert parts.bytes_out() == whole.bytes_out()


def test_half_read() -> None:
    """True from the first byte of something to its last, and before the first SETTINGS: a slow peer shows."""
    bench, wire = conversation()
    start = len(h2_peer.PREFACE) + len(h2_peer.settings((4, 1), (1, 0)))
    for i in range(start):
        assert bench.conn.half_read, i
        bench.feed(wire[i : i + 1])
    seen = [bench.conn.half_read]
    for piece in (h2_peer.ping()[:-1], h2_peer.ping()[-1:]):
        bench.feed(piece)
        seen.append(bench.conn.half_read)
    assert seen == [False, True, False]
