"""Sending under flow control, credit for what was received, and the queue between them."""

import tracemalloc

import pytest

from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import encode
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from interpose.net.h2.stream import NOWHERE, Stream
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import RESPONSE, TRAILERS, Bench

WINDOW = 4
Sent = list[tuple[str, int, int, bool]]


def answering(
    *settings: tuple[int, int], count: int = 1, limits: Limits | None = None, end: bool = False
) -> tuple[Bench[ServerConnection], list[Stream]]:
    """A server whose streams 1, 3, ... have sent their response headers."""
    bench = h2_bench.server(limits, *settings)
    numbers = range(1, 2 * count, 2)
    bench.feed(*[bench.request(number, end=end) for number in numbers])
    streams = [bench.stream(number) for number in numbers]
    for stream in streams:
        stream.send_headers(encode(RESPONSE), False)
    bench.bytes_out()
    bench.recorder.events.clear()
    return bench, streams


def sent(bench: Bench[ServerConnection]) -> Sent:
    """Frames since the last look, as (kind, stream, payload size, end)."""
    return [(frame.kind, frame.stream, len(frame.payload), frame.end) for frame in bench.frames()]


class TestSending:
    """What the windows allow goes out at once; the rest waits in order."""

    def test_at_once(self) -> None:
        """Within both windows nothing is queued and nobody is told later."""
        bench, (stream,) = answering()
        assert stream.send_data(b"abc", False) == 3
        assert stream.send_data(b"", True) == 0
        assert sent(bench) == [("DATA", 1, 3, False), ("DATA", 1, 0, True)]
        assert bench.events == []

    def test_stream_window(self) -> None:
        """A part goes out, the rest waits for WINDOW_UPDATE; the sink hears how much went."""
        bench, (stream,) = answering((WINDOW, 10))
        assert stream.send_data(b"x" * 25, True) == 0
        assert sent(bench) == [("DATA", 1, 10, False)]
        assert stream.queued == 15
        bench.feed(h2_peer.window_update(1, 7))
        assert sent(bench) == [("DATA", 1, 7, False)]
        bench.feed(h2_peer.window_update(1, 100))
        assert sent(bench) == [("DATA", 1, 8, True)]
        assert bench.events == [("sent", 1, 10), ("sent", 1, 7), ("sent", 1, 8)]
        assert (stream.queued, bench.conn.waiting) == (0, {})
        assert stream.send_data(b"late", True) == 4
        assert sent(bench) == []

    def test_window_is_used_up_exactly(self) -> None:
        """The last byte of the window is usable, the one after it not."""
        bench, (stream,) = answering((WINDOW, 10))
        assert stream.send_data(b"x" * 10, False) == 10
        assert stream.send_data(b"y", False) == 0
        assert sent(bench) == [("DATA", 1, 10, False)]

    def test_empty_end_needs_no_window(self) -> None:
        """END_STREAM goes out with the window at zero, and below."""
        bench, (one, two) = answering((WINDOW, 10), count=2)
        one.send_data(b"x" * 10, False)
        two.send_data(b"x" * 10, False)
        assert one.send_data(b"", True) == 0
        bench.feed(h2_peer.settings((WINDOW, 0)))
        assert two.send_window == -10
        two.send_data(b"", True)
        assert two.send_window == -10
        assert [frame for frame in sent(bench) if frame[3] and frame[0] == "DATA"] == [
            ("DATA", 1, 0, True),
            ("DATA", 3, 0, True),
        ]

    def test_large_bodies_are_cut_into_frames(self) -> None:
        """No frame is over 16384 bytes, and only the last has END_STREAM."""
        bench, (stream,) = answering((WINDOW, 10**6))
        body = bytes(range(256)) * 200
        stream.send_body(body, True)
        frames = bench.frames()
        assert b"".join(frame.payload for frame in frames) == body
        assert [frame.end for frame in frames] == [False, False, False, True]

    def test_small_bodies_are_one_frame(self) -> None:
        """The same call for any size."""
        bench, (stream,) = answering()
        stream.send_body(b"small", True)
        assert sent(bench) == [("DATA", 1, 5, True)]

    def test_order_of_data_and_trailers(self) -> None:
        """Trailers never overtake the body; they need no window of their own."""
        bench, (stream,) = answering((WINDOW, 5))
        stream.send_data(b"12345678", False)
        stream.send_data(b"", False)
        stream.send_data(b"9", False)
        stream.send_headers(encode(TRAILERS), True)
        assert sent(bench) == [("DATA", 1, 5, False)]
        bench.feed(h2_peer.window_update(1, 3))
        assert sent(bench) == [("DATA", 1, 3, False)]
        bench.feed(h2_peer.window_update(1, 1))
        assert [(kind, end) for kind, _, _, end in sent(bench)] == [("DATA", False), ("HEADERS", True)]

    def test_long_header_block(self) -> None:
        """Over a frame's size it goes on in CONTINUATION, also behind queued data."""
        pairs = [(b"long", b"v" * 40_000)]
        for waits in (False, True):
            bench, (stream,) = answering((WINDOW, 0))
            if waits:
                stream.send_data(b"x", False)
            stream.send_headers(encode(pairs), True)
            bench.feed(h2_peer.window_update(1, 1))
            frames = bench.frames("HEADERS", "CONTINUATION")
            assert [frame.kind for frame in frames] == ["HEADERS", "CONTINUATION", "CONTINUATION"]
            assert bench.decoder.pairs(b"".join(frame.payload for frame in frames)) == pairs

    def test_stream_is_forgotten_when_both_sides_are_done(self) -> None:
        """Whether the last thing sent is DATA, trailers, or either of them from the queue."""
        for queued in (False, True):
            for trailers in (False, True):
                bench, (stream,) = answering((WINDOW, 0 if queued else 10), end=True)
                stream.send_data(b"x", not trailers)
                if trailers:
                    stream.send_headers(encode(TRAILERS), True)
                assert (1 in bench.conn.streams) is queued
                bench.feed(h2_peer.window_update(1, 1))
                assert bench.conn.streams == {}
                assert stream.closed

    def test_nothing_leaves_a_finished_stream(self) -> None:
        """Sending after the end is dropped: the other side of a relay may be late."""
        bench, (stream,) = answering()
        stream.send_headers(encode(TRAILERS), True)
        sent(bench)
        stream.send_headers(encode(TRAILERS), True)
        assert stream.send_data(b"abc", True) == 3
        assert sent(bench) == []


