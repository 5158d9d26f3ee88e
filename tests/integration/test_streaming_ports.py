"""Port forwarding between our client and our server, over every protocol that both speak, with real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from interpose.net.grpc.status import Code, RpcError
from interpose.net.streaming.connect import StreamError
from interpose.net.streaming.portforward_client import PortForwarder, forward
from interpose.net.streaming.server import StreamServer
from interpose.testing.eventually import eventually
from tests.support.net.fake_stream_handler import FakeStreamHandler

PROTOCOLS = ("spdy", "websocket", "websocket-v4")
Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Gives back what comes, and ends when it ends."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says something and leaves."""
    writer.write(b"welcome\n")
    writer.close()


async def gather(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads to the end, then says how much it was."""
    writer.write(str(len(await reader.read())).encode())
    writer.close()


@pytest.fixture
async def listen() -> AsyncIterator[Callable[[Connected], Awaitable[int]]]:
    """Starts a server of one of these on a port of its own."""
    servers = []

    async def start(connected: Connected) -> int:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def handler() -> FakeStreamHandler:
    return FakeStreamHandler()


@pytest.fixture
async def server(handler: FakeStreamHandler) -> AsyncIterator[StreamServer]:
    running = StreamServer(handler)
    await running.start()
    yield running
    await running.close()


class Forwarding:
    """A forwarder to a port, with what went wrong."""

    def __init__(self, server: StreamServer, port: int, protocol: str) -> None:
        self.errors: list[str] = []
        self.urls = 0

        async def url() -> str:
            self.urls += 1
            return server.port_forward_url("s1", (port,))

        self._forwarder = PortForwarder(url, port, protocols=(protocol,), on_error=self.errors.append)

    async def __aenter__(self) -> "Forwarding":
        await self._forwarder.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._forwarder.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._forwarder.port)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_bytes_go_both_ways(
    server: StreamServer, handler: FakeStreamHandler, listen: Callable[[Connected], Awaitable[int]], protocol: str
) -> None:
    """As if the port were here."""
    port = await listen(echo)
    async with Forwarding(server, port, protocol) as forwarding:
        reader, writer = await forwarding.connect()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
    assert handler.calls == [("port_forward", "s1", port)]
    assert forwarding.errors == []


async def test_much_goes_both_ways_at_once(
    server: StreamServer, listen: Callable[[Connected], Awaitable[int]], protocol: str
) -> None:
    """Nobody waits for the other for ever, no byte is lost."""
    port = await listen(echo)
    size = 16 << 20
    async with Forwarding(server, port, protocol) as forwarding:
        reader, writer = await forwarding.connect()
        sending = asyncio.create_task(_send(writer, size))
        assert await reader.readexactly(size) == b"x" * size
        await sending
        writer.close()


async def _send(writer: asyncio.StreamWriter, size: int) -> None:
    for _ in range(size // 65536):
        writer.write(b"x" * 65536)
        await writer.drain()


async def test_connections_do_not_disturb_each_other(
    server: StreamServer, listen: Callable[[Connected], Awaitable[int]], protocol: str
) -> None:
    """Many at once each get their own bytes back, also while another one stands still."""
    port = await listen(echo)
    async with Forwarding(server, port, protocol) as forwarding:
        _, stalled = await forwarding.connect()
        stalled.write(b"y" * (8 << 20))  # and does not read what comes back

        async def one(number: int) -> None:
            reader, writer = await forwarding.connect()
            word = b"%06d" % number
            for _ in range(5):
                writer.write(word)
                assert await reader.readexactly(6) == word
            writer.close()

        await asyncio.gather(*(one(number) for number in range(20)))
        stalled.transport.abort()
    assert forwarding.errors == []


@pytest.mark.parametrize("name", ["spdy", "websocket"])
async def test_one_connection_to_the_server_carries_all(
    server: StreamServer, listen: Callable[[Connected], Awaitable[int]], name: str
) -> None:
    """Where the protocol can do that."""
    port = await listen(echo)
    async with Forwarding(server, port, name) as forwarding:
        for _ in range(5):
            reader, writer = await forwarding.connect()
            writer.write(b"hello")
            await reader.readexactly(5)
            writer.close()
        assert forwarding.urls == 1


async def test_an_end_on_the_other_side_arrives(
    server: StreamServer, listen: Callable[[Connected], Awaitable[int]], protocol: str
) -> None:
    """After all that was said before."""
    port = await listen(greet)
    async with Forwarding(server, port, protocol) as forwarding:
        reader, writer = await forwarding.connect()
        assert await reader.read() == b"welcome\n"
        writer.close()
    assert forwarding.errors == []


@pytest.mark.parametrize("name", ["spdy", "websocket"])
async def test_an_end_on_this_side_leaves_the_other_direction_open(
    server: StreamServer, listen: Callable[[Connected], Awaitable[int]], name: str
) -> None:
    """Who answers only after the end of the question can answer."""
    port = await listen(gather)
    async with Forwarding(server, port, name) as forwarding:
        reader, writer = await forwarding.connect()
        writer.write(b"z" * 100_000)
        writer.write_eof()
        assert await reader.read() == b"100000"
        writer.close()


async def test_a_port_nobody_listens_on_is_told(server: StreamServer, unused_tcp_port: int, protocol: str) -> None:
    """The connection is closed, and the reason is known."""
    async with Forwarding(server, unused_tcp_port, protocol) as forwarding:
        reader, writer = await forwarding.connect()
        assert await reader.read() == b""
        writer.close()
        await eventually(lambda: forwarding.errors, "the reason")
    assert f"nobody listens on port {unused_tcp_port}" in forwarding.errors[0]


@pytest.mark.parametrize("name", ["spdy", "websocket"])
async def test_after_a_failure_that_the_server_told_the_way_is_asked_for_again(
    server: StreamServer, unused_tcp_port: int, name: str
) -> None:
    """The sandbox may be another one by now. Connections that are there keep theirs."""
    port = unused_tcp_port
    inside = await asyncio.start_server(echo, "127.0.0.1", port)
    async with Forwarding(server, port, name) as forwarding:
        reader, writer = await forwarding.connect()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        inside.close()
        refused, other = await forwarding.connect()
        assert await refused.read() == b""
        other.close()
        await eventually(lambda: forwarding.errors, "the reason")
        urls = [forwarding.urls]
        inside = await asyncio.start_server(echo, "127.0.0.1", port)
        again, third = await forwarding.connect()
        third.write(b"again")
        assert await again.readexactly(5) == b"again"
        urls.append(forwarding.urls)
        writer.write(b"still")
        assert await reader.readexactly(5) == b"still"
        writer.close()
        third.close()
    inside.close()
    assert urls == [1, 2]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (RpcError(Code.NOT_FOUND, "no such sandbox"), "NOT_FOUND: no such sandbox"),
        (StreamError("no way"), "no way"),
        (ConnectionRefusedError(111, "Connection refused"), "[Errno 111] Connection refused"),
        (TimeoutError(), "TimeoutError"),
    ],
)
async def test_a_way_that_cannot_be_had_is_told_and_not_logged(
    problem: Exception, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A runtime that is away is nothing to look for in our own code; the port stays."""
    errors: list[str] = []

    async def url() -> str:
        raise problem

    forwarder = PortForwarder(url, 80, on_error=errors.append)
    await forwarder.start()
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        assert await reader.read() == b""
        writer.close()
    await forwarder.close()
    assert errors == [words, words]
    assert not caplog.records


async def test_a_lost_server_is_found_again(
    handler: FakeStreamHandler, listen: Callable[[Connected], Awaitable[int]], protocol: str
) -> None:
    """The next connection is made over a new one to the server."""
    port = await listen(echo)
    first = StreamServer(handler)
    await first.start()
    running = [first]

    class Latest:
        def port_forward_url(self, sandbox: str, ports: tuple[int, ...]) -> str:
            return running[-1].port_forward_url(sandbox, ports)

    async with Forwarding(Latest(), port, protocol) as forwarding:  # type: ignore[arg-type]
        reader, writer = await forwarding.connect()
        writer.write(b"hello")
        await reader.readexactly(5)
        second = StreamServer(handler)
        await second.start()
        running.append(second)
        await first.close()
        assert await reader.read() == b""
        writer.close()
        reader, writer = await forwarding.connect()
        writer.write(b"again")
        assert await reader.readexactly(5) == b"again"
        writer.close()
    await second.close()


async def test_forwarding_runs_until_it_is_cancelled(
    server: StreamServer, listen: Callable[[Connected], Awaitable[int]]
) -> None:
    """And says which port it has here."""
    port = await listen(greet)
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def url() -> str:
        return server.port_forward_url("s1", (port,))

    running = asyncio.create_task(forward(url, 0, port, ready=ready.set_result))
    reader, writer = await asyncio.open_connection("127.0.0.1", await ready)
    assert await reader.read() == b"welcome\n"
    writer.close()
    running.cancel()
    await asyncio.wait((running,))
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", ready.result())
