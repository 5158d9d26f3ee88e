"""Write tests/data/h2corpus: named inputs that break HTTP/2, one file each.

Made for the limits in `tests.support.fuzz.h2`, so that floods stay small. Files that begin with `client_` are what a
broken backend sends; all others come from a broken client. What each has to lead to is said in
tests/unit/net/h2/test_corpus.py.
"""

import sys
from pathlib import Path

from outputs import ROOT, wants_check

from tests.support.fuzz.h2 import LIMITS
from tests.support.net import h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE
from tests.support.net.h2_peer import continuation, data, goaway, headers, ping, priority, raw, rst_stream, settings
from tests.support.net.hpack import Encoder, huffman, integer, string

from tests.support.net.h2_peer import push_promise, settings_ack, window_update  # isort: skip

FOLDER = ROOT / "tests/data/h2corpus"
HELLO = h2_peer.PREFACE + settings() + settings_ack()
CALL = Encoder().block(REQUEST, "plain")
ANSWER = Encoder().block(RESPONSE, "plain")
MANY = LIMITS.idle_frames + 1


def literal(name: bytes, value: bytes) -> bytes:
    """One plain field."""
    return Encoder().literal((name, value))


def bomb() -> bytes:
    """An entry of nearly the whole table, and a thousand references to it."""
    return Encoder().block([(b"bomb", b"x" * 1900)]) + b"\xbe" * 1000


def beginnings() -> dict[str, bytes]:
    """How a connection may go wrong before it has begun, or hang there."""
    return {
        "bad_preface": b"PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n" + settings(),
        "tls_hello": bytes.fromhex("16030100c8010000c40303") + bytes(190),
        "http1_get": b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "http1_post": b"POST /runtime.v1.RuntimeService/Version HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
        "first_frame_ping": h2_peer.PREFACE + ping(),
        "first_frame_settings_ack": h2_peer.PREFACE + settings_ack(),
        "slow_loris_preface": h2_peer.PREFACE[:20],
        "slow_loris_frame": HELLO + headers(1, CALL)[:-1],
        "slow_loris_block": HELLO + headers(1, CALL[:5], more=True),
    }


def frames() -> dict[str, bytes]:
    """Single frames that may not be."""
    opened = HELLO + headers(1, CALL)
    return {
        "oversized_data": opened + data(1, bytes(16_385)),
        "oversized_padded_data": opened + data(1, bytes(16_384), pad=0),
        "oversized_unknown": opened + raw(0x99, 0, 0, length=0xFFFFFF),
        "padding_too_long_data": opened + raw(0, 0x8, 1, b"\x05four"),
        "padding_too_long_headers": HELLO + raw(1, 0xC, 1, b"\xff" + CALL),
        "padding_missing": opened + raw(0, 0x8, 1),
        "headers_on_stream_0": HELLO + headers(0, CALL),
        "headers_on_even_stream": HELLO + headers(2, CALL),
        "headers_priority_cut_short": HELLO + raw(1, 0x24, 1, b"123"),
        "headers_depend_on_themselves": HELLO + headers(1, CALL, depends_on=1),
        "data_on_stream_0": opened + data(0, b"x"),
        "data_on_idle_stream": opened + data(3, b"x"),
        "rst_stream_on_idle_stream": opened + rst_stream(3),
        "rst_stream_wrong_size": opened + raw(3, 0, 1, b"123"),
        "window_update_on_idle_stream": opened + window_update(3, 1),
        "window_update_wrong_size": opened + raw(8, 0, 0, b"12345"),
        "window_update_zero": opened + window_update(0, 0),
        "window_update_zero_on_stream": opened + window_update(1, 0),
        "window_overflow": opened + window_update(0, 2**31 - 1),
        "window_overflow_on_stream": opened + window_update(1, 2**31 - 1),
        "window_overflow_by_settings": opened + window_update(1, 2**31 - 1 - 65_535) + settings((4, 2**31 - 1)),
        "window_exceeded": opened + b"".join(data(1, bytes(16_000)) for _ in range(3)),
        "priority_on_stream_0": opened + priority(0),
        "priority_wrong_size": opened + raw(2, 0, 1, b"1234"),
        "ping_on_stream": opened + raw(6, 0, 1, b"12345678"),
        "ping_wrong_size": opened + raw(6, 0, 0, b"1234567"),
        "goaway_on_stream": opened + raw(7, 0, 1, b"12345678"),
        "goaway_cut_short": opened + raw(7, 0, 0, b"1234567"),
        "push_promise": opened + push_promise(1, 2, CALL),
        "settings_on_stream": HELLO + raw(4, 0, 1),
        "settings_wrong_size": HELLO + raw(4, 0, 0, b"12345"),
        "settings_ack_with_payload": HELLO + raw(4, 1, 0, b"123456"),
        "settings_enable_push_2": HELLO + settings((2, 2)),
        "settings_window_too_large": HELLO + settings((4, 2**31)),
        "settings_frame_too_small": HELLO + settings((5, 16_383)),
        "settings_frame_too_large": HELLO + settings((5, 2**24)),
        "continuation_alone": opened + continuation(1, b""),
        "continuation_of_other_stream": HELLO + headers(1, b"", more=True) + continuation(3, CALL),
        "continuation_interrupted": HELLO + headers(1, b"", more=True) + ping() + continuation(1, CALL),
        "stream_limit": HELLO + b"".join(headers(2 * i + 1, CALL) for i in range(LIMITS.streams + 1)),
        "data_after_end": HELLO + headers(1, CALL, end=True) + data(1, b"x"),
        "headers_after_end": HELLO + headers(1, CALL, end=True) + headers(1, CALL, end=True),
        "trailers_without_end": opened + headers(1, literal(b"x", b"y")),
        "trailers_with_pseudo_fields": opened + headers(1, CALL, end=True),
    }


