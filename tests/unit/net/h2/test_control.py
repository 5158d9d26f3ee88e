"""What a connection says on its own, and the frames that move no message."""

import pytest

from interpose.net.h2.connection import Connection
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import Headers, encode
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.limits import Limits
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import opened, reset_code

WINDOW = 4


class TestPriority:
    """Priority is read and forgotten; only nonsense is answered."""

    def test_ignored(self) -> None:
        """On open, closed and idle streams."""
        bench = opened()
        bench.feed(h2_peer.priority(1, 5), h2_peer.priority(77), h2_peer.rst_stream(1), h2_peer.priority(1))
        assert bench.code is None
        assert bench.frames() == []

    def test_on_stream_0(self) -> None:
        """Priority of the connection."""
        assert opened().feed(h2_peer.priority(0)).code == ErrorCode.PROTOCOL_ERROR

    def test_wrong_size(self) -> None:
        """A stream error, if there is a stream."""
        bench = opened()
        bench.feed(h2_peer.raw(2, 0, 1, b"1234"))
        assert reset_code(bench) == ErrorCode.FRAME_SIZE_ERROR
        bench.feed(h2_peer.raw(2, 0, 1, b"1234"))
        assert bench.code is None

    def test_self_dependency(self) -> None:
        """In PRIORITY it resets the stream; in HEADERS it ends the connection."""
        bench = opened()
        bench.feed(h2_peer.priority(3, 3), h2_peer.priority(1, 1))
        assert reset_code(bench) == ErrorCode.PROTOCOL_ERROR
        bench.feed(h2_peer.headers(3, b"", depends_on=3))
        assert bench.code == ErrorCode.PROTOCOL_ERROR

    def test_fields_cut_short(self) -> None:
        """HEADERS with the flag but without the five bytes."""
        assert opened().feed(h2_peer.raw(1, 0x24, 3, b"1234")).code == ErrorCode.FRAME_SIZE_ERROR


def test_queues_leave_in_portions() -> None:
    """When windows open on many streams at once, no more than a turn's worth goes into one write; if the transport is
    full then, the rest waits for it."""
    bench = h2_bench.server(None, (WINDOW, 0))
    for number in range(1, 17, 2):
        bench.feed(bench.request(number, end=True))
        bench.stream(number).send_headers(encode(h2_bench.RESPONSE), False)
        bench.stream(number).send_body(bytes(250_000), False)
    bench.bytes_out()
    writes: list[int] = []

    def full_after_two(data: bytes) -> None:
        writes.append(len(data))
        bench.conn.blocked = len(writes) == 2

    asked: list[bool] = []
    bench.conn.on_unread = lambda: asked.append(bench.conn.unread)
    bench.conn.write = full_after_two
    bench.feed(h2_peer.settings((WINDOW, 1 << 30)), h2_peer.window_update(0, 1 << 30))
    bench.conn.flush()
    assert len(writes) == 2
    assert max(writes) < 700_000
    assert asked == [True]  # others come first, now that so much is out
    bench.conn.resume()
    bench.conn.flush()
    while bench.conn.unread:
        bench.conn.proceed()
        bench.conn.flush()
    assert sum(writes) > 8 * 250_000
    assert max(writes) < 700_000


def test_streams_of_a_lost_connection_end_in_slices() -> None:
    """Each sink is told, in the order of the streams, and not all in one go."""
    bench = h2_bench.server()
    numbers = range(1, 1001, 2)
    bench.feed(*[bench.request(number, end=True) for number in numbers])
    bench.recorder.events.clear()
    bench.conn.lost()
    assert 0 < len(bench.recorder.events) < 300
    assert not bench.conn.streams
    while bench.conn.unread:
        bench.conn.proceed()
    assert bench.events == [("lost", number) for number in numbers]


def test_what_waits_while_streams_are_lost_is_dropped() -> None:
    """A stream that is lost and whose sink was not told yet sends nothing, and may be reset."""
    bench = h2_bench.server()
    bench.feed(*[bench.request(number, end=True) for number in range(1, 1001, 2)])
    bench.bytes_out()
    bench.conn.lost()
    last = bench.stream(999)
    last.send_headers(encode(h2_bench.RESPONSE), False)
    last.reset(8)
    assert bench.frames() == []


def test_ping_is_answered_with_its_payload() -> None:
    """The answer rides on the next write: no write of its own."""
    bench = h2_bench.server()
    bench.feed(h2_peer.ping(b"8 bytes!"))
    assert bench.dirty == []
    assert bench.conn.later
    (answer,) = bench.frames()
    assert answer == h2_peer.Frame("PING", 0, b"8 bytes!", 1)
    bench.feed(h2_peer.ping(b"not ours", ack=True))
    assert bench.frames() == []


def test_one_write_per_flush() -> None:
    """However many frames there are; the connection asks for a flush once, and an empty flush writes nothing."""
    bench = h2_bench.server()
    writes: list[bytes] = []
    bench.conn.write = writes.append
    bench.feed(h2_peer.settings(), h2_peer.settings(), h2_peer.ping())
    assert bench.dirty == [bench.conn]
    bench.conn.flush()
    bench.conn.flush()
    assert [frame.kind for frame in h2_peer.read_frames(writes[0])] == ["SETTINGS", "SETTINGS", "PING"]
    assert len(writes) == 1


def test_limits_are_the_roles() -> None:
    """The base class knows no role of its own."""
    conn = Connection(limits=Limits(), huffman=HuffmanDecoder(), dirty=[])
    with pytest.raises(NotImplementedError):
        conn.announced()
    with pytest.raises(NotImplementedError):
        conn.on_new_headers(1, Headers([]), 0)
    with pytest.raises(NotImplementedError):
        conn.is_idle(1)