class TestWindows:
    """Increments, overflow, and what SETTINGS does to open streams."""

    def test_connection_window(self) -> None:
        """Streams share the window of the connection."""
        bench, (one, two) = answering((WINDOW, 10**6), count=2)
        one.send_body(b"x" * 60_000, False)
        two.send_body(b"y" * 10_000, True)
        assert sum(size for _, _, size, _ in sent(bench)) == 65_535
        bench.feed(h2_peer.window_update(0, 10_000))
        assert sent(bench) == [("DATA", 3, 4_465, True)]

    def test_negative_window(self) -> None:
        """A lowered INITIAL_WINDOW_SIZE may leave a stream in debt, which it has to pay off first."""
        bench, (stream,) = answering((WINDOW, 100))
        stream.send_data(b"x" * 80, False)
        bench.feed(h2_peer.settings((WINDOW, 50)))
        assert stream.send_window == -30
        stream.send_data(b"y" * 10, True)
        bench.feed(h2_peer.window_update(1, 30))
        assert [frame for frame in sent(bench) if frame[0] == "DATA"] == [("DATA", 1, 80, False)]
        bench.feed(h2_peer.window_update(1, 4))
        assert sent(bench) == [("DATA", 1, 4, False)]
        bench.feed(h2_peer.settings((WINDOW, 56)))
        assert sent(bench) == [("SETTINGS", 0, 0, True), ("DATA", 1, 6, True)]

    def test_smallest_rise_counts(self) -> None:
        """One byte more in INITIAL_WINDOW_SIZE lets one byte go."""
        bench, (stream,) = answering((WINDOW, 3))
        stream.send_data(b"1234", True)
        sent(bench)
        bench.feed(h2_peer.settings((WINDOW, 4)))
        assert sent(bench) == [("SETTINGS", 0, 0, True), ("DATA", 1, 1, True)]

    def test_connection_window_is_used_up_exactly(self) -> None:
        """The last byte of it is usable, the one after it not, however wide the stream's own is."""
        bench, (stream,) = answering((WINDOW, 10**6))
        for _ in range(3):
            assert stream.send_data(bytes(16_384), False) == 16_384
        assert stream.send_data(bytes(16_383), False) == 16_383
        assert stream.send_data(b"x", False) == 0
        assert sum(size for _, _, size, _ in sent(bench)) == 65_535

    def test_new_streams_get_the_new_window(self) -> None:
        """The setting holds from then on."""
        bench, (_,) = answering((WINDOW, 100))
        bench.feed(h2_peer.settings((WINDOW, 3)), bench.request(3))
        assert bench.stream(3).send_window == 3

    def test_zero_increment_is_a_stream_error(self) -> None:
        """On a stream, that stream; the connection goes on."""
        bench, (_, other) = answering(count=2)
        bench.feed(h2_peer.window_update(1, 0))
        assert [(frame.stream, frame.code) for frame in bench.frames()] == [(1, ErrorCode.PROTOCOL_ERROR)]
        assert bench.events == [("reset", 1, ErrorCode.PROTOCOL_ERROR)]
        assert other.send_data(b"fine", True) == 4

    def test_overflow_is_a_stream_error(self) -> None:
        """2^31-1 is the largest window."""
        bench, (one, two) = answering((WINDOW, 0), count=2)
        bench.feed(
            h2_peer.window_update(1, 2**31 - 1), h2_peer.window_update(3, 2**31 - 1), h2_peer.window_update(3, 1)
        )
        assert [(frame.stream, frame.code) for frame in bench.frames()] == [(3, ErrorCode.FLOW_CONTROL_ERROR)]
        assert (one.closed, two.closed) == (False, True)

    def test_overflow_by_settings_ends_the_connection(self) -> None:
        """A window over its maximum is a connection error (RFC 9113 6.9.2)."""
        bench, (_,) = answering((WINDOW, 0))
        bench.feed(h2_peer.window_update(1, 2**31 - 1), h2_peer.settings((WINDOW, 1)))
        assert bench.code == ErrorCode.FLOW_CONTROL_ERROR

    def test_update_without_anything_waiting(self) -> None:
        """A window update without queued bytes only raises the window."""
        bench, (stream,) = answering((WINDOW, 10))
        bench.feed(h2_peer.window_update(1, 5))
        assert sent(bench) == []
        assert stream.send_data(b"x" * 15, False) == 15