def blocks() -> dict[str, bytes]:
    """Header blocks that may not be."""
    broken = {
        "hpack_index_0": b"\x80",
        "hpack_index_out_of_range": b"\xc8",
        "hpack_name_index_out_of_range": b"\x7f\x20\x01x",
        "hpack_integer_overflow": b"\xff" + b"\xff" * 10 + b"\x01",
        "hpack_string_cut_short": b"\x00\x01x\x7f\x00short",
        "hpack_size_update_too_large": integer(4097, 5, 0x20),
        "hpack_size_update_after_field": b"\x82\x20",
        "hpack_huffman_eos": b"\x00\x01x\x84\xff\xff\xff\xff",
        "hpack_huffman_padding_zeros": b"\x00\x01x\x81\x18",
        "hpack_huffman_padding_long": b"\x00\x01x\x83" + huffman(b"aa") + b"\xff",
        "decompression_bomb": bomb(),
        "header_list_too_large": CALL + literal(b"big", b"x" * 3000),
        "request_without_path": literal(b":method", b"GET") + literal(b":scheme", b"http"),
        "request_with_empty_path": b"\x83\x86" + literal(b":path", b""),
        "request_with_two_methods": b"\x82" + CALL,
        "request_with_status": CALL + b"\x88",
        "request_with_late_pseudo_field": b"\x83\x86" + literal(b"x", b"y") + b"\x84",
        "request_with_upper_case": CALL + literal(b"Content-Type", b"x"),
        "request_with_connection": CALL + literal(b"connection", b"close"),
        "request_with_te_gzip": CALL + literal(b"te", b"gzip"),
        "request_with_newline": CALL + literal(b"x", b"a\r\nb: c"),
    }
    return {name: HELLO + headers(1, block, end=True) for name, block in broken.items()}


def floods() -> dict[str, bytes]:
    """Frames that are fine alone, but not in such numbers."""
    opened = HELLO + headers(1, CALL)
    numbers = range(1, 2 * LIMITS.resets + 3, 2)
    bad_call = literal(b"x", b"y")
    return {
        "flood_ping": opened + ping() * MANY,
        "flood_ping_ack": opened + ping(ack=True) * MANY,
        "flood_settings": opened + settings() * MANY,
        "flood_empty_data": opened + data(1) * MANY,
        "flood_padding_only_data": opened + data(1, pad=3) * MANY,
        "flood_priority": opened + priority(1) * MANY,
        "flood_unknown_frames": opened + raw(0x20, 0, 0) * MANY,
        "flood_goaway": opened + goaway(0) * MANY,
        "flood_continuation": HELLO + headers(1, b"", more=True) + continuation(1, bytes(10_000), more=True) * 3,
        "flood_small_continuation": HELLO + headers(1, b"", more=True) + continuation(1, b"", more=True) * MANY,
        "flood_late_data": opened + rst_stream(1) + data(1, b"x") * MANY,
        "flood_malformed_requests": HELLO + b"".join(headers(2 * i + 1, bad_call) for i in range(MANY)),
        "rapid_reset": HELLO + b"".join(headers(i, CALL) + rst_stream(i) for i in numbers),
        "made_you_reset": HELLO + b"".join(headers(i, CALL) + window_update(i, 0) for i in numbers),
    }


