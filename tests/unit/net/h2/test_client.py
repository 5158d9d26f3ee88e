"""The opening role: calls to a backend, its answers, its limits and its GOAWAY."""

import pytest

from interpose.net.h2.client import ClientConnection
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.frames import LARGEST_STREAM_ID
from interpose.net.h2.limits import Limits
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE, TRAILERS, Bench

STREAMS = 3
INTERIM = [(b":status", b"103"), (b"link", b"</x>")]


def calling(count: int = 1, *settings: tuple[int, int], limits: Limits | None = None) -> Bench[ClientConnection]:
    """A client with calls on streams 1, 3, ..."""
    bench = h2_bench.client(limits, *settings)
    for _ in range(count):
        h2_bench.open_call(bench, end=True)
    bench.bytes_out()
    return bench


def test_open() -> None:
    """Ids are odd and grow; the request is on the wire as given."""
    bench = h2_bench.client()
    streams = [h2_bench.open_call(bench), h2_bench.open_call(bench, end=True)]
    assert [stream.number for stream in streams] == [1, 3]
    frames = bench.frames()
    assert [(frame.kind, frame.stream, frame.end) for frame in frames] == [("HEADERS", 1, False), ("HEADERS", 3, True)]
    assert [bench.decoder.pairs(frame.payload) for frame in frames] == [REQUEST, REQUEST]


def test_whole_answer() -> None:
    """Interim responses, the response, the body, the trailers; then the stream is forgotten."""
    bench = calling()
    bench.feed(bench.response(1, INTERIM), bench.response(1, INTERIM), bench.response(1))
    bench.feed(h2_peer.data(1, b"body"), bench.response(1, TRAILERS, end=True))
    assert bench.events == [
        ("headers", 1, INTERIM, False),
        ("headers", 1, INTERIM, False),
        ("headers", 1, RESPONSE, False),
        ("data", 1, b"body", False),
        ("headers", 1, TRAILERS, True),
    ]
    assert bench.conn.streams == {}


def test_trailers_only() -> None:
    """How gRPC answers with an error: one block that ends the stream."""
    bench = calling()
    bench.feed(bench.response(1, [*RESPONSE, (b"grpc-status", b"12")], end=True))
    assert bench.events == [("headers", 1, [*RESPONSE, (b"grpc-status", b"12")], True)]
    assert bench.conn.streams == {}


def test_answer_before_the_request_has_ended() -> None:
    """The stream stays until we are done as well."""
    bench = h2_bench.client()
    stream = h2_bench.open_call(bench)
    bench.feed(bench.response(1), h2_peer.data(1, b"x", end=True))
    assert 1 in bench.conn.streams
    stream.send_data(b"", True)
    assert bench.conn.streams == {}


@pytest.mark.parametrize(
    ("pairs", "end"),
    [
        (REQUEST, False),
        (TRAILERS, False),
        (TRAILERS, True),
        (INTERIM, True),
        ([(b":status", b"abc")], False),
        ([*RESPONSE, (b"upgrade", b"x")], False),
    ],
)
@pytest.mark.parametrize("pieces", [False, True])
def test_malformed_response(pairs: list[tuple[bytes, bytes]], end: bool, pieces: bool) -> None:
    """A stream error, told to the backend and to the caller; another call goes on."""
    bench = calling(2)
    if pieces:
        bench.feed(h2_peer.headers(1, b"", end=end, more=True), h2_peer.continuation(1, bench.encoder.block(pairs)))
    else:
        bench.feed(bench.response(1, pairs, end=end))
    assert [(frame.stream, frame.code) for frame in bench.frames()] == [(1, ErrorCode.PROTOCOL_ERROR)]
    assert bench.events == [("reset", 1, ErrorCode.PROTOCOL_ERROR)]
    bench.feed(bench.response(3, end=True))
    assert bench.events == [("headers", 3, RESPONSE, True)]


def test_data_before_the_response() -> None:
    """A body without headers."""
    bench = calling()
    bench.feed(h2_peer.data(1, b"x"))
    assert bench.events == [("reset", 1, ErrorCode.PROTOCOL_ERROR)]


def test_oversized_response() -> None:
    """That stream fails; HPACK state is kept."""
    bench = calling(2, limits=Limits(header_list=1000))
    bench.feed(bench.response(1, [*RESPONSE, (b"big", b"x" * 2000)]), bench.response(3))
    assert bench.events == [("reset", 1, ErrorCode.ENHANCE_YOUR_CALM), ("headers", 3, RESPONSE, False)]


