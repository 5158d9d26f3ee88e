"""Making connections: names with several addresses, and words for what goes wrong."""

import asyncio
import errno
import socket
import ssl
from typing import Any

import pytest

from interpose.net.http.address import parse_server
from interpose.net.http.connect import CountingReader, describe, dial
from interpose.net.http.errors import UnreachableError
from tests.support.net.scripted_server import Peer, ScriptedServer


async def silent(peer: Peer) -> None:
    """Says hello and waits."""
    await peer.send(b"hello")
    await peer.gone()


def free_port() -> int:
    """One on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def resolve(monkeypatch: pytest.MonkeyPatch, *ports: int) -> None:
    """Give every name these ports on this machine as its addresses."""

    async def getaddrinfo(host: str, port: int, **_more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", each)) for each in ports]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)


async def test_second_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that does not answer is not the end; the connection notices when its peer vanishes."""
    async with ScriptedServer(silent) as server:
        resolve(monkeypatch, free_port(), server.port)
        reader, writer = await dial(parse_server("http://a:1"), None, timeout=5)
        sock = writer.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000
        assert await reader.read(100) == b"hello"
        assert reader.unread == 0
        writer.close()
        await writer.wait_closed()


async def test_no_address_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last refusal is told."""
    resolve(monkeypatch, free_port(), free_port())
    with pytest.raises(UnreachableError, match="http://a:1: connection refused"):
        await dial(parse_server("http://a:1"), None, timeout=5)


async def test_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told as what it is."""
    resolve(monkeypatch)
    with pytest.raises(UnreachableError, match="a has no address"):
        await dial(parse_server("http://a:1"), None, timeout=5)


async def test_address_that_swallows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets its share of the time, not all of it."""
    async with ScriptedServer(silent) as server:
        resolve(monkeypatch, 1, server.port)
        loop = asyncio.get_running_loop()
        connect = loop.sock_connect

        async def sock_connect(sock: socket.socket, address: Any) -> None:
            await (asyncio.Event().wait() if address[1] == 1 else connect(sock, address))

        monkeypatch.setattr(loop, "sock_connect", sock_connect)
        _reader, writer = await dial(parse_server("http://a:1"), None, timeout=0.4)
        writer.close()
        await writer.wait_closed()
        resolve(monkeypatch, 1)
        with pytest.raises(UnreachableError, match=r"http://a:1: no connection within 0\.1 s"):
            await dial(parse_server("http://a:1"), None, timeout=0.1)


async def test_what_is_unread_is_counted() -> None:
    """Bytes nobody has taken."""
    reader = CountingReader()
    reader.feed_data(b"abc")
    assert reader.unread == 3
    assert await reader.read(2) == b"ab"
    assert reader.unread == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (socket.gaierror(-2, "Name or service not known"), "the name cannot be resolved: Name or service not known"),
        (ConnectionRefusedError(), "connection refused"),
        (ConnectionResetError(), "the connection was reset"),
        (BrokenPipeError(), "the connection was reset"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "Network is unreachable"),
        (OSError("odd"), "odd"),
        (OSError(), "OSError"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x"), "TLS failed: "),
    ],
)
def test_words(error: Exception, text: str) -> None:
    """Each cause in words that somebody can act on."""
    assert describe(error).startswith(text)
