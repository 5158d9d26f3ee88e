"""The server accepts, bounds and ends connections."""

import asyncio
import logging
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop

from interpose.net.httpd.limits import Stage
from interpose.net.httpd.routes import ServerRequest, ServerResponse, text_response
from interpose.net.httpd.server import AdminServer
from interpose.testing.eventually import eventually

REQUEST = b"GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n"


WAIT = REQUEST.replace(b"/hello", b"/wait")


async def _hello(request: ServerRequest) -> ServerResponse:
    return text_response("hello")


async def _wait(request: ServerRequest) -> ServerResponse:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


ROUTES = {("GET", "/hello"): _hello, ("GET", "/wait"): _wait}


class OnMessage(logging.Handler):
    """Calls back when a message is logged."""

    def __init__(self, message: str, callback: Callable[[], None]) -> None:
        super().__init__()
        self.message = message
        self.callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == self.message:
            self.callback()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _stages(server: AdminServer) -> list[Stage]:
    return [session.stage for session in server._sessions]


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    return listener


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[AdminServer]:
    """A running server for at most two clients at a time."""
    server = AdminServer(_listen(tmp_path / "admin.sock"), ROUTES, max_connections=2)
    server.start()
    yield server
    await server.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    return head.split()[1]


async def test_clients_are_served_until_close(server: AdminServer, tmp_path: Path) -> None:
    """Requests are answered; close ends connections and refuses new ones, but leaves the path alone."""
    reader, writer = await asyncio.open_unix_connection(tmp_path / "admin.sock")
    assert await _ask(reader, writer) == b"200"
    assert server.connections == 1
    await server.close()
    assert await reader.read() == b"hello"
    assert server.connections == 0
    writer.close()
    await writer.wait_closed()
    assert (tmp_path / "admin.sock").exists()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_unix_connection(tmp_path / "admin.sock")


async def test_nobody_makes_room_while_we_work_for_them(server: AdminServer, tmp_path: Path) -> None:
    """The third client gets a 503; when one leaves there is room again."""
    pairs = [await asyncio.open_unix_connection(tmp_path / "admin.sock") for _ in range(2)]
    for _, writer in pairs:
        writer.write(WAIT)
    await eventually(lambda: _stages(server) == [Stage.WORKING] * 2, "both to be worked for")
    reader, writer = await asyncio.open_unix_connection(tmp_path / "admin.sock")
    assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
    assert (server.refused, server.cut) == (1, 0)
    for _, each in (*pairs, (reader, writer)):
        each.close()
        await each.wait_closed()


async def test_running_out_of_descriptors_does_not_end_the_server(server: AdminServer, tmp_path: Path) -> None:
    """When accept fails, the server goes on and serves the client that waited."""
    failed = asyncio.Event()
    handler = OnMessage("Admin connection could not be accepted", failed.set)
    log = logging.getLogger("interpose.net.httpd.server")
    log.addHandler(handler)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.setblocking(False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    loop = asyncio.get_running_loop()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        await loop.sock_connect(client, str(tmp_path / "admin.sock"))
        await failed.wait()
    finally:
        log.removeHandler(handler)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await loop.sock_sendall(client, REQUEST)
    assert b"200" in await loop.sock_recv(client, 65536)
    client.close()


def test_it_works_on_uvloop_and_leaves_no_descriptor(tmp_path: Path) -> None:
    """The daemons run on uvloop: serve there, close, and count descriptors before and after."""

    async def story(path: Path) -> None:
        server = AdminServer(_listen(path), ROUTES)
        server.start()
        reader, writer = await asyncio.open_unix_connection(str(path))
        assert await _ask(reader, writer) == b"200"
        await server.close()
        writer.close()
        await writer.wait_closed()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story(tmp_path / "warm.sock"))
        before = _descriptors()
        runner.run(story(tmp_path / "measured.sock"))
        assert _descriptors() == before


def test_the_http_library_comes_with_the_first_connection() -> None:
    """A relay nobody asks does not carry h11."""
    code = "import interpose.net.httpd.server, sys; sys.exit('h11' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def _open(tmp_path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(tmp_path / "admin.sock")
    assert await _ask(reader, writer) == b"200"
    assert await reader.readexactly(5) == b"hello"
    return reader, writer