def test_response_with_the_reserved_bit() -> None:
    """It means nothing, in HEADERS and CONTINUATION."""
    bench = calling()
    high = 1 << 31
    bench.feed(h2_peer.headers(high | 1, b"", more=True), h2_peer.continuation(1, bench.encoder.block(RESPONSE)))
    bench.feed(h2_peer.data(high | 1, b"x"), bench.response(high | 1, TRAILERS, end=True))
    assert [event[0] for event in bench.events] == ["headers", "data", "headers"]


@pytest.mark.parametrize("number", [2, 3, 0])
def test_headers_on_a_stream_nobody_opened(number: int) -> None:
    """The backend may not begin anything."""
    bench = calling()
    assert bench.feed(bench.response(number)).code == ErrorCode.PROTOCOL_ERROR


def test_late_response() -> None:
    """After our reset it is ignored, after the end it is answered."""
    bench = calling(2)
    bench.conn.streams[1].reset(ErrorCode.CANCEL)
    bench.feed(bench.response(3, end=True), bench.response(1), bench.response(3))
    assert [(frame.stream, frame.code) for frame in bench.frames()] == [
        (1, ErrorCode.CANCEL),
        (3, ErrorCode.STREAM_CLOSED),
    ]


def test_first_frame_has_to_be_settings() -> None:
    """Also from a backend that speaks HTTP/1.1."""
    assert h2_bench.fresh_client().feed(h2_peer.ping()).code == ErrorCode.PROTOCOL_ERROR
    assert h2_bench.fresh_client().feed(b"HTTP/1.1 400 Bad Request\r\n").code == ErrorCode.PROTOCOL_ERROR


def usable(bench: Bench[ClientConnection]) -> bool:
    """Whether a further call may be opened now."""
    return bench.conn.usable


def test_stream_limit_of_the_backend() -> None:
    """`usable` follows its setting and ours, whichever is lower."""
    bench = h2_bench.client(Limits(streams=3), (STREAMS, 1))
    assert usable(bench)
    h2_bench.open_call(bench, end=True)
    assert not usable(bench)
    bench.feed(h2_peer.settings((STREAMS, 100)))
    assert usable(bench)
    h2_bench.open_call(bench, end=True)
    h2_bench.open_call(bench, end=True)
    assert not usable(bench)
    bench.feed(bench.response(1, end=True))
    assert usable(bench)


def test_ample_streams() -> None:
    """Some dozens, or three quarters of what may be open if one client has all of it; none once no more may."""
    bench = h2_bench.client(Limits(streams=100))
    assert bench.conn.ample == 64
    bench.conn.widen()
    assert bench.conn.ample == 75
    bench.conn.narrow()
    assert bench.conn.ample == 64
    bench.feed(h2_peer.settings((STREAMS, 8)))
    assert bench.conn.ample == 6
    bench.conn.retire()
    bench.conn.narrow()
    assert bench.conn.ample == 0


class TestGoaway:
    """The backend goes: calls it has not seen are refused, the others end in peace."""

    def test_streams_above_the_last(self) -> None:
        """Safe to try again elsewhere, hence REFUSED_STREAM."""
        bench = calling(3)
        bench.feed(h2_peer.goaway(3))
        assert bench.events == [("reset", 5, ErrorCode.REFUSED_STREAM)]
        assert not bench.conn.usable
        assert bench.idle_calls == 0
        bench.feed(bench.response(1, end=True), bench.response(3, end=True))
        assert bench.idle_calls == 1

    def test_two_steps(self) -> None:
        """First without a last stream, then with it; new settings do not make it usable again."""
        bench = calling(2)
        bench.feed(h2_peer.goaway(2**31 - 1), h2_peer.settings((STREAMS, 50)))
        assert (bench.events, bench.conn.usable) == ([], False)
        bench.feed(h2_peer.goaway(1))
        assert bench.events == [("reset", 3, ErrorCode.REFUSED_STREAM)]

    def test_all_refused(self) -> None:
        """Idle at once, and told so once."""
        bench = calling(2)
        bench.feed(h2_peer.goaway(0, 2, b"out of order"))
        assert [event[:2] for event in bench.events] == [("reset", 1), ("reset", 3)]
        assert bench.idle_calls == 1

    def test_without_calls(self) -> None:
        """A connection without calls is idle at once."""
        bench = h2_bench.client().feed(h2_peer.goaway(0))
        assert bench.idle_calls == 1

    def test_refused_streams_send_no_more(self) -> None:
        """What waited for a window is dropped."""
        bench = h2_bench.client(None, (4, 0))
        stream = h2_bench.open_call(bench)
        stream.send_data(b"waits", True)
        bench.bytes_out()
        bench.feed(h2_peer.goaway(0), h2_peer.settings((4, 1000)))
        assert [frame.kind for frame in bench.frames()] == ["SETTINGS"]


