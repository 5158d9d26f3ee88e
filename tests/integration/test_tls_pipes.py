"""Pipes with TLS on the product's loop."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from interpose.net.httpd.transports import StreamPipe, accept_tls
from tests.support.net.certificates import CERTIFICATE, KEY, Authority, write_pair

AUTHORITY = Authority()


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    """What a server goes by."""
    write_pair(tmp_path, AUTHORITY.issue())
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(tmp_path / CERTIFICATE, tmp_path / KEY)
    return made


def connected() -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection, that of the server first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    for sock in (server, client):
        sock.setblocking(False)
    return server, client


async def _greet(context: ssl.SSLContext) -> tuple[StreamPipe, asyncio.StreamReader, asyncio.StreamWriter]:
    server, client = connected()
    trusting = ssl.create_default_context(cadata=AUTHORITY.pem)
    pipe, (reader, writer) = await asyncio.gather(
        accept_tls(server, context, timeout=5.0),
        asyncio.open_connection(sock=client, ssl=trusting, server_hostname="localhost"),
    )
    return pipe, reader, writer


async def test_bytes_travel_through_tls(context: ssl.SSLContext) -> None:
    """Both ways, more than any buffer holds; at the end the other side sees the end."""
    pipe, reader, writer = await _greet(context)
    assert (pipe.raw, pipe.peer, pipe.certified) == (None, None, False)
    writer.write(b"question")
    assert await pipe.recv(100) == b"question"
    sending = asyncio.create_task(pipe.send_all(b"x" * 5_000_000))
    assert len(await reader.readexactly(5_000_000)) == 5_000_000
    await sending
    pipe.finish()
    closing = asyncio.create_task(pipe.close())
    assert await reader.read() == b""
    writer.close()
    await closing


async def test_sending_waits_for_a_client_that_does_not_read(context: ssl.SSLContext) -> None:
    """Else no time limit would ever end it, and the answer would stay in memory."""
    server, client = connected()
    client.setblocking(True)
    trusting = ssl.create_default_context(cadata=AUTHORITY.pem)
    pipe, stopped = await asyncio.gather(
        accept_tls(server, context, timeout=5.0),
        asyncio.to_thread(trusting.wrap_socket, client, server_hostname="localhost"),
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await pipe.send_all(b"x" * 100_000_000)
    stopped.close()
    await pipe.close()


async def test_a_client_that_speaks_no_tls_is_no_pipe(context: ssl.SSLContext) -> None:
    """The socket is closed."""
    server, client = connected()
    client.send(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(OSError):
        await accept_tls(server, context, timeout=5.0)
    client.close()


async def test_a_client_that_says_nothing_is_no_pipe(context: ssl.SSLContext) -> None:
    """After its time."""
    server, client = connected()
    with pytest.raises((OSError, TimeoutError)):
        await accept_tls(server, context, timeout=0.02)
    client.close()
