"""Ending a client's stream with a status of ours."""

from interpose.net.grpc.answer import answer
from interpose.net.grpc.framing import RESPONSE_HEADERS
from interpose.net.grpc.status import Code
from interpose.net.h2.errors import ErrorCode
from tests.support.net import h2_bench, h2_peer


def test_nothing_sent_yet_is_one_block() -> None:
    """Headers and status together, and the stream is over."""
    bench = h2_bench.server().feed(h2_bench.server().request(1, end=True))
    answer(bench.stream(1), Code.NOT_FOUND, "no", ((b"x-more", b"1"),))
    (frame,) = bench.frames()
    assert (frame.kind, frame.end) == ("HEADERS", True)
    assert [field[:2] for field in bench.decoder.decode(frame.payload)][-3:] == [
        (b"grpc-status", b"5"),
        (b"grpc-message", b"no"),
        (b"x-more", b"1"),
    ]
    assert not bench.conn.streams


def test_after_headers_the_status_is_trailers() -> None:
    """What was sent before stays in front of it."""
    bench = h2_bench.server().feed(h2_bench.server().request(1, end=True))
    stream = bench.stream(1)
    stream.send_headers(RESPONSE_HEADERS, False)
    stream.send_data(b"abc", False)
    answer(stream, Code.ABORTED, "")
    assert [frame.kind for frame in bench.frames()] == ["HEADERS", "DATA", "HEADERS"]


def test_client_that_still_sends_is_told_to_stop() -> None:
    """NO_ERROR: the answer counts, the upload does not."""
    bench = h2_bench.server().feed(h2_bench.server().request(1))
    answer(bench.stream(1), Code.ABORTED, "")
    frames = bench.frames()
    assert [frame.kind for frame in frames] == ["HEADERS", "RST_STREAM"]
    assert frames[-1].code == ErrorCode.NO_ERROR
    bench.feed(h2_peer.data(1, b"late", end=True))
    assert bench.code is None


def test_answer_behind_a_queue_is_not_cut_off() -> None:
    """Data that waits for a window comes first; the stream is not reset under it."""
    bench = h2_bench.server(None, (4, 0)).feed(h2_bench.server().request(1))
    stream = bench.stream(1)
    stream.send_headers(RESPONSE_HEADERS, False)
    stream.send_data(b"abc", False)
    answer(stream, Code.ABORTED, "")
    assert [frame.kind for frame in bench.frames()] == ["HEADERS"]
    bench.feed(h2_peer.window_update(1, 10))
    assert [frame.kind for frame in bench.frames()] == ["DATA", "HEADERS"]
