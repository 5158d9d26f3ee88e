"""The streaming server and clients that are not ours: raw bytes, old protocols, and those that mean no good."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from interpose.net.streaming.byte_transport import TcpTransport
from interpose.net.streaming.channels import PORT_FORWARD, TUNNEL, V1, V2, V3, V4, V5, message
from interpose.net.streaming.handler import TooManyRequestsError
from interpose.net.streaming.limits import StreamLimits
from interpose.net.streaming.mux import Channel, ChannelOutcome, MultiplexerLostError
from interpose.net.streaming.mux_transports import SpdyMultiplexer
from interpose.net.streaming.server import StreamServer
from interpose.net.streaming.upgrade import spdy_request, websocket_request
from interpose.net.websocket import WebSocket, WebSocketClosed, WebSocketEvent
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.net.fake_stream_handler import FakeStreamHandler

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="


@pytest.fixture
def handler() -> FakeStreamHandler:
    return FakeStreamHandler()


@pytest.fixture
async def server(handler: FakeStreamHandler) -> AsyncIterator[StreamServer]:
    """With little patience."""
    running = StreamServer(handler, limits=StreamLimits(head=0.3, creation=0.3, linger=0.3, outstanding=5))
    await running.start()
    yield running
    await running.close()


def target(url: str) -> str:
    """The path in a URL."""
    return "/" + url.split("/", 3)[3]


@asynccontextmanager
async def connected(server: StreamServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer(server: StreamServer, request: bytes) -> str:
    """All that the server says to these bytes."""
    async with connected(server) as (reader, writer):
        writer.write(request)
        return (await reader.read()).decode()


async def upgraded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> str:
    """The head of the answer, which must agree."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    assert head.startswith("HTTP/1.1 101 "), head
    return head


@asynccontextmanager
async def spdy(server: StreamServer, url: str, *versions: str) -> AsyncIterator[SpdyMultiplexer]:
    """A client that opens streams by itself."""
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, spdy_request(target(url), "x", versions))
        link = SpdyMultiplexer(TcpTransport(reader, writer), client=True)
        link.start()
        try:
            yield link
        finally:
            await link.close()


async def all_of(channel: Channel) -> bytes:
    """To the end."""
    data = b""
    while piece := await channel.read():
        data += piece
    return data


def exec_url(server: StreamServer, *command: str, stdin: bool = False) -> str:
    return server.exec_url("c1", command, False, stdin, True, False)


@pytest.mark.parametrize("path", ["/", "/exec/", "/exec/abcdefgh", "/metrics", "/exec", "//exec/abcdefgh"])
async def test_there_is_nothing_but_what_was_asked_for(server: StreamServer, path: str) -> None:
    """Every other path is not found."""
    assert (await answer(server, spdy_request(path, "x", [V4]))).startswith("HTTP/1.1 404 ")


async def test_a_token_is_for_its_place(server: StreamServer) -> None:
    """One for exec is none for attach, and is still good for exec then."""
    url = exec_url(server, "exit", "0")
    wrong = target(url).replace("exec", "attach")
    assert (await answer(server, spdy_request(wrong, "x", [V4]))).startswith("HTTP/1.1 404 ")
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, spdy_request(target(url), "x", [V4]))


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", 400, "Connection: Upgrade"),
        ("DELETE {} HTTP/1.1\r\nHost: x\r\n\r\n", 405, "DELETE"),
        ("GET {} HTTP/1.1\r\nHost: x\n\n", 400, "CR"),
        ("GET {} HTTP/1.1\r\nX: " + "y" * 70_000, 431, "longer than"),
        ("GET {} HTTP/1.1\r\n", 408, "no request came"),
        (websocket_request("{}", "x", ["v4.base64.channel.k8s.io"], KEY).decode(), 403, "base64 is not spoken"),
        (spdy_request("{}", "x", ["v9"]).decode(), 403, "X-Accepted-Stream-Protocol-Versions: v4.channel.k8s.io"),
    ],
    ids=["no upgrade", "method", "line ends", "long", "slow", "base64", "version"],
)
async def test_what_cannot_be_served_is_refused_with_a_reason(
    server: StreamServer, request_: str, status: int, words: str
) -> None:
    """And does not use up the token."""
    url = exec_url(server, "exit", "0")
    said = await answer(server, request_.replace("{}", target(url)).encode())
    assert said.startswith(f"HTTP/1.1 {status} ")
    assert words in said
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, spdy_request(target(url), "x", [V4]))


