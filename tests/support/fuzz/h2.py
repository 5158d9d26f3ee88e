"""What has to hold for any bytes at all, for fuzzers and property tests.

Each target takes bytes and raises AssertionError (or whatever the engine let escape) if a promise is broken:
`receive` never raises; what we write is always whole, well-formed frames; a failed connection has said GOAWAY and
tells nobody anything more; how the bytes were cut makes no difference; what the HPACK decoder accepts means the same
to the decoder in `h2hpack`, as it came and as it goes on.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from interpose.net.h2.errors import ConnectionFault
from interpose.net.h2.headers import encode
from interpose.net.h2.hpack import HpackDecoder
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.limits import Limits
from interpose.net.h2.stream import Stream
from tests.support.net import h2_bench, h2_peer, hpack
from tests.support.net.h2_bench import RESPONSE, TRAILERS, Event

# Small enough that a short input meets every limit.
LIMITS: Final = Limits(
    header_list=2000,
    header_block=20_000,
    streams=8,
    stream_window=40_000,
    connection_window=100_000,
    idle_frames=100,
    resets=30,
)
CALLS: Final = 4

Outcome = tuple[list[Event], int | None, bytes]


def run_server(pieces: Iterable[bytes]) -> Outcome:
    """Feed a server that answers its calls. Returns events, error code and output, after checking the latter."""
    bench = h2_bench.fresh_server(LIMITS)
    bench.recorder.react = _answer
    bench.recorder.credit = False  # a reader that stalls: windows do run out
    return _run(bench, pieces)


def run_client(pieces: Iterable[bytes]) -> Outcome:
    """Feed a client that has open calls, some with a body that waits for windows."""
    bench = h2_bench.fresh_client(LIMITS)
    for number in range(CALLS):
        stream = h2_bench.open_call(bench, end=number == 0)
        if number:
            stream.send_body(bytes(40_000), number % 2 == 0)
    return _run(bench, pieces)


def check_server(data: bytes) -> None:
    """The server's promises."""
    _check(run_server, data)


def check_client(data: bytes) -> None:
    """The client's promises."""
    _check(run_client, data)


def check_hpack(data: bytes) -> None:
    """The decoder's promises, over several blocks: the first byte of each says its length."""
    engine = HpackDecoder(HuffmanDecoder(), LIMITS.header_list)
    other = hpack.Decoder()
    at = 0
    while at < len(data):
        block = data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
        try:
            headers = engine.decode(block)
        except ConnectionFault:
            return
        expected = other.decode(block)
        size = sum(len(name) + len(value) + 32 for name, value, _ in expected)
        assert headers.size == size, f"size is {headers.size}, not {size}"
        assert headers.oversized == (size > LIMITS.header_list)
        if headers.oversized:
            continue
        assert headers.items() == [(name, value) for name, value, _ in expected]
        onward = hpack.Decoder().decode(headers.wire)
        assert [field[:2] for field in onward] == headers.items()
        for (_, _, came), (_, _, went) in zip(expected, onward, strict=True):
            assert went != "index", "a field we send would enter the peer's table"
            assert (came == "never") == (went == "never"), "the never-indexed mark is lost or made up"


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "server": check_server,
    "client": check_client,
    "hpack": check_hpack,
}


def cut(data: bytes) -> list[bytes]:
    """The same bytes in pieces of many sizes; the same cut for the same bytes."""
    pieces = []
    at = 0
    step = 1 + len(data) % 7
    while at < len(data):
        pieces.append(data[at : at + step])
        at += step
        step = 1 + (step * 7 + 3) % 61
    return pieces


def _check(run: Callable[[Sequence[bytes]], Outcome], data: bytes) -> None:
    events, code, _ = run([data])
    events_in_pieces, code_in_pieces, _ = run(cut(data))
    assert code_in_pieces == code, f"ends with {code_in_pieces} in pieces, with {code} as a whole"
    assert events_in_pieces == events, "pieces give other events than the whole"


def _run(bench: h2_bench.Bench[h2_bench.C], pieces: Iterable[bytes]) -> Outcome:
    told = -1
    for piece in pieces:
        bench.feed(piece)
        if told < 0 and bench.conn.failed is not None:
            told = len(bench.recorder.events)
    assert told in (-1, len(bench.recorder.events)), "events after the connection has failed"
    out = bench.bytes_out()
    if not out.startswith(b"HTTP/1.1 505"):
        frames = h2_peer.read_frames(out.removeprefix(h2_peer.PREFACE))
        goaways = [frame.code for frame in frames if frame.kind == "GOAWAY"]
        assert goaways == ([] if bench.code is None else [bench.code]), f"GOAWAY {goaways}, failed with {bench.code}"
    if bench.conn.failed is not None:
        assert not bench.conn.streams
        assert not bench.conn.waiting
    return bench.events, bench.code, out


def _answer(what: str, stream: Stream) -> None:
    """What a backend might do, decided by the stream's number."""
    if what == "request":
        stream.send_headers(encode(RESPONSE), stream.number % 3 == 0)
        stream.send_body(bytes(stream.number * 997 % 50_000), False)
    elif what in ("data", "headers"):
        if stream.number % 5 == 0:
            stream.reset(8)
        else:
            stream.send_headers(encode(TRAILERS), True)
