"""The connection as a whole: PING, failure, loss, windows of the connection, delivery in pieces."""

import pytest

from interpose.h2.connection import Connection
from interpose.h2.errors import ConnectionFault, ErrorCode
from interpose.h2.huffman import HuffmanDecoder
from interpose.h2.limits import Limits
from interpose.testing import h2bench, h2peer
from interpose.testing.h2bench import REQUEST


def test_ping_is_answered_with_its_payload() -> None:
    """The answer rides on the next write: no write of its own."""
    bench = h2bench.server()
    bench.feed(h2peer.ping(b"8 bytes!"))
    assert bench.dirty == []
    assert bench.conn.later
    (answer,) = bench.frames()
    assert answer == h2peer.Frame("PING", 0, b"8 bytes!", 1)
    bench.feed(h2peer.ping(b"not ours", ack=True))
    assert bench.frames() == []


def test_one_write_per_flush() -> None:
    """However many frames there are; the connection asks for a flush once, and an empty flush writes nothing."""
    bench = h2bench.server()
    writes: list[bytes] = []
    bench.conn.write = writes.append
    bench.feed(h2peer.settings(), h2peer.settings(), h2peer.ping())
    assert bench.dirty == [bench.conn]
    bench.conn.flush()
    bench.conn.flush()
    assert [frame.kind for frame in h2peer.read_frames(writes[0])] == ["SETTINGS", "SETTINGS", "PING"]
    assert len(writes) == 1


def test_without_a_transport() -> None:
    """A connection nobody gave a transport, a sink or an ear drops what it would say."""
    from interpose.h2.server import ServerConnection

    dirty: list[Connection] = []
    conn = ServerConnection(limits=Limits(), huffman=HuffmanDecoder(), dirty=dirty)
    bench = h2bench.server()
    conn.receive(h2peer.PREFACE + h2peer.settings() + bench.request(1))
    conn.flush()
    assert conn.streams == {}
    conn.drain()
    conn.receive(h2peer.ping(b"draining", ack=True))
    assert conn.drained


def test_failure() -> None:
    """GOAWAY with code, reason and last stream; every stream is lost; what comes later is not looked at."""
    bench = h2bench.server()
    bench.feed(bench.request(1), bench.request(3), h2peer.push_promise(1, 2, b""))
    (goaway,) = bench.frames()
    assert (goaway.number, goaway.code) == (3, ErrorCode.PROTOCOL_ERROR)
    assert b"PUSH_PROMISE" in goaway.payload
    assert [event[:2] for event in bench.events] == [("request", 1), ("request", 3), ("lost", 1), ("lost", 3)]
    bench.feed(bench.request(5), h2peer.ping())
    bench.conn.fail(ConnectionFault(ErrorCode.INTERNAL_ERROR, "again"))
    assert bench.code == ErrorCode.PROTOCOL_ERROR
    assert bench.events == []
    assert bench.bytes_out() == b""


def test_failure_by_the_shell() -> None:
    """The shell may end a connection with its own reason."""
    bench = h2bench.client()
    h2bench.open_call(bench)
    bench.conn.fail(ConnectionFault(ErrorCode.SETTINGS_TIMEOUT, "slow"))
    assert bench.events == [("lost", 1)]
    assert bench.frames("GOAWAY")[0].code == ErrorCode.SETTINGS_TIMEOUT


def test_loss() -> None:
    """Streams end, waiting ones too; sending into them is harmless."""
    bench = h2bench.server(None, (4, 0))
    bench.feed(bench.request(1))
    stream = bench.stream(1)
    stream.send_headers(h2bench.encode(h2bench.RESPONSE), False)
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


class TestConnectionWindow:
    """Credit of the connection comes back on receipt, whatever happens to the stream."""

    LIMITS = Limits(connection_window=80_000, stream_window=20_000)

    def test_credit_after_half_a_window(self) -> None:
        """Nothing before, and then all of it."""
        bench = h2bench.server(self.LIMITS)
        bench.recorder.credit = False
        bench.feed(*[bench.request(number) for number in (1, 3, 5)])
        for number in (1, 3):
            bench.feed(h2peer.data(number, b"x" * 16_000))
        assert bench.frames() == []
        bench.feed(h2peer.data(5, b"x" * 8_000))
        (update,) = bench.frames()
        assert (update.kind, update.stream, update.number) == ("WINDOW_UPDATE", 0, 40_000)

    def test_late_and_refused_data_count(self) -> None:
        """Bytes nobody wants have used the window all the same."""
        bench = h2bench.server(self.LIMITS)
        bench.feed(bench.request(1), bench.request(3))
        bench.stream(1).reset(ErrorCode.CANCEL)
        bench.feed(h2peer.data(1, b"x" * 15_000))
        bench.feed(h2peer.data(3, b"x" * 15_000, end=True), h2peer.data(3, b"x" * 10_000))
        (update,) = bench.frames("WINDOW_UPDATE")
        assert (update.stream, update.number) == (0, 40_000)

    def test_overflow(self) -> None:
        """The peer may not make our window larger than 2^31-1; zero is no increment."""
        largest = 2**31 - 1 - 65_535
        assert h2bench.server().feed(h2peer.window_update(0, largest)).code is None
        assert h2bench.server().feed(h2peer.window_update(0, largest + 1)).code == ErrorCode.FLOW_CONTROL_ERROR
        assert h2bench.server().feed(h2peer.window_update(0, 0)).code == ErrorCode.PROTOCOL_ERROR


def conversation() -> tuple[h2bench.Bench[h2bench.ServerConnection], bytes]:
    """A server, and bytes that make it do a bit of everything."""
    bench = h2bench.fresh_server()
    block = bench.encoder.block([*REQUEST, (b"x-long", b"v" * 100)])
    wire = b"".join(
        [
            h2peer.PREFACE,
            h2peer.settings((4, 100_000), (1, 0)),
            h2peer.window_update(0, 1000),
            h2peer.headers(1, block[:10], more=True, pad=7, depends_on=0),
            h2peer.continuation(1, block[10:20], more=True),
            h2peer.continuation(1, block[20:]),
            h2peer.data(1, bytes(range(256)) * 20),
            bench.request(3, end=True),
            h2peer.ping(),
            h2peer.data(1, b"padded", pad=50),
            h2peer.raw(0x55, 1, 1, b"unknown"),
            bench.request(1, [(b"trailer", b"1")], end=True),
            bench.request(5),
            h2peer.rst_stream(5),
            h2peer.goaway(0),
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
    start = len(h2peer.PREFACE) + len(h2peer.settings((4, 1), (1, 0)))
    for i in range(start):
        assert bench.conn.half_read
        bench.feed(wire[i : i + 1])
    assert not bench.conn.half_read
    bench.feed(h2peer.ping()[:-1])
    assert bench.conn.half_read
    bench.feed(h2peer.ping()[-1:])
    assert not bench.conn.half_read


def test_limits_are_the_roles() -> None:
    """The base class knows no role of its own."""
    conn = Connection(limits=Limits(), huffman=HuffmanDecoder(), dirty=[])
    with pytest.raises(NotImplementedError):
        conn.announced()
    with pytest.raises(NotImplementedError):
        conn.on_new_headers(1, None, 0)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        conn.is_idle(1)
