"""Collecting a reply, and what it means."""

import gzip

import pytest

from interpose.net.grpc.exchange import Exchange, RawReply, plain, status_of
from interpose.net.grpc.framing import frame
from interpose.net.grpc.status import Code, RpcError
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.headers import Headers, encode, make_field
from tests.support.lifetimes import lets_go
from tests.support.net import h2_bench, h2_peer
from tests.support.net.h2_bench import RESPONSE, TRAILERS, Bench


def block(*pairs: tuple[bytes, bytes]) -> Headers:
    """A decoded header block."""
    return Headers([make_field(name, value) for name, value in pairs], 0)


def begin(limit: int = 1000) -> tuple[Bench[ClientConnection], Exchange]:
    """A call that waits for its reply."""
    bench = h2_bench.client()
    exchange = Exchange(limit)
    bench.conn.open(exchange, encode(h2_bench.REQUEST), True)
    bench.bytes_out()
    return bench, exchange


async def test_whole_reply() -> None:
    """Headers, body and trailers, kept apart."""
    bench, exchange = begin()
    bench.feed(bench.response(1), h2_peer.data(1, frame(b"re")[:3]), h2_peer.data(1, frame(b"re")[3:]))
    assert not exchange.reply.done()
    bench.feed(bench.response(1, TRAILERS, end=True))
    reply = exchange.reply.result()
    assert (reply.status, reply.message(10)) == (None, b"re")
    assert reply.headers is not None
    assert reply.headers.items() == RESPONSE


async def test_trailers_only() -> None:
    """A status without a body."""
    bench, exchange = begin()
    bench.feed(bench.response(1, [*RESPONSE, (b"grpc-status", b"5"), (b"grpc-message", b"no"), (b"x", b"y")], end=True))
    reply = exchange.reply.result()
    assert (reply.headers, reply.body) == (None, b"")
    with pytest.raises(RpcError, match="NOT_FOUND: no") as caught:
        reply.message(10)
    assert (b"x", b"y") in caught.value.trailers


async def test_body_over_the_limit_is_given_up() -> None:
    """The backend is told to stop, the caller why."""
    bench, exchange = begin(limit=10)
    bench.feed(bench.response(1), h2_peer.data(1, bytes(11)))
    status = exchange.reply.result().status
    assert status is not None
    assert status.code is Code.RESOURCE_EXHAUSTED
    assert [frame.code for frame in bench.frames("RST_STREAM")] == [8]


async def test_reset_and_loss() -> None:
    """Each has its code; a later event changes nothing."""
    bench, exchange = begin()
    bench.feed(h2_peer.rst_stream(1, 7))
    status = exchange.reply.result().status
    assert status is not None
    assert status.code is Code.UNAVAILABLE
    bench, exchange = begin()
    bench.conn.lost()
    status = exchange.reply.result().status
    assert status is not None
    assert (status.code, status.message) == (Code.UNAVAILABLE, "connection to the runtime was lost")


async def test_body_that_ends_without_trailers_has_the_http_status() -> None:
    """The reply is HTTP and not gRPC, so its HTTP status decides."""
    bench, exchange = begin()
    bench.feed(bench.response(1, [(b":status", b"503")]), h2_peer.data(1, b"sorry", end=True))
    status = exchange.reply.result().status
    assert status is not None
    assert status.code is Code.UNAVAILABLE


@pytest.mark.parametrize("body", [b"", frame(b"a") + frame(b"b"), b"\x00\x00"], ids=["none", "two", "half"])
def test_reply_without_exactly_one_message_is_internal(body: bytes) -> None:
    """An OK status alone is no message."""
    with pytest.raises(RpcError) as caught:
        RawReply(block(*RESPONSE), body, block(*TRAILERS)).message(10)
    assert caught.value.code is Code.INTERNAL


def test_compressed_reply() -> None:
    """Unpacked as its headers say; an encoding nobody knows is UNIMPLEMENTED."""
    packed = gzip.compress(b"text", mtime=0)
    assert plain(block((b"grpc-encoding", b"gzip")), True, packed, 10) == b"text"
    assert plain(None, False, b"text", 10) == b"text"
    with pytest.raises(RpcError) as caught:
        plain(block((b"grpc-encoding", b"odd")), True, packed, 10)
    assert caught.value.code is Code.UNIMPLEMENTED


def test_status_of_a_block() -> None:
    """OK is None; nothing at all is INTERNAL."""
    assert status_of(block(*TRAILERS)) is None
    missing = status_of(None)
    assert missing is not None
    assert missing.code is Code.INTERNAL


async def test_error_of_a_reply_keeps_nobody() -> None:
    """Whoever made the call may have a large request."""
    reply = RawReply(headers=None, body=b"", trailers=block((b"grpc-status", b"5")))

    async def fail() -> None:
        reply.message(10)

    assert await lets_go(fail, RpcError)