def costly() -> dict[str, bytes]:
    """What is allowed, or refused one by one, and makes a careless engine work far more than it says."""
    closed = h2_peer.PREFACE + settings((4, 0)) + settings_ack()
    waiting = closed + b"".join(headers(2 * i + 1, CALL, end=True) for i in range(LIMITS.streams))
    entry = CALL + Encoder().block([(b"x-large", b"v" * 1500)], coded=False)
    small = b"".join(literal(b"x-%d" % i, b"v") for i in range(400))
    pieces = [small[at : at + 70] for at in range(0, len(small), 70)]
    inserted = [b"\x40" + string(b"%x" % i) + string(b"v") for i in range(300)]
    return {
        "costly_connection_updates": waiting + window_update(0, 1) * 2000,
        "costly_stream_updates": waiting + b"".join(window_update(2 * i + 1, 1) for i in range(LIMITS.streams)) * 250,
        "costly_one_stream_updates": waiting + window_update(1, 1) * 2000,
        "costly_window_settings": waiting + settings(*[(4, 1), (4, 0)] * 1300),
        "costly_referenced_entry": HELLO
        + headers(1, entry, end=True)
        + b"".join(headers(i, CALL + b"\xbe", end=True) for i in range(3, 203, 2)),
        "costly_continuations": HELLO
        + headers(1, CALL, more=True)
        + b"".join(continuation(1, piece, more=True) for piece in pieces[:-1])
        + continuation(1, pieces[-1]),
        "costly_indexed_fields": HELLO + headers(1, CALL + b"\x90" * 10_000, end=True),
        "costly_insertions": HELLO + headers(1, CALL + b"".join(inserted), end=True),
        "costly_table_sizes": HELLO
        + b"".join(headers(i, b"\x20\x3f\xe1\x1f" + CALL + b"".join(inserted[:50]), end=True) for i in range(1, 41, 2)),
        "costly_huffman": HELLO + headers(1, CALL + b"\x00\x01x" + integer(1200, 7, 0x80) + b"\xff\xff\xff\xea" * 300),
        "costly_small_data": HELLO + headers(1, CALL) + data(1, b"x") * 3000,
        "costly_padded_data": HELLO + headers(1, CALL) + data(1, b"x", pad=200) * 150,
        "costly_refused_streams": HELLO + b"".join(headers(i, CALL) for i in range(1, 151, 2)),
        "costly_resets_in_one_read": HELLO + b"".join(headers(i, CALL) + rst_stream(i) for i in range(1, 59, 2)),
        "costly_trailers": HELLO
        + b"".join(headers(i, CALL) + headers(i, literal(b"x", b"y"), end=True) for i in range(1, 15, 2)),
    }


def from_backends() -> dict[str, bytes]:
    """What a broken backend may send to calls 1 to 7."""
    hello = settings()
    return {
        "client_http1_answer": b"HTTP/1.1 400 Bad Request\r\n\r\n",
        "client_first_frame_ping": ping(),
        "client_push_promise": hello + push_promise(1, 2, CALL),
        "client_headers_on_stream_0": hello + headers(0, ANSWER),
        "client_headers_on_even_stream": hello + headers(2, ANSWER),
        "client_headers_on_idle_stream": hello + headers(99, ANSWER),
        "client_data_before_headers": hello + data(1, b"x"),
        "client_request_as_answer": hello + headers(1, CALL),
        "client_interim_with_end": hello + headers(1, literal(b":status", b"100"), end=True),
        "client_bad_status": hello + headers(1, literal(b":status", b"2xx")),
        "client_oversized_answer": hello + headers(1, ANSWER + literal(b"big", b"x" * 3000)),
        "client_hpack_broken": hello + headers(1, b"\xff\xff\xff\xff\xff\xff\xff"),
        "client_window_overflow": hello + window_update(0, 2**31 - 1) * 2,
        "client_flood_ping": hello + ping() * MANY,
    }


def corpus() -> dict[str, bytes]:
    """Everything, by name."""
    return beginnings() | frames() | blocks() | floods() | costly() | from_backends()


def main() -> int:
    """Write the files, or with --check say which differ; files nobody makes are removed or named."""
    check = wants_check(__doc__ or "")
    fresh = {FOLDER / f"{name}.bin": content for name, content in corpus().items()}
    stale = [path for path in FOLDER.glob("*.bin") if path not in fresh]
    differing = [path for path, content in fresh.items() if not path.exists() or path.read_bytes() != content]
    for path in stale + differing:
        if check:
            print(f"{path.relative_to(ROOT)} is not what tools/gen_h2_corpus.py makes", file=sys.stderr)
        else:
            settle(path, fresh.get(path))
    return 1 if check and stale + differing else 0


def settle(path: Path, content: bytes | None) -> None:
    """Write one file, or remove it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