class TestSharing:
    """Streams that wait do not hold up others."""

    def test_stalled_stream_stalls_itself_only(self) -> None:
        """Another stream of the same connection sends on."""
        bench, (stalled, other) = answering((WINDOW, 10), count=2)
        stalled.send_data(b"x" * 100, True)
        assert other.send_data(b"y" * 10, True) == 10
        bench.feed(h2_peer.window_update(0, 1000))
        assert [frame[1:3] for frame in sent(bench)] == [(1, 10), (3, 10)]

    def test_turns_while_the_window_is_wide(self) -> None:
        """Some frames each: a long body does not come out in one piece."""
        bench, streams = answering((WINDOW, 10**6), count=3)
        bench.conn.blocked = True
        for stream in streams:
            stream.send_body(b"x" * 200_000, True)
        bench.feed(h2_peer.window_update(0, 10**6))
        assert sent(bench) == []
        bench.conn.resume()
        order = [number for _, number, _, _ in sent(bench)]
        runs = [number for i, number in enumerate(order) if i == 0 or order[i - 1] != number]
        assert runs[:6] == [1, 3, 5, 1, 3, 5]

    def test_turns_while_the_window_is_narrow(self) -> None:
        """Each small update goes to the stream that has waited longest, not always to the first."""
        bench, (hog, *streams) = answering((WINDOW, 10**6), count=4)
        hog.send_body(b"x" * 65_535, True)
        for stream in streams:
            stream.send_body(b"x" * 50_000, True)
        sent(bench)
        served = []
        for _ in range(6):
            bench.feed(h2_peer.window_update(0, 1000))
            served += [number for _, number, _, _ in sent(bench)]
        assert served == [3, 5, 7, 3, 5, 7]

    def test_blocked_transport(self) -> None:
        """No DATA while the transport is full, though the windows are wide; header blocks still go."""
        bench, (one, two) = answering(count=2)
        bench.conn.blocked = True
        assert one.send_data(b"x", False) == 0
        one.send_headers(encode(TRAILERS), True)
        two.send_headers(encode(TRAILERS), True)
        assert [frame[:2] for frame in sent(bench)] == [("HEADERS", 3)]
        bench.conn.resume()
        assert [frame[:2] for frame in sent(bench)] == [("DATA", 1), ("HEADERS", 1)]
        assert bench.events == [("sent", 1, 1)]

    def test_empty_end_after_a_block_with_no_window_left(self) -> None:
        """An empty frame waits neither for the transport nor for the window."""
        bench, (one, two) = answering((WINDOW, 10**6), count=2)
        one.send_body(b"x" * 65_535, False)
        sent(bench)
        bench.conn.blocked = True
        two.send_data(b"", True)
        assert sent(bench) == [("DATA", 3, 0, True)]

    def test_transport_fills_up_again_while_resuming(self) -> None:
        """A sink that hears of sent bytes may block again: the rest keeps waiting, in order."""
        bench, (one, two) = answering(count=2)
        bench.conn.blocked = True
        one.send_data(b"1", True)
        two.send_data(b"2", True)

        def block(what: str, stream: Stream) -> None:
            bench.conn.blocked = True

        bench.recorder.react = block
        bench.conn.resume()
        assert sent(bench) == [("DATA", 1, 1, True)]
        bench.conn.resume()
        assert sent(bench) == [("DATA", 3, 1, True)]


