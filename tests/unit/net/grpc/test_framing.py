"""Messages, compression, timeouts and header blocks of gRPC."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose.net.grpc.framing import (
    Messages,
    decompress,
    format_timeout,
    frame,
    parse_timeout,
    request_headers,
    status_trailers,
    too_large,
)
from interpose.net.grpc.status import Code, RpcError


@given(st.lists(st.binary(max_size=50), max_size=6), st.integers(1, 20))
def test_messages_are_the_same_however_they_are_cut(messages: list[bytes], size: int) -> None:
    """Pieces of any size give the same messages, and nothing is left."""
    body = b"".join(map(frame, messages))
    reader = Messages(50)
    found = [item for at in range(0, len(body), size) for item in reader.feed(body[at : at + size])]
    assert found == [(False, message) for message in messages]
    assert not reader.unfinished


def test_unfinished_message_is_known() -> None:
    """Half a prefix is unfinished too."""
    reader = Messages(10)
    assert reader.feed(b"\x00\x00") == []
    assert reader.unfinished


def test_compressed_flag_is_told() -> None:
    """It belongs to the message, not to the call."""
    assert Messages(10).feed(b"\x01\x00\x00\x00\x01z" + frame(b"p")) == [(True, b"z"), (False, b"p")]


def test_message_over_the_limit_is_refused_by_its_prefix() -> None:
    """Before its bytes are there; a message of exactly the limit passes."""
    assert Messages(3).feed(frame(b"abc")) == [(False, b"abc")]
    with pytest.raises(RpcError, match="message of 4 bytes is over the limit of 3") as caught:
        Messages(3).feed(b"\x00\x00\x00\x00\x04")
    assert caught.value.code is Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("encoding", "data"),
    [(b"", b"text"), (b"identity", b"text"), (b"gzip", gzip.compress(b"text")), (b"deflate", zlib.compress(b"text"))],
)
def test_known_encodings(encoding: bytes, data: bytes) -> None:
    """Everything gRPC libraries send."""
    assert decompress(encoding, data, 4) == b"text"


def test_unknown_encoding_is_a_lookup_error() -> None:
    """Its name is in the message."""
    with pytest.raises(LookupError, match="'snappy'"):
        decompress(b"snappy", b"", 10)


@pytest.mark.parametrize(
    "data",
    [b"no gzip", gzip.compress(b"text")[:-12], b"", gzip.compress(b"a") + gzip.compress(b"b")],
    ids=["garbage", "cut", "empty", "two members"],
)
def test_broken_compression_is_internal(data: bytes) -> None:
    """Bytes that are no whole gzip stream are never taken for a message."""
    with pytest.raises(RpcError) as caught:
        decompress(b"gzip", data, 1000)
    assert caught.value.code is Code.INTERNAL


def test_bomb_is_stopped_at_the_limit() -> None:
    """The limit counts after decompression."""
    with pytest.raises(RpcError, match="over the limit of 1000"):
        decompress(b"gzip", gzip.compress(bytes(1_000_000)), 1000)
    assert too_large(5, 4).code is Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(b"1H", 3600.0), (b"2M", 120.0), (b"3S", 3.0), (b"4m", 0.004), (b"5u", 5e-6), (b"6n", 6e-9), (b"0S", 0.0)],
)
def test_timeout_units(text: bytes, seconds: float) -> None:
    """All units of the protocol."""
    assert parse_timeout(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", [b"", b"S", b"1", b"1x", b"-1S", b"1.5S", b"123456789S", b" 1S"])
def test_what_is_no_timeout(text: bytes) -> None:
    """Such a header means no deadline here; the runtime may judge it."""
    assert parse_timeout(text) is None


@given(st.floats(1e-9, 9e7))
def test_timeout_survives_the_wire(seconds: float) -> None:
    """At most eight digits, never longer than asked, and precise to a millionth."""
    text = format_timeout(seconds)
    assert len(text) <= 9
    read = parse_timeout(text)
    assert read is not None
    assert seconds * (1 - 2e-6) - 1e-9 <= read <= max(seconds, 1e-9) * (1 + 1e-9)


def test_header_blocks() -> None:
    """What we write contains what was asked for, as literal text."""
    block = request_headers(b"/a.B/C", ((b"x-key", b"value"),), 1.5)
    for text in (b"/a.B/C", b"localhost", b"application/grpc", b"trailers", b"x-key", b"value", b"1500000u"):
        assert text in block
    assert b"grpc-timeout" not in request_headers(b"/a.B/C")
    trailers = status_trailers(Code.NOT_FOUND, "ö", ((b"more", b"x"),))
    assert b"%C3%B6" in trailers
    assert b"more" in trailers
    assert b"grpc-message" not in status_trailers(Code.OK, "")