def test_ids_run_out() -> None:
    """Near the end of the ids the connection takes no more calls, and the open ones go on."""
    bench = calling(1)
    last = bench.conn.next_stream = LARGEST_STREAM_ID - 20_000
    h2_bench.open_call(bench, end=True)
    assert usable(bench)
    h2_bench.open_call(bench, end=True)
    assert not usable(bench)
    bench.feed(*[bench.response(number, end=True) for number in (1, last, last + 2)])
    assert [event[0] for event in bench.events] == ["headers"] * 3
    assert bench.idle_calls == 1


def test_greeting_is_told_once() -> None:
    """With the peer's first settings: only then is it known how many streams it takes."""
    bench = h2_bench.fresh_client()
    greetings: list[int] = []
    bench.conn.on_greeting = lambda: greetings.append(bench.conn.stream_limit)
    bench.feed(h2_peer.settings((STREAMS, 7)))
    bench.feed(h2_peer.settings((STREAMS, 9)))
    assert greetings == [7]


class TestWithdrawnCalls:
    """A call that is given up before it was written is none: the backend never hears of it."""

    @pytest.mark.parametrize("end", [False, True])
    def test_nothing_of_it_is_written(self, end: bool) -> None:
        """Neither its headers nor its body, nor a reset; the window it had taken is free again."""
        bench = h2_bench.client()
        window = bench.conn.send_window
        stream = h2_bench.open_call(bench, end=end)
        stream.send_data(b"body", True)
        stream.reset(8)
        assert bench.frames() == []
        assert bench.conn.send_window == window
        assert not bench.conn.streams

    def test_others_are(self) -> None:
        """Frames before, between and behind its own, in order; numbers are not used twice."""
        bench = h2_bench.client()
        first, second, third = (h2_bench.open_call(bench) for _ in range(3))
        for stream in (first, second, third):
            stream.send_data(b"body", True)
        bench.feed(h2_peer.ping(b"pingpong"))
        second.reset(8)
        assert [(frame.kind, frame.stream) for frame in bench.frames()] == [
            ("HEADERS", 1),
            ("HEADERS", 5),
            ("DATA", 1),
            ("DATA", 5),
            ("PING", 0),
        ]
        assert h2_bench.open_call(bench).number == 7

    def test_written_calls_are_reset(self) -> None:
        """What the backend knows of it has to be told about."""
        bench = h2_bench.client()
        stream = h2_bench.open_call(bench)
        bench.bytes_out()
        stream.reset(8)
        assert [(frame.kind, frame.stream) for frame in bench.frames()] == [("RST_STREAM", 1)]

    def test_change_of_the_table_arrives(self) -> None:
        """It rides on the first headers behind the settings, so these cannot be taken back."""
        bench = h2_bench.client()
        bench.feed(h2_peer.settings((1, 0)))
        one, two = h2_bench.open_call(bench), h2_bench.open_call(bench)
        one.reset(8)
        two.reset(8)
        frames = bench.frames("HEADERS", "RST_STREAM")
        assert [(frame.kind, frame.stream) for frame in frames] == [("HEADERS", 1), ("RST_STREAM", 1)]
        assert frames[0].payload.startswith(b"\x20")

    def test_window_goes_to_who_waits(self) -> None:
        """A body that waited for the connection's window gets what was taken back."""
        bench = h2_bench.client(None, (4, 1 << 20))
        one, two = h2_bench.open_call(bench), h2_bench.open_call(bench)
        bench.bytes_out()
        three = h2_bench.open_call(bench)
        three.send_body(bytes(65_000), True)
        one.send_body(b"x" * 1000, True)
        two.send_body(b"y" * 1000, True)
        three.reset(8)
        sent = [(frame.stream, len(frame.payload), frame.end) for frame in bench.frames("DATA")]
        assert sent == [(1, 535, False), (1, 465, True), (3, 1000, True)]

    def test_new_connection(self) -> None:
        """Before the first write nothing is taken back: the preface stands there, too."""
        bench = h2_bench.fresh_client()
        h2_bench.open_call(bench).reset(8)
        assert [frame.kind for frame in bench.frames()][-2:] == ["HEADERS", "RST_STREAM"]