class TestCostOfWaiting:
    """What a peer that grants nothing, or next to nothing, makes us do."""

    def test_streams_without_a_window_are_not_looked_at(self) -> None:
        """However many replies wait for their own window, an update of the connection's costs the same."""
        bench, streams = answering((WINDOW, 0), count=50)
        for stream in streams:
            stream.send_data(b"reply", True)
        bench.feed(h2_peer.window_update(0, 1) * 1000)
        assert (list(bench.conn.sendable), len(bench.conn.waiting)) == ([], 50)
        bench.conn.send_window = 1
        bench.feed(h2_peer.window_update(7, 2))
        assert list(bench.conn.sendable) == [7]  # the only one that an update of the connection's looks at
        bench.feed(h2_peer.window_update(0, 1))
        assert (list(bench.conn.sendable), len(bench.conn.waiting)) == ([], 50)
        assert sent(bench) == [("DATA", 7, 1, False), ("DATA", 7, 1, False)]

    def test_initial_window_says_who_can_send(self) -> None:
        """Those that a rise lets send do, and those that a cut stops are not looked at any more."""
        bench, (one, two) = answering((WINDOW, 10), count=2)
        bench.conn.send_window = 0
        one.send_data(b"x" * 10, True)
        two.send_data(b"x" * 20, True)
        assert list(bench.conn.sendable) == [1, 3]
        bench.feed(h2_peer.settings((WINDOW, 0)))
        assert list(bench.conn.sendable) == []
        bench.feed(h2_peer.settings((WINDOW, 20)), h2_peer.window_update(0, 25))
        assert sent(bench)[-2:] == [("DATA", 1, 10, True), ("DATA", 3, 15, False)]

    def test_waiting_bytes_cost_their_size(self) -> None:
        """A body in frames of two bytes takes no more memory than one in large ones, within a factor."""
        _, (stream,) = answering((WINDOW, 0))
        tracemalloc.start()
        try:
            for _ in range(50_000):
                stream.send_data(b"ab", False)
            assert stream.queued == 100_000
            assert tracemalloc.get_traced_memory()[0] < 300_000
        finally:
            tracemalloc.stop()

    def test_a_little_of_a_large_body_copies_a_little(self) -> None:
        """A window that opens byte by byte does not move the rest of the body each time."""
        bench, (stream,) = answering((WINDOW, 0))
        stream.send_body(b"x" * 4_000_000, True)
        tracemalloc.start()
        try:
            bench.feed(h2_peer.window_update(1, 1))
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()
        assert sent(bench) == [("DATA", 1, 1, False)]
        assert stream.queued == 3_999_999

    def test_joined_pieces_keep_their_order_and_end(self) -> None:
        """Bytes join what waits; a header block, an end and a full piece are not joined."""
        bench, (stream,) = answering((WINDOW, 1))
        for part in (b"abc", b"de", b"f" * 16_384, b"g"):
            stream.send_data(part, False)
        stream.send_headers(encode(TRAILERS), True)
        bench.feed(h2_peer.window_update(1, 2), h2_peer.window_update(1, 100_000))
        frames = bench.frames("DATA", "HEADERS")
        assert b"".join(frame.payload for frame in frames if frame.kind == "DATA") == b"abcde" + b"f" * 16_384 + b"g"
        assert [(frame.kind, frame.end) for frame in frames][-2:] == [("DATA", False), ("HEADERS", True)]

    def test_an_end_joins_what_waits(self) -> None:
        """The last bytes of a body are one frame with those before them."""
        bench, (stream,) = answering((WINDOW, 0))
        stream.send_data(b"a", False)
        stream.send_data(b"b", True)
        bench.feed(h2_peer.window_update(1, 10))
        assert sent(bench) == [("DATA", 1, 2, True)]

    def test_a_large_body_is_written_in_turns(self) -> None:
        """Only a write tells whether the transport is full, so no window makes us give it everything at once."""
        bench, (stream,) = answering((WINDOW, 0))
        stream.send_body(b"x" * 2_000_000, True)
        writes: list[int] = []
        bench.conn.write = lambda data: writes.append(len(data))
        bench.feed(h2_peer.window_update(0, 10_000_000), h2_peer.window_update(1, 10_000_000))
        bench.bytes_out()
        assert len(writes) > 2
        assert max(writes) < 700_000
        assert stream.queued == 0