async def test_too_many_urls_are_refused(server: StreamServer) -> None:
    """Before they cost memory."""
    for _ in range(5):
        exec_url(server, "exit", "0")
    with pytest.raises(TooManyRequestsError):
        exec_url(server, "exit", "0")


async def test_urls_have_short_random_tokens(server: StreamServer) -> None:
    """8 characters that need no escapes."""
    tokens = {exec_url(server, "exit", "0").rpartition("/")[2] for _ in range(5)}
    assert len(tokens) == 5
    assert all(len(token) == 8 and token.replace("-", "a").replace("_", "a").isalnum() for token in tokens)


@pytest.mark.parametrize("version", [V1, V2, V3])
async def test_old_clients_get_words_instead_of_a_document(server: StreamServer, version: str) -> None:
    """And nothing at all for a good end."""
    for code, words in (("0", b""), ("4", b"command terminated with non-zero exit code: 4")):
        async with spdy(server, exec_url(server, "exit", code), version) as link:
            error = await link.open({"streamType": "error"})
            await link.open({"streamType": "stdout"})
            assert (await all_of(error), error.end) == (words, ChannelOutcome.FINISHED)


async def test_streams_that_nobody_asked_for_are_refused(server: StreamServer) -> None:
    """The others are served."""
    async with spdy(server, exec_url(server, "echo", "hi"), V4) as link:
        error = await link.open({"streamType": "error"})
        for kind in ("error", "stdin", "nonsense"):
            with pytest.raises(MultiplexerLostError):
                await link.open({"streamType": kind})
        out = await link.open({"streamType": "stdout"})
        assert await all_of(out) == b"hi\n"
        assert b"Success" in await all_of(error)


async def test_streams_that_come_later_are_refused(server: StreamServer, handler: FakeStreamHandler) -> None:
    """Nobody would ever read what comes on them."""
    async with spdy(server, exec_url(server, "hang"), V4) as link:
        for kind in ("error", "stdout"):
            await link.open({"streamType": kind})
        await handler.hanging.wait()
        tasks = [asyncio.ensure_future(_refused(link)) for _ in range(20)]
        # A few may wait for an answer that does not come.
        await eventually(lambda: sum(task.done() and task.result() for task in tasks) >= 15, "streams to be refused")
        for task in tasks:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert False not in answers


async def _refused(link: SpdyMultiplexer) -> bool:
    try:
        await link.open({"streamType": "more"})
    except MultiplexerLostError:
        return True
    return False


async def test_a_client_that_opens_no_streams_is_left(server: StreamServer, handler: FakeStreamHandler) -> None:
    """Nothing was started for it."""
    async with spdy(server, exec_url(server, "hang"), V4) as link:
        await link.open({"streamType": "error"})
        await asyncio.wait_for(link.lost.wait(), WAIT_LIMIT)
    assert handler.calls == []


