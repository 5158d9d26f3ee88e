"""Frames that both roles meet: sizes, padding, priority, header blocks in pieces, windows, PING, resets."""

import pytest

from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import encode
from interpose.net.h2.limits import Limits
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import REQUEST, opened, reset_code

WINDOW = 4


@pytest.mark.parametrize("kind", [*range(10), 0x42])
@pytest.mark.parametrize("flags", [0, 0x8])
@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("whole", [False, True])
def test_oversized_frame(kind: int, flags: int, number: int, whole: bool) -> None:
    """Over 16384 bytes, of any type, with or without padding, on any stream: refused, and before the payload came."""
    bench = opened()
    bench.feed(h2_peer.raw(kind, flags, number, b"\0" * 16_385 if whole else b"", length=16_385))
    assert bench.code == ErrorCode.FRAME_SIZE_ERROR


def test_oversized_in_places_of_their_own() -> None:
    """Behind HEADERS that go on, and as DATA on a side that is done."""
    bench = opened()
    bench.feed(h2_peer.headers(3, b"", more=True), h2_peer.raw(9, 0, 3, length=16_385))
    assert bench.code == ErrorCode.FRAME_SIZE_ERROR
    bench = opened()
    bench.feed(h2_peer.data(1, b"", end=True), h2_peer.data(1, b"x" * 16_385))
    assert bench.code == ErrorCode.FRAME_SIZE_ERROR


def test_several_large_frames_in_one_piece() -> None:
    """Bodies that are not copied stay apart."""
    bench = opened()
    bench.feed(h2_peer.data(1, b"a" * 5000), h2_peer.data(1, b"b" * 6000, end=True))
    assert bench.events == [("data", 1, b"a" * 5000, False), ("data", 1, b"b" * 6000, True)]


def test_largest_frame() -> None:
    """16384 bytes are allowed, and arrive unchanged."""
    bench = opened()
    body = bytes(range(256)) * 64
    bench.feed(h2_peer.data(1, body))
    assert bench.events == [("data", 1, body, False)]


def test_reserved_bit_is_ignored() -> None:
    """The bit before the stream's number means nothing (RFC 9113 4.1)."""
    bench = opened()
    high = 1 << 31
    bench.feed(h2_peer.data(high | 1, b"x"), h2_peer.raw(6, 0, high, b"12345678"), bench.request(high | 3))
    assert [event[:2] for event in bench.events] == [("data", 1), ("request", 3)]
    assert [frame.kind for frame in bench.frames()] == ["PING"]


def test_unknown_frame_types_are_ignored() -> None:
    """Frames of unknown types are ignored (RFC 9113 5.5)."""
    bench = opened()
    bench.feed(h2_peer.raw(0xFA, 0xFF, 1, b"whatever"), h2_peer.data(1, b"x"))
    assert bench.events == [("data", 1, b"x", False)]


class TestPadding:
    """Padding is cut off, counted, and checked."""

    @pytest.mark.parametrize("pad", [0, 1, 255])
    def test_data(self, pad: int) -> None:
        """Only the body arrives."""
        bench = opened()
        bench.feed(h2_peer.data(1, b"body", pad=pad, end=True))
        assert bench.events == [("data", 1, b"body", True)]

    def test_counts_against_the_window(self) -> None:
        """The peer gets credit for the padding as well: it left our memory at once."""
        bench = opened(Limits(stream_window=1000))
        bench.feed(h2_peer.data(1, b"x" * 243, pad=255))
        bench.feed(h2_peer.data(1, b"x" * 2))
        (update,) = bench.frames()
        assert (update.kind, update.stream, update.number) == ("WINDOW_UPDATE", 1, 499 + 2)

    def test_headers(self) -> None:
        """With padding, priority fields or both, the block is the same."""
        for pad in (None, 0, 200):
            for depends_on in (None, 0, 1, 1 << 31):
                bench = opened()
                bench.feed(h2_peer.headers(3, bench.encoder.block(REQUEST), pad=pad, depends_on=depends_on, end=True))
                assert bench.events == [("request", 3, REQUEST, True)]

    @pytest.mark.parametrize("payload", [b"", b"\x01", b"\x05abcd", b"\xffabc"])
    @pytest.mark.parametrize("kind", [0, 1])
    def test_longer_than_the_frame(self, kind: int, payload: bytes) -> None:
        """The connection ends: sizes can no longer be trusted."""
        bench = opened()
        bench.feed(h2_peer.raw(kind, 0xC, 1, payload))
        assert bench.code == ErrorCode.PROTOCOL_ERROR