class TestCredit:
    """Received bytes are paid back when they have left our memory."""

    def test_in_steps_of_half_a_window(self) -> None:
        """Few updates, and none for what nobody has taken yet."""
        bench, (stream,) = answering(limits=Limits(stream_window=1000))
        bench.recorder.credit = False
        bench.feed(h2_peer.data(1, b"x" * 900))
        assert bench.frames() == []
        stream.credit(499)
        assert bench.frames() == []
        stream.credit(1)
        (update,) = bench.frames()
        assert (update.kind, update.stream, update.number) == ("WINDOW_UPDATE", 1, 500)
        bench.feed(h2_peer.data(1, b"x" * 600))
        assert bench.code is None
        assert bench.events[-1] == ("data", 1, b"x" * 600, False)

    @pytest.mark.parametrize("pad", [None, 0])
    def test_window_is_enforced(self, pad: int | None) -> None:
        """One byte too many, padding included, is a flow control error of that stream."""
        bench, (_, other) = answering(limits=Limits(stream_window=1000), count=2)
        bench.recorder.credit = False
        bench.feed(h2_peer.data(1, b"x" * 1000), h2_peer.data(1, b"" if pad is not None else b"x", pad=pad))
        assert [(frame.stream, frame.code) for frame in bench.frames()] == [(1, ErrorCode.FLOW_CONTROL_ERROR)]
        assert bench.events[-1] == ("reset", 1, ErrorCode.FLOW_CONTROL_ERROR)
        assert not other.closed

    def test_none_for_a_finished_side(self) -> None:
        """After END_STREAM there is nothing to allow."""
        bench, (stream,) = answering(limits=Limits(stream_window=1000))
        bench.recorder.credit = False
        bench.feed(h2_peer.data(1, b"x" * 900, end=True))
        stream.credit(900)
        assert bench.frames() == []


class TestConnectionWindow:
    """Credit of the connection comes back on receipt, whatever happens to the stream."""

    LIMITS = Limits(connection_window=80_000, stream_window=20_000)

    def test_credit_after_half_a_window(self) -> None:
        """Nothing before, and then all of it."""
        bench = h2_bench.server(self.LIMITS)
        bench.recorder.credit = False
        bench.feed(*[bench.request(number) for number in (1, 3, 5)])
        for number in (1, 3):
            bench.feed(h2_peer.data(number, b"x" * 16_000))
        assert bench.frames() == []
        bench.feed(h2_peer.data(5, b"x" * 8_000))
        (update,) = bench.frames()
        assert (update.kind, update.stream, update.number) == ("WINDOW_UPDATE", 0, 40_000)

    def test_late_and_refused_data_count(self) -> None:
        """Bytes nobody wants have used the window all the same."""
        bench = h2_bench.server(self.LIMITS)
        bench.feed(bench.request(1), bench.request(3))
        bench.stream(1).reset(ErrorCode.CANCEL)
        bench.feed(h2_peer.data(1, b"x" * 15_000))
        bench.feed(h2_peer.data(3, b"x" * 15_000, end=True), h2_peer.data(3, b"x" * 10_000))
        (update,) = bench.frames("WINDOW_UPDATE")
        assert (update.stream, update.number) == (0, 40_000)

    def test_overflow(self) -> None:
        """The peer may not make our window larger than 2^31-1; zero is no increment."""
        largest = 2**31 - 1 - 65_535
        assert h2_bench.server().feed(h2_peer.window_update(0, largest)).code is None
        assert h2_bench.server().feed(h2_peer.window_update(0, largest + 1)).code == ErrorCode.FLOW_CONTROL_ERROR
        assert h2_bench.server().feed(h2_peer.window_update(0, 0)).code == ErrorCode.PROTOCOL_ERROR


