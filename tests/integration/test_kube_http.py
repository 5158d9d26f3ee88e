"""The HTTP client of the API server against a server that misbehaves byte by byte."""

import asyncio
import ssl
from collections.abc import Callable

import pytest

from interpose.net.http.address import parse_server
from interpose.net.http.client import HttpClient, HttpClientLimits, HttpRequest, Streams
from interpose.net.http.connect import dial
from interpose.net.http.errors import UnreachableError
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.net.scripted_server import Peer, ScriptedServer

GET = HttpRequest(method="GET", target="/x", headers=(("Host", "h"),), again=True)
POST = HttpRequest(method="POST", target="/x", headers=(("Host", "h"),), body=b"{}")


def client_of(
    server: ScriptedServer, *, limits: HttpClientLimits | None = None, clock: Callable[[], float] | None = None
) -> HttpClient:
    """A client without TLS."""

    async def connect(context: ssl.SSLContext | None) -> Streams:
        return await dial(parse_server(server.url), context, timeout=5)

    if clock is not None:
        return HttpClient(server.url, connect, limits=limits, clock=clock)
    return HttpClient(server.url, connect, limits=limits)


async def ask(client: HttpClient, request: HttpRequest = GET) -> tuple[int, bytes]:
    """Status and body."""
    async with client.send_request(request, None) as answer:
        return answer.status, await answer.read_all()


async def refused(client: HttpClient, request: HttpRequest = GET) -> str:
    """The text of the error."""
    with pytest.raises(UnreachableError) as caught:
        await ask(client, request)
    return str(caught.value)


async def echo(peer: Peer) -> None:
    """Answers every request."""
    while True:
        asked = await peer.request()
        await peer.answer(f"{asked.method} {peer.number}")


async def test_connection_is_used_again() -> None:
    """One connection serves one request after the other."""
    async with ScriptedServer(echo) as server:
        client = client_of(server)
        assert [await ask(client), await ask(client), await ask(client, POST)] == [
            (200, b"GET 1"),
            (200, b"GET 1"),
            (200, b"POST 1"),
        ]
        await client.close()
    assert server.connections == 1
    assert server.asked[2].body == b"{}"


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    """Nobody waits for another's answer; only as many connections as allowed are kept."""
    held = asyncio.Event()

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await held.wait()
            await peer.answer("done")

    async with ScriptedServer(script) as server:
        client = client_of(server, limits=HttpClientLimits(idle=1))
        calls = asyncio.gather(*(ask(client) for _ in range(3)))
        await eventually(lambda: len(server.asked) == 3, "three requests")
        held.set()
        assert await calls == [(200, b"done")] * 3
        assert len(client._idle) == 1
        await client.close()


async def test_closed_idle_connection_is_replaced() -> None:
    """A server that closes after each answer, without saying so, is no failure, for writing neither."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer(str(peer.number))

    async with ScriptedServer(script) as server:
        client = client_of(server)
        assert await ask(client, POST) == (200, b"1")
        await eventually(lambda: not client._idle[0][0].alive, "the end of the connection")
        assert await ask(client, POST) == (200, b"2")
        await client.close()


async def test_reading_is_tried_again_on_a_stale_connection() -> None:
    """The server gives up an idle connection in the moment in which we ask."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer("fine")
        if peer.number == 1:
            await peer.request()
            peer.reset()

    async with ScriptedServer(script) as server:
        client = client_of(server)
        assert await ask(client) == (200, b"fine")
        assert await ask(client) == (200, b"fine")
        await client.close()
    assert server.connections == 2


async def test_writing_is_never_sent_twice() -> None:
    """What may have been carried out is told as a failure."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer("fine")
        await peer.request()
        peer.reset()

    async with ScriptedServer(script) as server:
        client = client_of(server)
        await ask(client)
        assert "connection was" in await refused(client, POST)
        await client.close()
    assert server.connections == 1
    assert [asked.method for asked in server.asked] == ["GET", "POST"]


async def test_fresh_connection_that_breaks_is_a_failure() -> None:
    """A server that closes instead of answering is not asked for ever."""

    async def script(peer: Peer) -> None:
        await peer.request()

    async with ScriptedServer(script) as server:
        client = client_of(server)
        assert await refused(client) == f"{server.url}: the connection was closed instead of an answer"
        await client.close()
    assert server.connections == 1


async def test_words_nobody_asked_for_are_no_answer() -> None:
    """Some load balancers say 408 to an idle connection before they close it."""
    tired = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.answer("fine")
        if peer.number == 1:
            await tired.wait()
            await peer.answer("too slow", 408)
            await peer.gone()

    async with ScriptedServer(script) as server:
        client = client_of(server)
        await ask(client)
        assert client._idle[0][0].alive
        tired.set()
        await eventually(lambda: not client._idle[0][0].alive, "the 408")
        assert await ask(client) == (200, b"fine")
        await client.close()


async def test_bytes_after_an_answer_end_the_connection() -> None:
    """Who sends more than was asked for is not asked again on this connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n")
        await peer.gone()

    async with ScriptedServer(script) as server:
        client = client_of(server)
        assert await ask(client) == (200, b"ok")
        assert await ask(client) == (200, b"ok")
        await client.close()
    assert server.connections == 2