@pytest.mark.parametrize("rubbish", [b"\xff" * 100, b"GET / HTTP/1.1\r\n\r\n" * 100, os.urandom(5000)])
@pytest.mark.parametrize("ask", [spdy_request, websocket_request], ids=["spdy", "websocket"])
async def test_rubbish_ends_the_session(
    server: StreamServer, rubbish: bytes, ask: object, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing else: no error in the log, no connection left."""
    url = target(exec_url(server, "hang"))
    request = spdy_request(url, "x", [V4]) if ask is spdy_request else websocket_request(url, "x", [V5], KEY)
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, request)
        writer.write(rubbish)
        with pytest.raises(asyncio.IncompleteReadError):
            await reader.readexactly(1 << 20)
    await eventually(lambda: not server.sessions, "the session to end")
    assert [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []


async def repeat(writer: asyncio.StreamWriter, data: bytes, times: int) -> None:
    for _ in range(times):
        writer.write(data)
        await writer.drain()


async def websocket_events(reader: asyncio.StreamReader, socket: WebSocket) -> AsyncIterator[WebSocketEvent]:
    while data := await reader.read(65536):
        for event in socket.receive(data):
            yield event


async def test_a_client_that_asks_and_does_not_listen_is_left(server: StreamServer, handler: FakeStreamHandler) -> None:
    """Answers to pings do not pile up in memory."""
    url = target(exec_url(server, "hang"))
    socket = WebSocket(client=True, random=os.urandom)
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, websocket_request(url, "x", [V5], KEY))
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        socket.ping(bytes(125))
        ping = socket.take() * 1000
        with pytest.raises(ConnectionError):
            await repeat(writer, ping, 1000)
    await handler.cancelled.wait()


@pytest.mark.parametrize("rude", [False, True])
async def test_a_client_that_vanishes_is_noticed_while_nobody_reads_it(
    server: StreamServer, handler: FakeStreamHandler, monkeypatch: pytest.MonkeyPatch, rude: bool
) -> None:
    """A command that does not take its input does not keep a dead client's session alive."""
    monkeypatch.setattr("interpose.net.streaming.mux._PEER_CHECK_INTERVAL", 0.05)
    looked = asyncio.Event()  # which is done only when reading stands still
    is_gone = TcpTransport.is_gone

    def watched(wire: TcpTransport) -> bool:
        looked.set()
        return is_gone(wire)

    monkeypatch.setattr(TcpTransport, "is_gone", watched)
    url = target(exec_url(server, "hang", stdin=True))
    socket = WebSocket(client=True, random=os.urandom)
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, websocket_request(url, "x", [V5], KEY))
        socket.message(message(0, bytes(600_000)))
        writer.write(socket.take())
        await looked.wait()
        assert not handler.cancelled.is_set()
        if not rude:
            writer.close()
            await writer.wait_closed()
    await asyncio.wait_for(handler.cancelled.wait(), WAIT_LIMIT)


async def test_a_close_of_the_client_is_answered(server: StreamServer, handler: FakeStreamHandler) -> None:
    """As WebSocket wants it."""
    url = target(exec_url(server, "hang"))
    socket = WebSocket(client=True, random=os.urandom)
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, websocket_request(url, "x", [V5], KEY))
        await handler.hanging.wait()
        socket.close(1000)
        writer.write(socket.take())
        events = [event async for event in websocket_events(reader, socket)]
    assert events[-1] == WebSocketClosed(1000, "")


@pytest.mark.parametrize(
    "headers",
    [
        {"streamType": "data"},
        {"streamType": "data", "port": "0"},
        {"streamType": "data", "port": "65536"},
        {"streamType": "data", "port": "-1"},
        {"streamType": "data", "port": "1" * 5000},
        {"streamType": "stdin", "port": "80"},
    ],
)
async def test_streams_without_a_right_port_are_refused(server: StreamServer, headers: dict[str, str]) -> None:
    """The session goes on."""
    async with spdy(server, server.port_forward_url("s1", ()), PORT_FORWARD) as link:
        with pytest.raises(MultiplexerLostError, match="refused"):
            await link.open(headers)
        await link.open({"streamType": "error", "port": "80", "requestID": "1"})


