"""Servers of tests: connections are served, and closed at the end."""

import asyncio
import contextlib
import gc
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.net.certificates import Authority, write_pair
from tests.support.net.stream_server import StreamServer


async def echo_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Give back one line."""
    writer.write(await reader.readline())
    await writer.drain()


@pytest.fixture
async def server() -> AsyncIterator[StreamServer]:
    """Not started yet."""
    made = StreamServer(echo_once, name="echo")
    yield made
    await made.stop()


async def _rest(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(-1), WAIT_LIMIT)


async def test_a_connection_is_closed_when_it_is_served(server: StreamServer) -> None:
    """What was written still goes out."""
    reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
    writer.write(b"hello\n")
    assert await _rest(reader) == b"hello\n"
    writer.close()
    await writer.wait_closed()


async def test_it_starts_again_on_the_same_port(server: StreamServer) -> None:
    """And takes nobody in between."""
    port = await server.start()
    await server.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert await server.start(port=port) == port


async def test_stopping_breaks_connections(server: StreamServer) -> None:
    """Those that are served; their clients see the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
    writer.write(b"no line")
    await server.stop()
    with contextlib.suppress(ConnectionError):
        assert await _rest(reader) == b""
    writer.close()


async def test_a_connection_that_nobody_has_looked_at_is_closed(server: StreamServer) -> None:
    """It was accepted in the same turn of the loop in which the server stops."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        with socket.create_connection(("127.0.0.1", await server.start())) as client:
            assert server._listening is not None
            server._accept(server._listening, None)
            await server.stop()
            client.settimeout(WAIT_LIMIT)
            assert client.recv(1) == b""
        gc.collect()
    assert [str(one.message) for one in caught] == []


async def test_a_server_that_stops_at_the_end_of_a_handshake(
    server: StreamServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is there, and the task that waits for it ends instead of serving it."""
    authority = Authority()
    write_pair(tmp_path, authority.issue("127.0.0.1"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    stopped: list[asyncio.Task[None]] = []
    made = asyncio.StreamReaderProtocol.connection_made

    def stop_too(protocol: asyncio.StreamReaderProtocol, transport: asyncio.BaseTransport) -> None:
        made(protocol, transport)
        if not stopped:
            stopped.append(asyncio.get_running_loop().create_task(server.stop(), name="stop"))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        port = await server.start(tls=tls)
        with socket.create_connection(("127.0.0.1", port)) as client:
            monkeypatch.setattr(asyncio.StreamReaderProtocol, "connection_made", stop_too)
            trusting = ssl.create_default_context(cadata=authority.pem)
            secure = await asyncio.to_thread(trusting.wrap_socket, client, server_hostname="127.0.0.1")
            await eventually(lambda: bool(stopped), "the end of the handshake")
            await stopped[0]
            secure.close()
        await asyncio.sleep(0)
        gc.collect()
    assert [str(one.message) for one in caught] == []