class TestContinuation:
    """A header block in pieces is one block."""

    def test_request_in_pieces(self) -> None:
        """Each byte in a frame of its own, empty pieces among them."""
        bench = h2_bench.server()
        block = bench.encoder.block(REQUEST)
        pieces = [h2_peer.continuation(1, block[i : i + 1], more=True) for i in range(len(block))]
        bench.feed(h2_peer.headers(1, b"", more=True, end=True), *pieces)
        assert bench.events == []
        assert bench.conn.half_read
        bench.feed(h2_peer.continuation(1, b""))
        assert bench.events == [("request", 1, REQUEST, True)]
        assert not bench.conn.half_read

    @pytest.mark.parametrize("split", [False, True])
    def test_trailers_in_pieces(self, split: bool) -> None:
        """They end the stream like whole ones; with our side done the stream is gone."""
        bench = opened()
        bench.stream(1).send_headers(encode(h2_bench.RESPONSE), True)
        first = h2_peer.headers(1, b"", more=True, end=True)
        last = h2_peer.continuation(1, bench.encoder.block([(b"x", b"y")]))
        for part in [first, last] if split else [first + last]:
            bench.feed(part)
        assert bench.events == [("headers", 1, [(b"x", b"y")], True)]
        assert bench.conn.streams == {}

    def test_trailers_in_pieces_while_we_still_send(self) -> None:
        """The stream stays open until our side has ended."""
        bench = opened()
        bench.feed(h2_peer.headers(1, b"", more=True, end=True), h2_peer.continuation(1, b""))
        assert bench.events == [("headers", 1, [], True)]
        assert 1 in bench.conn.streams

    def test_bad_trailers_in_pieces(self) -> None:
        """A block in pieces obeys the same rules: trailers have to end the stream."""
        bench = opened()
        bench.feed(h2_peer.headers(1, b"", more=True), h2_peer.continuation(1, b""))
        assert reset_code(bench) == ErrorCode.PROTOCOL_ERROR

    @pytest.mark.parametrize(
        "frame",
        [
            h2_peer.data(1, b"x"),
            h2_peer.ping(),
            h2_peer.headers(3, b""),
            h2_peer.continuation(5, b""),
            h2_peer.settings(),
            h2_peer.raw(0xEE, 0, 3),
        ],
    )
    @pytest.mark.parametrize("together", [False, True])
    def test_interrupted(self, frame: bytes, together: bool) -> None:
        """Nothing may come between, not even unknown frames or the other streams' CONTINUATION."""
        bench = opened()
        start = h2_peer.headers(3, b"", more=True)
        if together:
            bench.feed(start + frame)
        else:
            bench.feed(start).feed(frame)
        assert bench.code == ErrorCode.PROTOCOL_ERROR

    @pytest.mark.parametrize("number", [0, 1, 3])
    def test_without_headers(self, number: int) -> None:
        """CONTINUATION with nothing to continue."""
        assert opened().feed(h2_peer.continuation(number, b"")).code == ErrorCode.PROTOCOL_ERROR