class TestJoining:
    """Small pieces go out with the flush, one frame for all that came until then."""

    def test_one_frame_for_many_pieces(self) -> None:
        """Of each stream, also where pieces of several come in turn; each asks for one flush."""
        bench, streams = answering(count=2)
        for piece in (b"a", b"bc", b"d"):
            assert [stream.send_joined(piece) for stream in streams] == [0, 0]
        assert bench.dirty == streams
        assert sorted((frame.stream, frame.payload) for frame in bench.frames()) == [(1, b"abcd"), (3, b"abcd")]
        assert sorted(bench.events) == [("sent", 1, 4), ("sent", 3, 4)]
        assert bench.conn.buffered.size == 0
        assert streams[0].send_data(b"more", False) == 4

    def test_what_comes_behind_stays_behind(self) -> None:
        """A piece that is not small, trailers, and the end."""
        bench, (one, other) = answering(count=2)
        one.send_joined(b"a")
        assert one.send_data(b"bcd", False) == 0
        one.send_joined(b"e")
        one.send_headers(encode(TRAILERS), True)
        other.send_joined(b"x")
        other.send_data(b"", True)
        frames = bench.frames()
        assert b"".join(frame.payload for frame in frames if (frame.kind, frame.stream) == ("DATA", 1)) == b"abcde"
        assert [(frame.kind, frame.end) for frame in frames if frame.stream == 1][-1] == ("HEADERS", True)
        assert [(frame.payload, frame.end) for frame in frames if frame.stream == 3] == [(b"x", True)]

    def test_windows_count(self) -> None:
        """What they do not allow waits as everything does."""
        bench, (stream,) = answering((WINDOW, 3))
        for _ in range(5):
            stream.send_joined(b"x")
        assert sent(bench) == [("DATA", 1, 3, False)]
        stream.send_joined(b"x")
        assert sent(bench) == []
        bench.feed(h2_peer.window_update(1, 100))
        assert sent(bench) == [("DATA", 1, 3, False)]

    def test_behind_other_output(self) -> None:
        """What was said before by another stream is before it."""
        bench, (one, other) = answering(count=2)
        one.send_data(b"first", False)
        other.send_joined(b"x")
        assert sent(bench) == [("DATA", 1, 5, False), ("DATA", 3, 1, False)]

    def test_closed_before_the_flush(self) -> None:
        """Nothing goes out, and nothing is left in the account of what waits."""
        bench, (stream,) = answering()
        stream.send_joined(b"x")
        stream.reset(ErrorCode.CANCEL)
        assert [frame.kind for frame in bench.frames()] == ["RST_STREAM"]
        assert bench.conn.buffered.size == 0
        assert stream.send_joined(b"late") == 4
        assert sent(bench) == []


def test_reset_drops_what_waits() -> None:
    """Nothing of a reset stream is sent any more."""
    bench, (stream,) = answering((WINDOW, 0))
    stream.send_data(b"x" * 10, True)
    stream.reset(ErrorCode.CANCEL)
    bench.feed(h2_peer.window_update(1, 100), h2_peer.settings((WINDOW, 1000)))
    assert [frame[0] for frame in sent(bench)] == ["RST_STREAM", "SETTINGS"]
    assert bench.conn.waiting == {}


def test_sink_of_nobody() -> None:
    """A stream without a listener takes everything, and gives the credit back."""
    bench, (stream,) = answering((WINDOW, 0), limits=Limits(stream_window=100))
    stream.sink = NOWHERE
    bench.feed(h2_peer.data(1, b"x" * 60))
    assert [(frame.kind, frame.number) for frame in bench.frames()] == [("WINDOW_UPDATE", 60)]
    stream.send_data(b"y", False)
    bench.feed(h2_peer.window_update(1, 1), bench.request(1, TRAILERS, end=True), h2_peer.rst_stream(1))
    bench.feed(bench.request(3))
    bench.stream(3).sink = NOWHERE
    bench.conn.lost()
    assert bench.events == [("request", 3, h2_bench.REQUEST, False)]