async def test_a_stream_without_a_partner_is_refused_in_the_end(server: StreamServer) -> None:
    """And a second one of the same kind at once."""
    async with spdy(server, server.port_forward_url("s1", ()), PORT_FORWARD) as link:
        lonely = await link.open({"streamType": "error", "port": "80", "requestID": "1"})
        with pytest.raises(MultiplexerLostError, match="refused"):
            await link.open({"streamType": "error", "port": "80", "requestID": "1"})
        assert (await lonely.read(), lonely.end) == (b"", ChannelOutcome.RESET)


@pytest.mark.parametrize("port", ["000001" + "1" * 5000, "00000180000", "70000", "0", "x"])
async def test_a_stream_for_no_port_is_refused_and_the_session_goes_on(
    server: StreamServer, unused_tcp_port: int, port: str
) -> None:
    """The next streams are served."""
    async with spdy(server, server.port_forward_url("s1", ()), PORT_FORWARD) as link:
        for kind in ("error", "data"):
            with pytest.raises(MultiplexerLostError, match="refused"):
                await link.open({"streamType": kind, "port": port, "requestID": "1"})
        good = f"000{unused_tcp_port}"
        error = await link.open({"streamType": "error", "port": good, "requestID": "1"})
        await link.open({"streamType": "data", "port": str(unused_tcp_port), "requestID": "1"})
        assert b"nobody listens" in await all_of(error)


async def test_very_old_clients_pair_streams_by_their_numbers(server: StreamServer, unused_tcp_port: int) -> None:
    """The error stream comes just before the data stream."""
    async with spdy(server, server.port_forward_url("s1", ()), PORT_FORWARD) as link:
        port = str(unused_tcp_port)
        error = await link.open({"streamType": "error", "port": port})
        await link.open({"streamType": "data", "port": port})
        assert b"nobody listens" in await all_of(error)


async def test_plain_channels_need_ports_that_are_known_before(server: StreamServer) -> None:
    """A request that named none can be served otherwise only."""
    url = target(server.port_forward_url("s1", ()))
    assert "the request named none" in await answer(server, websocket_request(url, "x", [V4], KEY))
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, websocket_request(url, "x", [TUNNEL], KEY))


async def test_plain_channels_have_numbers_for_so_many_ports(server: StreamServer, unused_tcp_port: int) -> None:
    """More are refused, and can be had otherwise; the most that there may be are served."""
    url = target(server.port_forward_url("s1", (unused_tcp_port,) * 128))
    said = await answer(server, websocket_request(url, "x", [V4], KEY))
    assert said.startswith("HTTP/1.1 400 ")
    assert "go 127 ports, the request named 128" in said
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, websocket_request(url, "x", [TUNNEL], KEY))
    url = target(server.port_forward_url("s1", (unused_tcp_port,) * 127))
    async with connected(server) as (reader, writer):
        await upgraded(reader, writer, websocket_request(url, "x", [V4], KEY))
        last = message(253, unused_tcp_port.to_bytes(2, "little"))
        async with asyncio.timeout(WAIT_LIMIT):
            await reader.readuntil(last)


async def test_more_connections_than_allowed_are_turned_away(handler: FakeStreamHandler) -> None:
    """Those that are there are not disturbed."""
    server = StreamServer(handler, limits=StreamLimits(connections=1))
    await server.start()
    async with connected(server):
        await eventually(lambda: server.sessions, "the first connection")
        async with connected(server) as (reader, _):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await reader.readexactly(1)
        assert server.sessions == 1
    await server.close()


async def test_ipv6_addresses_have_brackets_in_urls(handler: FakeStreamHandler) -> None:
    """And a name of our own can stand there instead."""
    server = StreamServer(handler, host="::1")
    await server.start()
    assert exec_url(server, "exit", "0").startswith(f"http://[::1]:{server.port}/exec/")
    await server.close()
    named = StreamServer(handler, url_host="node.example")
    await named.start()
    assert exec_url(named, "exit", "0").startswith(f"http://node.example:{named.port}/exec/")
    await named.close()
