"""A server of ours that ends: clients lose no call that they sent before they knew."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.net.grpc.framing import frame
from interpose.net.grpc.handlers import ServerContext, Unary
from interpose.net.grpc.server import LocalServer, serve
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.net import h2_peer
from tests.support.net.h2_bench import REQUEST
from tests.support.net.hpack import Encoder

PATH = dict(REQUEST)[b":path"]
DRAINING = h2_peer.ping(b"draining")
SEEN = h2_peer.ping(b"draining", ack=True)


async def _answer(message: bytes, _context: ServerContext) -> bytes:
    return b"answer to " + message


@pytest.fixture
async def server(runtime_path: Path) -> AsyncIterator[LocalServer]:
    """One that answers at once."""
    served = await serve(runtime_path, {PATH: Unary(_answer)})
    yield served
    await served.close()


class Client:
    """A client on whose frames nothing is done by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._encoder = Encoder()
        self._read = b""

    def send(self, *frames: bytes) -> None:
        """Send frames."""
        self._writer.write(b"".join(frames))

    def headers(self) -> bytes:
        """The beginning of the first call."""
        return h2_peer.headers(1, self._encoder.block(REQUEST, "plain"))

    async def until(self, awaited: bytes) -> None:
        """Read until this frame has come."""
        while awaited not in self._read:
            received = await asyncio.wait_for(self._reader.read(65536), WAIT_LIMIT)
            assert received, "the server has closed the connection"
            self._read += received

    async def arrived(self) -> None:
        """Wait until the server has read all that was sent."""
        self.send(h2_peer.ping(b"arrived?"))
        await self.until(h2_peer.ping(b"arrived?", ack=True))

    async def replies(self) -> list[bytes]:
        """Read to the end of the connection: the messages in it."""
        self._read += await asyncio.wait_for(self._reader.read(-1), WAIT_LIMIT)
        self._writer.close()
        return [found.payload for found in h2_peer.read_frames(self._read) if found.kind == "DATA" and found.payload]


async def connect(server: LocalServer, path: Path) -> Client:
    """A client that the server has accepted."""
    client = Client(*await asyncio.open_unix_connection(str(path)))
    client.send(h2_peer.PREFACE, h2_peer.settings(), h2_peer.settings_ack())
    await client.arrived()
    assert len(server.listener.links) == 1
    return client


async def test_a_call_on_its_way_is_answered(server: LocalServer, runtime_path: Path) -> None:
    """The client sent it before it read GOAWAY."""
    client = await connect(server, runtime_path)
    ending = asyncio.create_task(server.drain(WAIT_LIMIT))
    await client.until(DRAINING)
    client.send(client.headers(), h2_peer.data(1, frame(b"a call"), end=True), SEEN)
    assert await client.replies() == [frame(b"answer to a call")]
    assert await ending


async def test_a_request_that_has_begun_is_waited_for(server: LocalServer, runtime_path: Path) -> None:
    """Its headers came, its message comes when the server is ending."""
    client = await connect(server, runtime_path)
    client.send(client.headers())
    await client.arrived()
    ending = asyncio.create_task(server.drain(WAIT_LIMIT))
    await client.until(DRAINING)
    client.send(SEEN)
    client.send(h2_peer.data(1, frame(b"a call"), end=True))
    assert await client.replies() == [frame(b"answer to a call")]
    assert await ending


async def test_a_request_that_does_not_end(server: LocalServer, runtime_path: Path) -> None:
    """It is cut at the end of the grace, and the server says so."""
    client = await connect(server, runtime_path)
    client.send(client.headers())
    await client.arrived()
    assert not await server.drain(0.05)
    assert await client.replies() == []