class TestReceiving:
    """Bodies, trailers and the rules of their order."""

    def test_bad_block_ends_the_connection(self) -> None:
        """The table can no longer be trusted, whole or in pieces."""
        assert opened().feed(h2_peer.headers(3, b"\xff\xff\xff\xff\xff\xff")).code == ErrorCode.COMPRESSION_ERROR
        bench = opened().feed(h2_peer.headers(3, b"", more=True), h2_peer.continuation(3, b"\x80"))
        assert bench.code == ErrorCode.COMPRESSION_ERROR

    @pytest.mark.parametrize("last", [h2_peer.data(1, b"x", end=True), h2_peer.headers(1, b"", end=True)])
    def test_end_of_a_stream_we_have_finished(self, last: bytes) -> None:
        """Both sides are done: the stream is forgotten, without a word."""
        bench = opened()
        bench.stream(1).send_headers(encode(h2_bench.RESPONSE), True)
        bench.bytes_out()
        bench.feed(last)
        assert bench.conn.streams == {}
        assert bench.frames() == []

    def test_trailers_have_to_end_the_stream(self) -> None:
        """And they may not look like a request."""
        bench = opened()
        bench.feed(bench.request(1, [(b"x", b"y")]))
        assert reset_code(bench) == ErrorCode.PROTOCOL_ERROR
        bench.feed(bench.request(3), bench.request(3, end=True))
        assert reset_code(bench, 3) == ErrorCode.PROTOCOL_ERROR

    def test_oversized_trailers(self) -> None:
        """That stream fails; the table is intact, so the others go on."""
        bench = opened(Limits(header_list=1000))
        big = (b"big", b"x" * 1500)
        bench.feed(bench.request(1, [big], end=True))
        assert reset_code(bench) == ErrorCode.ENHANCE_YOUR_CALM
        bench.feed(bench.request(3, end=True))
        assert bench.events[-1] == ("request", 3, REQUEST, True)

    @pytest.mark.parametrize("late", [h2_peer.data(1, b"x"), h2_peer.headers(1, b"", end=True)])
    def test_after_the_end(self, late: bytes) -> None:
        """The peer's side is closed, ours is not: a stream error."""
        bench = opened()
        bench.feed(h2_peer.data(1, b"", end=True), late)
        assert reset_code(bench) == ErrorCode.STREAM_CLOSED

    @pytest.mark.parametrize("late", [h2_peer.data(1, b"x"), h2_peer.headers(1, b"", end=True)])
    def test_after_both_ends(self, late: bytes) -> None:
        """The stream is gone: answered, but nobody is told."""
        bench = opened()
        bench.feed(h2_peer.data(1, b"", end=True))
        bench.stream(1).send_headers(encode(h2_bench.RESPONSE), True)
        bench.events, bench.bytes_out()
        bench.feed(late, h2_peer.window_update(1, 5), h2_peer.rst_stream(1))
        (frame,) = bench.frames()
        assert (frame.kind, frame.stream, frame.code) == ("RST_STREAM", 1, ErrorCode.STREAM_CLOSED)
        assert bench.events == []

    @pytest.mark.parametrize("late", [h2_peer.data(1, b"x"), h2_peer.headers(1, b"", end=True)])
    def test_after_our_reset(self, late: bytes) -> None:
        """What was on its way is ignored without a word."""
        bench = opened()
        bench.stream(1).reset(ErrorCode.CANCEL)
        bench.stream(1).reset(ErrorCode.CANCEL)
        assert [frame.code for frame in bench.frames()] == [ErrorCode.CANCEL]
        bench.feed(late, h2_peer.window_update(1, 5), h2_peer.rst_stream(1))
        assert bench.frames() == []
        assert bench.events == []
        assert bench.code is None

    def test_header_table_lives_on_after_our_reset(self) -> None:
        """A late block is decoded though nobody wants it."""
        bench = opened()
        bench.stream(1).reset(ErrorCode.CANCEL)
        bench.feed(bench.request(1, [(b"late", b"field")], end=True))
        bench.feed(bench.request(3, [*REQUEST, (b"late", b"field")]))
        assert bench.events == [("request", 3, [*REQUEST, (b"late", b"field")], False)]

    def test_only_recent_resets_are_remembered(self) -> None:
        """The memory of resets is bounded; a very late frame is answered again."""
        bench = opened(Limits(resets=5000))
        for number in range(3, 2 * 1024 + 3, 2):
            bench.feed(bench.request(number))
            bench.stream(number).reset(ErrorCode.CANCEL)
        bench.bytes_out()
        bench.feed(h2_peer.data(3, b"x"), h2_peer.data(5, b"x"))
        assert bench.frames("RST_STREAM") == []
        bench.stream(1).reset(ErrorCode.CANCEL)
        bench.bytes_out()
        bench.feed(h2_peer.data(3, b"x"), h2_peer.data(5, b"x"))
        assert [frame.stream for frame in bench.frames("RST_STREAM")] == [3]

    @pytest.mark.parametrize(
        "frame",
        [
            h2_peer.data(0, b"x"),
            h2_peer.data(3, b"x"),
            h2_peer.data(2, b"x"),
            h2_peer.rst_stream(0),
            h2_peer.rst_stream(3),
            h2_peer.rst_stream(2),
            h2_peer.window_update(3, 1),
            h2_peer.window_update(2, 1),
            h2_peer.push_promise(1, 2, b""),
            h2_peer.raw(6, 0, 1, b"12345678"),
            h2_peer.raw(7, 0, 1, b"12345678"),
        ],
    )
    def test_wrong_stream(self, frame: bytes) -> None:
        """Frames on stream 0 or on streams nobody opened, and PING or GOAWAY on a stream."""
        assert opened().feed(frame).code == ErrorCode.PROTOCOL_ERROR

    @pytest.mark.parametrize("kind", [3, 6, 7, 8])
    @pytest.mark.parametrize("size", [3, 5, 7])
    def test_wrong_size(self, kind: int, size: int) -> None:
        """Frames of fixed size."""
        number = 1 if kind in (3, 8) else 0
        assert opened().feed(h2_peer.raw(kind, 0, number, b"\1" * size)).code == ErrorCode.FRAME_SIZE_ERROR

    def test_reset_by_the_peer(self) -> None:
        """The sink learns the code; nothing is sent and nothing can be."""
        bench = opened()
        bench.feed(h2_peer.rst_stream(1, 8))
        assert bench.events == [("reset", 1, 8)]
        bench.stream(1).send_headers(encode(h2_bench.RESPONSE), True)
        assert bench.stream(1).send_data(b"dropped", True) == 7
        assert bench.frames() == []
        assert bench.stream(1).closed
