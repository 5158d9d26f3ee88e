"""Work in slices: whatever one read contains, it is handled in pieces of bounded work, and to the same end."""

from collections.abc import Callable

import pytest

from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import encode
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE, Bench

WINDOW = 4
GENEROUS = Limits(idle_frames=10**6, resets=10**6)


def slices(bench: Bench[ServerConnection], data: bytes) -> list[int]:
    """What each slice that this read takes has spent."""
    bench.conn.receive(data)
    spent = [bench.conn.spent]
    while bench.conn.unread:
        bench.conn.proceed()
        spent.append(bench.conn.spent)
    return spent


def pings(bench: Bench[ServerConnection]) -> bytes:
    """Frames that cost what their bytes say."""
    return h2_peer.ping() * 8000


def calls(bench: Bench[ServerConnection]) -> bytes:
    """Calls, each of which costs more than its bytes."""
    return b"".join(bench.request(number, end=True) for number in range(1, 1999, 2))


def resets(bench: Bench[ServerConnection]) -> bytes:
    """The bytes of cancelled calls."""
    bench.feed(calls(bench))
    return b"".join(h2_peer.rst_stream(number) for number in range(1, 1999, 2))


def windows(bench: Bench[ServerConnection]) -> bytes:
    """Settings that touch every stream."""
    bench.feed(calls(bench))
    return (h2_peer.settings((WINDOW, 1)) + h2_peer.settings((WINDOW, 2))) * 50


def many(number: int, count: int) -> bytes:
    """A block with so many short fields, and one that no other block has."""
    return b"\x00\x01a\x00" * count + encode([(b"x", b"%d" % number)])


def fields(bench: Bench[ServerConnection]) -> bytes:
    """Requests with many fields that were never seen together."""
    return b"".join(h2_peer.headers(n, encode(REQUEST) + many(n, 1000), end=True) for n in range(1, 41, 2))


def pieces(bench: Bench[ServerConnection]) -> bytes:
    """The same in CONTINUATION frames."""
    return b"".join(
        h2_peer.headers(n, encode(REQUEST), end=True, more=True) + h2_peer.continuation(n, many(n, 1000))
        for n in range(1, 41, 2)
    )


def amplified(bench: Bench[ServerConnection]) -> bytes:
    """Calls that stand for far more bytes than they have."""
    bench.feed(bench.request(1, [*REQUEST, (b"long", b"v" * 3000)]))
    one = bench.encoder.block([*REQUEST, *[(b"long", b"v" * 3000)] * 15])
    return b"".join(h2_peer.headers(number, one, end=True) for number in range(3, 103, 2))


def trailers(bench: Bench[ServerConnection]) -> bytes:
    """Ends of requests, each with fields that were never seen together."""
    bench.feed(*[bench.request(number) for number in range(1, 41, 2)])
    return b"".join(h2_peer.headers(n, many(n, 1000), end=True) for n in range(1, 41, 2))


def replies(bench: Bench[ServerConnection]) -> bytes:
    """Windows for replies that wait, a byte each."""
    bench.feed(h2_peer.settings((WINDOW, 0)), calls(bench))
    for number in range(1, 1999, 2):
        bench.stream(number).send_headers(encode(RESPONSE), False)
        bench.stream(number).send_data(b"reply", True)
    return b"".join(h2_peer.window_update(number, 1) for number in range(1, 1999, 2)) * 6


@pytest.mark.parametrize(
    "make",
    [pings, calls, resets, windows, fields, pieces, amplified, trailers, replies],
    ids=lambda make: make.__name__,
)
def test_a_read_is_handled_in_slices(make: Callable[[Bench[ServerConnection]], bytes]) -> None:
    """Each costs about the same, whatever the frames are; the events are those of the same bytes in small reads."""
    bench, other = h2_bench.server(GENEROUS), h2_bench.server(GENEROUS)
    data = make(bench)
    assert make(other) == data
    spent = slices(bench, data)
    assert len(spent) > 1
    assert max(spent) < 100_000
    for at in range(0, len(data), 700):
        other.feed(data[at : at + 700])
    assert bench.code is None
    assert bench.events == other.events


def test_large_frames_count_little() -> None:
    """A body in whole frames is one slice: looking at it costs next to nothing."""
    bench = h2_bench.opened(Limits(stream_window=1 << 20))
    assert slices(bench, h2_peer.data(1, bytes(16_000)) * 15) == [pytest.approx(4000, abs=1000)]
    assert [event[0] for event in bench.events] == ["data"] * 15


def test_frame_that_has_not_arrived_is_not_unread() -> None:
    """Who waits for the peer has nothing to do."""
    bench = h2_bench.opened()
    frame = h2_peer.data(1, bytes(100))
    bench.conn.receive(frame[:50])
    assert (bench.conn.unread, bench.conn.half_read) == (False, True)
    bench.conn.receive(frame[50:] + h2_peer.ping() * 6000 + b"rest")
    assert (bench.conn.unread, bench.conn.half_read) == (True, False)


def test_held_bytes_come_first() -> None:
    """Bytes that arrive while it is the turn of others are handled later, in order."""
    bench = h2_bench.opened()
    bench.conn.hold(h2_peer.data(1, b"one")[:5])
    bench.conn.hold(h2_peer.data(1, b"one")[5:] + h2_peer.data(1, b"two"))
    assert (bench.events, bench.conn.unread) == ([], True)
    bench.conn.proceed()
    assert not bench.conn.unread
    assert bench.events == [("data", 1, b"one", False), ("data", 1, b"two", False)]


def test_nothing_is_held_after_the_end() -> None:
    """A connection that has failed takes nothing more."""
    bench = h2_bench.opened()
    bench.feed(h2_peer.raw(6, 0, 0, b"short"))
    assert bench.code == ErrorCode.FRAME_SIZE_ERROR
    bench.conn.hold(h2_peer.ping())
    assert not bench.conn.unread


def test_a_fault_drops_what_is_unread() -> None:
    """The rest of the read that broke the protocol is nobody's business."""
    bench = h2_bench.opened(GENEROUS)
    bench.conn.receive(h2_peer.ping() * 6000 + h2_peer.raw(6, 0, 0, b"short") + h2_peer.ping() * 6000)
    while bench.conn.unread:
        bench.conn.proceed()
    assert bench.code == ErrorCode.FRAME_SIZE_ERROR
