"""Streams tied together: what the relay does with nearly every frame."""

import pytest

from interpose.net.h2.client import ClientConnection
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import encode
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import RESPONSE, TRAILERS, Bench, Event
from tests.support.net.hpack import Encoder

INTERIM = [(b":status", b"103"), (b"link", b"</x>")]
# Forms that leave the dynamic table alone, so that the decoder remembers the blocks.
ROW_HEADERS = Encoder().block(RESPONSE, "plain")
ROW_TRAILERS = Encoder().block(TRAILERS, "plain")

Pair = tuple[Bench[ServerConnection], Bench[ClientConnection]]


class TestSplice:
    """Streams of both roles tied together: what ends nothing goes straight across, the sink hears the rest."""

    def spliced(self, *settings: tuple[int, int], window: int = 1000) -> Pair:
        """A call from a client, relayed to a backend with these settings; both directions spliced."""
        limits = Limits(stream_window=window)
        front, back = h2_bench.server(limits), h2_bench.client(limits, *settings)
        back.recorder.credit = front.recorder.credit = False
        front.feed(front.request(1))
        stream = front.stream(1)
        stream.splice = h2_bench.open_call(back)
        stream.splice.splice = stream
        front.bytes_out(), back.bytes_out(), front.events
        return front, back

    def test_body_crosses_without_the_sink(self) -> None:
        """Frame by frame, and the credit for them comes back."""
        front, back = self.spliced()
        front.feed(h2_peer.data(1, b"x" * 64), h2_peer.data(1, b"x" * 500))
        assert [(frame.stream, len(frame.payload), frame.end) for frame in back.frames()] == [
            (1, 64, False),
            (1, 500, False),
        ]
        assert [(frame.kind, frame.number) for frame in front.frames()] == [("WINDOW_UPDATE", 564)]
        assert front.events == []
        assert front.stream(1).received == 564

    def test_small_pieces_of_a_request_go_to_the_sink(self) -> None:
        """It may join them. Those of a reply cross: whoever asked waits for them."""
        front, back = self.spliced()
        front.feed(h2_peer.data(1, b"x" * 63), h2_peer.data(1, b"abc"))
        assert front.events == [("data", 1, b"x" * 63, False), ("data", 1, b"abc", False)]
        back.feed(back.response(1), h2_peer.data(1, b"c"))
        assert back.events == []
        front.feed(h2_peer.data(1, b"end", end=True))
        assert front.events == []
        assert [frame.payload for frame in back.frames()] == [b"end"]

    def test_responses_cross_without_the_sink(self) -> None:
        """Interim and final ones, and the body after them."""
        front, back = self.spliced()
        back.feed(back.response(1, INTERIM), back.response(1), h2_peer.data(1, b"body"))
        frames = front.frames()
        assert [(frame.kind, frame.end) for frame in frames] == [
            ("HEADERS", False),
            ("HEADERS", False),
            ("DATA", False),
        ]
        assert [front.decoder.pairs(frame.payload) for frame in frames[:2]] == [INTERIM, RESPONSE]
        assert back.events == []

    def test_connections_ask_for_a_flush_once(self) -> None:
        """However many frames crossed."""
        front, back = self.spliced()
        front.dirty.clear()
        front.feed(h2_peer.data(1, b"a" * 100), h2_peer.data(1, b"b" * 100))
        back.feed(back.response(1), h2_peer.data(1, b"c"))
        assert (front.dirty, back.dirty) == ([back.conn], [front.conn])

    @pytest.mark.parametrize("obstacle", ["stream window", "connection window", "transport", "queue", "closed"])
    def test_what_cannot_cross_goes_to_the_sink(self, obstacle: str) -> None:
        """It knows how to wait, or that nobody wants the bytes."""
        front, back = self.spliced((4, 2 if obstacle == "stream window" else 10**6))
        peer = back.conn.streams[1]
        if obstacle == "connection window":
            back.conn.send_window = 2
        elif obstacle == "transport":
            back.conn.blocked = True
        elif obstacle == "queue":
            back.conn.blocked = True
            peer.send_data(b"waits", False)
            back.conn.blocked = False
        elif obstacle == "closed":
            peer.reset(ErrorCode.CANCEL)
        back.bytes_out()
        front.feed(h2_peer.data(1, b"abc"))
        assert front.events == [("data", 1, b"abc", False)]
        assert back.frames() == []

    def test_ends_padding_and_resets_go_to_the_sink(self) -> None:
        """The end of a reply, because it is counted; padding, because it is rare."""
        front, back = self.spliced()
        front.feed(h2_peer.data(1, b"abc", pad=1), h2_peer.data(1))
        assert front.events == [("data", 1, b"abc", False)]
        back.feed(back.response(1), h2_peer.data(1, b"x"), back.response(1, TRAILERS, end=True))
        assert back.events == [("headers", 1, TRAILERS, True)]
        front, back = self.spliced()
        back.feed(back.response(1), h2_peer.data(1, b"x", end=True))
        assert back.events == [("data", 1, b"x", True)]
        front, back = self.spliced()
        front.feed(h2_peer.rst_stream(1))
        assert front.events == [("reset", 1, ErrorCode.CANCEL)]

    @pytest.mark.parametrize("body", [b"", b"last"])
    @pytest.mark.parametrize("replied", [False, True])
    def test_end_of_a_request_crosses_without_the_sink(self, body: bytes, replied: bool) -> None:
        """Nobody counts it; streams that are done on both sides are forgotten."""
        front, back = self.spliced()
        if replied:
            front.stream(1).send_headers(encode(RESPONSE), True)
            back.feed(back.response(1, end=True))
            front.bytes_out(), back.bytes_out(), back.events
        front.feed(h2_peer.data(1, body, end=True))
        assert [(frame.kind, frame.payload, frame.end) for frame in back.frames()] == [("DATA", body, True)]
        assert front.events == []
        assert (1 in front.conn.streams, 1 in back.conn.streams) == (not replied, not replied)
        front.feed(h2_peer.data(1, b"late"))
        assert front.frames("RST_STREAM")[0].code == ErrorCode.STREAM_CLOSED

    def reply_in_a_row(self, *frames: bytes) -> Pair:
        """A spliced pair whose backend has sent these trailers before, so that their block is known."""
        front, back = self.spliced(window=100_000)
        other = h2_bench.open_call(back)
        back.feed(h2_peer.headers(other.number, ROW_HEADERS), h2_peer.headers(other.number, ROW_TRAILERS, end=True))
        back.events, front.bytes_out(), back.bytes_out()
        back.feed(*frames)
        return front, back

    @pytest.mark.parametrize("requested", [False, True])
    def test_unary_reply_in_a_row(self, requested: bool) -> None:
        """Headers, one small DATA and known trailers in one piece: only the trailers meet the sink."""
        front, back = self.reply_in_a_row()
        if requested:
            front.feed(h2_peer.data(1, end=True))
        row = [h2_peer.headers(1, ROW_HEADERS), h2_peer.data(1, b"body"), h2_peer.headers(1, ROW_TRAILERS, end=True)]
        back.feed(*row, h2_peer.ping())
        assert [(frame.kind, frame.stream, frame.end) for frame in front.frames()] == [
            ("HEADERS", 1, False),
            ("DATA", 1, False),
        ]
        assert back.events == [("headers", 1, TRAILERS, True)]
        assert (1 in back.conn.streams) is not requested
        assert back.frames("PING") != []

    @pytest.mark.parametrize(
        ("rest", "events"),
        [
            ([], []),
            ([h2_peer.data(3, b"body")], [("reset", 3, ErrorCode.STREAM_CLOSED)]),
            ([h2_peer.ping()], []),
            ([h2_peer.data(1, b"body")], []),
            ([h2_peer.data(1), h2_peer.ping()], []),
            ([h2_peer.data(1, b"x" * 3000), h2_peer.ping()], []),
            ([h2_peer.data(1, b"body", pad=1), h2_peer.ping()], [("data", 1, b"body", False)]),
            ([h2_peer.data(1, b"body"), h2_peer.ping()], []),
            ([h2_peer.data(1, b"body"), h2_peer.data(1, b"more")], []),
        ],
    )
    def test_other_replies(self, rest: list[bytes], events: list[Event]) -> None:
        """Frame by frame, with the same outcome."""
        front, back = self.reply_in_a_row(h2_peer.headers(1, ROW_HEADERS), *rest)
        assert back.events == events
        assert back.code is None
        assert front.frames()[0].kind == "HEADERS"
        back.feed(h2_peer.headers(1, ROW_TRAILERS, end=True))
        assert back.events == [("headers", 1, TRAILERS, True)]

    def test_reply_in_a_row_with_new_trailers(self) -> None:
        """A block that has to be decoded is left to the ordinary way; so is one that is no trailers."""
        row = [h2_peer.headers(1, ROW_HEADERS), h2_peer.data(1, b"body")]
        _, back = self.reply_in_a_row()
        new = [(b"grpc-status", b"5")]
        back.feed(*row, h2_peer.headers(1, back.encoder.block(new, "plain"), end=True))
        assert back.events == [("headers", 1, new, True)]
        _, back = self.reply_in_a_row()
        back.feed(*row, h2_peer.headers(1, ROW_HEADERS, end=True))
        assert back.events == [("reset", 1, ErrorCode.PROTOCOL_ERROR)]

    def test_body_after_an_interim_response(self) -> None:
        """Is too early, in a row as well."""
        interim = Encoder().block(INTERIM, "plain")
        _, back = self.reply_in_a_row()
        back.feed(h2_peer.headers(1, interim), h2_peer.data(1, b"body"), h2_peer.headers(1, ROW_TRAILERS, end=True))
        assert back.events == [("reset", 1, ErrorCode.PROTOCOL_ERROR)]

    @pytest.mark.parametrize("obstacle", ["stream window", "connection window", "transport"])
    def test_reply_in_a_row_that_has_to_wait(self, obstacle: str) -> None:
        """The body goes to the sink, which knows how to wait."""
        front, back = self.reply_in_a_row()
        if obstacle == "stream window":
            front.stream(1).send_window = 2
        elif obstacle == "connection window":
            front.conn.send_window = 2
        else:
            front.conn.blocked = True
        row = [h2_peer.headers(1, ROW_HEADERS), h2_peer.data(1, b"body"), h2_peer.headers(1, ROW_TRAILERS, end=True)]
        back.feed(*row)
        assert back.events == [("data", 1, b"body", False), ("headers", 1, TRAILERS, True)]

    def test_headers_that_need_care_go_to_the_sink(self) -> None:
        """With a table size update to say, over a frame's size, or to a stream that takes no more."""
        front, back = self.spliced()
        front.feed(h2_peer.settings((1, 0)))
        back.feed(back.response(1, INTERIM))
        assert back.events == [("headers", 1, INTERIM, False)]
        front, back = self.spliced()
        long = [*RESPONSE, (b"long", b"v" * 20_000)]
        block = back.encoder.block(long, "plain", coded=False)
        back.feed(h2_peer.headers(1, block[:9000], more=True), h2_peer.continuation(1, block[9000:]))
        assert back.events == [("headers", 1, long, False)]
        front, back = self.spliced()
        front.stream(1).reset(ErrorCode.CANCEL)
        back.feed(back.response(1))
        assert back.events == [("headers", 1, RESPONSE, False)]
