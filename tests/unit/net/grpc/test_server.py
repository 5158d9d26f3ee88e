"""Errors of local handlers as clients see them."""

import asyncio

import pytest

from interpose.net.grpc.framing import frame
from interpose.net.grpc.handlers import ServerContext, Unary
from interpose.net.grpc.server import LocalServer
from interpose.net.grpc.status import Code, RpcError, unquote_message
from tests.support.net import h2_bench, h2_peer

PATH = dict(h2_bench.REQUEST)[b":path"]


async def outcome(server: LocalServer, path: bytes = PATH, message: bytes = b"") -> dict[bytes, bytes]:
    """The fields that a call ends with."""
    bench = h2_bench.server()
    bench.conn.accept = server._open
    request = [(name, path if name == b":path" else value) for name, value in h2_bench.REQUEST]
    bench.feed(bench.request(1, request))
    if 1 in bench.conn.streams:
        bench.feed(h2_peer.data(1, frame(message), end=True))
    await asyncio.sleep(0)
    await server._tasks.wait_finished(5)
    wire = b"".join(frame.payload for frame in bench.frames("HEADERS", "CONTINUATION"))
    await server.close()
    return {field[0]: field[1] for field in bench.decoder.decode(wire)}


@pytest.mark.parametrize("letter", ["x", "ö", "\n", "%", "☃"])
async def test_a_long_message_is_cut(letter: str) -> None:
    """Its code arrives: with more than a few KiB of trailers a client would see another. What else it has stays."""

    async def fail(_message: bytes, _context: ServerContext) -> bytes:
        raise RpcError(Code.NOT_FOUND, letter * 100_000, ((b"x-more", b"1"),))

    fields = await outcome(LocalServer({PATH: Unary(fail)}))
    assert (fields[b"grpc-status"], fields[b"x-more"]) == (b"5", b"1")
    assert 4096 - 20 < len(fields[b"grpc-message"]) <= 4096
    said = unquote_message(fields[b"grpc-message"])
    assert said == letter * (len(said) - 3) + "..."


async def test_a_short_message_arrives_as_it_is() -> None:
    """To the last character that fits."""

    async def fail(_message: bytes, _context: ServerContext) -> bytes:
        raise RpcError(Code.NOT_FOUND, "x" * 4096)

    assert (await outcome(LocalServer({PATH: Unary(fail)})))[b"grpc-message"] == b"x" * 4096


async def test_a_long_name_of_a_method_is_cut() -> None:
    """It is somebody's words, too."""
    fields = await outcome(LocalServer({}), b"/a.B/" + b"x" * 6000)
    assert fields[b"grpc-status"] == b"12"
    assert len(fields[b"grpc-message"]) == 4096
