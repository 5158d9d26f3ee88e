"""SETTINGS: what we say, what we accept, and what follows from the peer's."""

import pytest

from interpose.net.h2 import settings as settings_module
from interpose.net.h2.errors import ErrorCode
from interpose.net.h2.headers import encode
from interpose.net.h2.limits import Limits
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import RESPONSE

TABLE, PUSH, STREAMS, WINDOW, FRAME, LIST = range(1, 7)


def test_what_a_server_says() -> None:
    """Limits as settings, and the connection's window."""
    bench = h2_bench.fresh_server(Limits(streams=7, stream_window=100_000, header_list=5000, connection_window=10**6))
    bench.feed(h2_peer.PREFACE)
    said, window = bench.frames()
    assert said.settings == {STREAMS: 7, WINDOW: 100_000, LIST: 5000}
    assert (window.kind, window.stream, window.number) == ("WINDOW_UPDATE", 0, 10**6 - 65_535)


def test_what_a_client_says() -> None:
    """The preface first, and that nobody may push."""
    bench = h2_bench.fresh_client(Limits(stream_window=100_000))
    wire = bench.bytes_out()
    assert wire.startswith(h2_peer.PREFACE)
    said, window = h2_peer.read_frames(wire[len(h2_peer.PREFACE) :])
    assert said.settings == {PUSH: 0, WINDOW: 100_000, LIST: 64 * 1024}
    assert window.kind == "WINDOW_UPDATE"


def test_acknowledged() -> None:
    """Every SETTINGS gets its ACK, in order with what follows; an ACK gets none."""
    bench = h2_bench.server()
    bench.feed(h2_peer.settings((LIST, 1)), h2_peer.settings(), h2_peer.settings_ack())
    assert [(frame.kind, frame.end, frame.payload) for frame in bench.frames()] == [("SETTINGS", True, b"")] * 2


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (h2_peer.settings((PUSH, 2)), ErrorCode.PROTOCOL_ERROR),
        (h2_peer.settings((WINDOW, 2**31)), ErrorCode.FLOW_CONTROL_ERROR),
        (h2_peer.settings((FRAME, 16_383)), ErrorCode.PROTOCOL_ERROR),
        (h2_peer.settings((FRAME, 2**24)), ErrorCode.PROTOCOL_ERROR),
        (h2_peer.raw(4, 0, 0, b"12345"), ErrorCode.FRAME_SIZE_ERROR),
        (h2_peer.raw(4, 1, 0, b"123456"), ErrorCode.FRAME_SIZE_ERROR),
        (h2_peer.raw(4, 0, 1), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_bad_settings(frame: bytes, code: ErrorCode) -> None:
    """Values out of range and broken frames end the connection with the code RFC 9113 6.5 names."""
    bench = h2_bench.server()
    assert bench.feed(frame).code == code


def test_unknown_and_extreme_settings() -> None:
    """Unknown ones are ignored, values at the edge are taken."""
    bench = h2_bench.server()
    bench.feed(h2_peer.settings((99, 1), (PUSH, 1), (PUSH, 0), (WINDOW, 2**31 - 1), (FRAME, 2**24 - 1), (STREAMS, 0)))
    assert bench.code is None
    assert bench.conn.peer.max_streams == 0


def test_table_size_lowered() -> None:
    """The next header block begins with a size update, once, though we use no table (RFC 7541 4.2)."""
    bench = h2_bench.server(None, (TABLE, 0))
    bench.feed(bench.request(1), bench.request(3))
    for number in (1, 3):
        bench.stream(number).send_headers(encode(RESPONSE), False)
        bench.feed(h2_peer.settings())
    blocks = [frame.payload for frame in bench.frames("HEADERS")]
    assert [bench.decoder.pairs(block) for block in blocks] == [RESPONSE, RESPONSE]
    assert bench.decoder.updates == [0]
    assert blocks[0].endswith(blocks[1])


def test_table_size_lowered_while_trailers_wait() -> None:
    """A queued header block carries the update as well."""
    bench = h2_bench.server(None, (WINDOW, 0))
    bench.feed(bench.request(1))
    stream = bench.stream(1)
    stream.send_headers(encode(RESPONSE), False)
    stream.send_data(b"body", False)
    stream.send_headers(encode(h2_bench.TRAILERS), True)
    bench.feed(h2_peer.settings((TABLE, 100)), h2_peer.window_update(1, 4))
    first, last = bench.frames("HEADERS")
    assert bench.decoder.pairs(first.payload) == RESPONSE
    assert bench.decoder.updates == []
    assert bench.decoder.pairs(last.payload) == h2_bench.TRAILERS
    assert bench.decoder.updates == [0]


def test_table_size_raised_or_unchanged() -> None:
    """No size update: our table is as small as it was."""
    bench = h2_bench.server(None, (TABLE, 4096), (TABLE, 65_536))
    bench.feed(bench.request(1))
    bench.stream(1).send_headers(encode(RESPONSE), True)
    bench.decoder.pairs(bench.frames("HEADERS")[0].payload)
    assert bench.decoder.updates == []


def test_peer_settings_start_at_the_defaults() -> None:
    """Before the peer has spoken, RFC 9113 6.5.2 holds."""
    peer = settings_module.PeerSettings()
    assert (peer.initial_window, peer.table_size) == (65_535, 4096)
    assert peer.update(h2_peer.settings((WINDOW, 65_536), (WINDOW, 65_534))[9:]) == -1