async def test_the_longest_idle_client_makes_room(server: AdminServer, tmp_path: Path) -> None:
    """The one that was heard of last stays."""
    first, second = await _open(tmp_path), await _open(tmp_path)
    await eventually(lambda: server.busy == 0, "both to be idle")
    assert await _ask(*first) == b"200"
    assert await first[0].readexactly(5) == b"hello"
    await eventually(lambda: server.busy == 0, "both to be idle again")
    third = await _open(tmp_path)
    assert await second[0].read() == b""
    assert await _ask(*first) == b"200"
    assert (server.refused, server.cut) == (0, 1)
    for _, writer in (first, second, third):
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("sent", [b"", REQUEST[:1], REQUEST[:-1]], ids=["nothing", "a byte", "almost all"])
async def test_who_asks_nothing_makes_room_before_who_was_answered(
    server: AdminServer, tmp_path: Path, sent: bytes
) -> None:
    """However many come for nothing: they replace each other, one that was served before stays, and others get in."""
    known = await _open(tmp_path)
    silent = []
    for _ in range(4):
        silent.append(await asyncio.open_unix_connection(tmp_path / "admin.sock"))
        silent[-1][1].write(sent)
    silent.append(await _open(tmp_path))
    assert await _ask(*known) == b"200"
    assert server.refused == 0
    for _, writer in (known, *silent):
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_there_are_never_more_than_the_limit(server: AdminServer, tmp_path: Path) -> None:
    """Who has to go is gone before the next one is let in."""
    seen = []
    pairs = []
    for _ in range(8):
        pairs.append(await asyncio.open_unix_connection(tmp_path / "admin.sock"))
        seen.append(server.connections)
    await eventually(lambda: server.cut == 6, "all to be seen")
    assert max(*seen, server.connections) == 2
    for _, writer in pairs:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def test_close_while_somebody_waits_for_room(server: AdminServer, tmp_path: Path) -> None:
    """The one at the door is sent away too."""
    before = _descriptors()
    pairs = [await asyncio.open_unix_connection(tmp_path / "admin.sock") for _ in range(3)]
    await eventually(lambda: server.connections == 2, "two to be in")
    await server.close()
    for reader, writer in pairs:
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    assert _descriptors() < before  # the listening socket is gone too


async def test_finish_lets_requests_end_and_sends_the_rest_away(server: AdminServer, tmp_path: Path) -> None:
    """The path stays, nobody listens, and each answer says that it was the last."""
    idle = await _open(tmp_path)
    reader, writer = await asyncio.open_unix_connection(tmp_path / "admin.sock")
    writer.write(REQUEST[:10])
    await eventually(lambda: server.busy == 1, "one to be busy")
    finishing = asyncio.create_task(server.finish(20.0))
    assert await idle[0].read() == b""
    writer.write(REQUEST[10:])
    assert b"connection: close" in (await reader.read()).lower()
    await finishing
    assert server.connections == 0
    for _, each in (idle, (reader, writer)):
        each.close()
        await each.wait_closed()


async def test_finish_waits_a_moment_for_who_has_just_connected(server: AdminServer, tmp_path: Path) -> None:
    """They came to ask something."""
    reader, writer = await asyncio.open_unix_connection(tmp_path / "admin.sock")
    await eventually(lambda: server.connections == 1, "the client to be seen")
    finishing = asyncio.create_task(server.finish(20.0))
    await asyncio.sleep(0)  # it begins
    assert await _ask(reader, writer) == b"200"
    await finishing
    writer.close()
    await writer.wait_closed()


async def test_any_host_is_for_addresses_that_others_reach() -> None:
    """A scraper calls us by whatever name it has for us."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    server = AdminServer(listener, ROUTES, any_host=True)
    server.start()
    reader, writer = await asyncio.open_connection(*address)
    writer.write(REQUEST.replace(b"localhost", b"node-1.example:9090"))
    assert (await reader.readuntil(b"\r\n\r\n")).split()[1] == b"200"
    writer.close()
    await writer.wait_closed()
    await server.close()