async def test_chunks_and_odd_cuts() -> None:
    """A body in chunks is put together wherever the bytes were cut; 1xx are passed over."""

    async def script(peer: Peer) -> None:
        await peer.request()
        wire = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        wire += b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        for byte in wire:
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)
        await peer.request()
        await peer.answer("again")

    async with ScriptedServer(script) as server:
        client = client_of(server)
        assert await ask(client) == (200, b"abcde")
        assert await ask(client) == (200, b"again")
        await client.close()
    assert server.connections == 1


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "closed in the middle of an answer"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf", "closed in the middle of an answer"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "closed in the middle of an answer"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000, "not HTTP as it should be"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not HTTP as it should be"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "not HTTP as it should be"),
        (b"HTTP/1.1 302 Found\r\nlocation: http://evil/\r\ncontent-length: 0\r\n\r\n", "leads to 'http://evil/'"),
    ],
    ids=["half body", "half chunk", "half head", "huge head", "ssh", "tls", "redirect"],
)
async def test_answers_that_are_none(wire: bytes, said: str) -> None:
    """Each is told with the address and the cause."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(wire)

    async with ScriptedServer(script) as server:
        client = client_of(server)
        text = await refused(client)
        await client.close()
    assert text.startswith(server.url)
    assert said in text


async def test_body_above_the_limit() -> None:
    """A list that never ends does not fill our memory."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.begin()
        while True:
            await peer.chunk(b"x" * 1000)

    async with ScriptedServer(script) as server:
        client = client_of(server, limits=HttpClientLimits(body=10_000))
        assert "larger than 10000 bytes" in await refused(client)
        await client.close()


async def test_answer_before_the_request_was_read_counts() -> None:
    """A server that refuses a large body and closes is understood."""

    async def script(peer: Peer) -> None:
        await peer.answer("too much", 413, connection="close")

    async with ScriptedServer(script) as server:
        client = client_of(server)
        assert await ask(client, POST) == (413, b"too much")
        await client.close()


async def test_connections_that_idle_too_long_are_closed() -> None:
    """By the next request, or by a timer if there is none."""
    now = 0.0
    async with ScriptedServer(echo) as server:
        client = client_of(server, limits=HttpClientLimits(idle_time=60.0), clock=lambda: now)
        await ask(client)
        now = 61.0
        assert await ask(client) == (200, b"GET 2")
        now = 200.0
        client._sweep()
        assert client._idle == []
        await client.close()


async def test_sweeping_keeps_what_was_used_lately() -> None:
    """The timer goes on while there is something to close later."""
    now = 0.0
    async with ScriptedServer(echo) as server:
        client = client_of(server, limits=HttpClientLimits(idle_time=60.0), clock=lambda: now)
        await ask(client)
        now = 20.0
        client._sweep()
        assert len(client._idle) == 1
        assert client._sweeper is not None
        await client.close()


async def test_answer_that_is_not_read_closes_its_connection() -> None:
    """The rest of it must not be taken for the next answer."""
    async with ScriptedServer(echo) as server:
        client = client_of(server)
        async with client.send_request(GET, None) as answer:
            assert answer.status == 200
        assert await ask(client) == (200, b"GET 2")
        await client.close()


async def test_cancelled_request_leaves_nothing() -> None:
    """The connection of a request that was given up is closed at once."""
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.gone()
        gone.set()

    async with ScriptedServer(script) as server:
        client = client_of(server)
        asking = asyncio.create_task(ask(client))
        await asyncio.wait_for(asked.wait(), WAIT_LIMIT)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(gone.wait(), WAIT_LIMIT)
        await client.close()
