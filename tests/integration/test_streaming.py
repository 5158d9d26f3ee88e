"""Exec and attach between our client and our server, over every protocol that both speak, with real sockets."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from interpose.net.streaming.client import StreamError, run_command
from interpose.net.streaming.limits import StreamLimits
from interpose.net.streaming.server import StreamServer
from interpose.testing.eventually import eventually
from tests.support.net.fake_stream_handler import FakeStreamHandler
from tests.support.net.typed_input import Open, Typed

PROTOCOLS = ("websocket", "websocket-v4", "spdy")
MEBIBYTE = 1 << 20


@pytest.fixture
def handler() -> FakeStreamHandler:
    return FakeStreamHandler()


@pytest.fixture
async def server(handler: FakeStreamHandler) -> AsyncIterator[StreamServer]:
    running = StreamServer(handler)
    await running.start()
    yield running
    await running.close()


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def run(
    server: StreamServer,
    *command: str,
    protocol: str,
    stdin: Typed | None = None,
    tty: bool = False,
    resizes: AsyncIterator[tuple[int, int]] | None = None,
) -> tuple[int, bytes, bytes]:
    """Exit code and what was written."""
    out, err = bytearray(), bytearray()
    url = server.exec_url("c1", command, tty, stdin is not None, True, not tty)
    code = await run_command(
        url,
        stdin=stdin,
        stdout=out.extend,
        stderr=None if tty else err.extend,
        tty=tty,
        resizes=resizes,
        protocols=(protocol,),
    )
    return code, bytes(out), bytes(err)


async def test_output_comes_on_its_own_streams(server: StreamServer, protocol: str) -> None:
    """stdout and stderr are not mixed."""
    assert await run(server, "both", protocol=protocol) == (0, b"to stdout\n", b"to stderr\n")


async def test_the_handler_is_told_what_was_asked_for(
    server: StreamServer, handler: FakeStreamHandler, protocol: str
) -> None:
    """Container, command and terminal are those of the URL, whoever opens it."""
    await run(server, "echo", "a b", protocol=protocol, tty=True)
    assert handler.calls == [("exec", "c1", ("echo", "a b"), True)]


@pytest.mark.parametrize("code", [0, 1, 42, 137, 255])
async def test_exit_codes_arrive(server: StreamServer, protocol: str, code: int) -> None:
    """As the command left them."""
    assert (await run(server, "exit", str(code), protocol=protocol))[0] == code


@pytest.mark.parametrize("name", ["websocket", "spdy"])
async def test_stdin_arrives_and_ends(server: StreamServer, name: str) -> None:
    """A command that reads to the end of its input comes to its end."""
    typed = Typed(b"one\n", b"two\n")
    assert await run(server, "cat", protocol=name, stdin=typed) == (0, b"one\ntwo\n", b"")


@pytest.mark.parametrize("name", ["websocket", "spdy"])
async def test_much_goes_both_ways(server: StreamServer, name: str) -> None:
    """Nobody waits for the other for ever, and no byte is lost, however full the buffers are."""
    pieces = [bytes((number % 256,)) * 65536 for number in range(128)]
    code, out, _ = await run(server, "cat", protocol=name, stdin=Typed(*pieces))
    assert (code, out) == (0, b"".join(pieces))


async def test_a_command_may_end_before_its_input(server: StreamServer, protocol: str) -> None:
    """Then the rest of the input is nobody's business."""
    code, _, _ = await run(server, "exit", "3", protocol=protocol, stdin=Open(b"x" * MEBIBYTE))
    assert code == 3


async def test_sizes_of_the_terminal_arrive(server: StreamServer, protocol: str) -> None:
    """In their order."""

    async def sizes() -> AsyncIterator[tuple[int, int]]:
        for size in ((80, 24), (100, 40)):
            yield size
        await asyncio.Event().wait()

    code, out, _ = await run(server, "sizes", "2", protocol=protocol, tty=True, resizes=sizes())
    assert (code, out) == (0, b"80x24\n100x40\n")


async def test_what_cannot_be_run_is_said_in_words(server: StreamServer, protocol: str) -> None:
    """Those of the handler."""
    with pytest.raises(StreamError, match="no such file: /nope"):
        await run(server, "fail", "no such file: /nope", protocol=protocol)


async def test_a_mistake_in_the_handler_is_told_without_details(
    server: StreamServer, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They are in the log of the runtime."""
    with pytest.raises(StreamError, match="see the log of the runtime"):
        await run(server, "crash", protocol=protocol)
    assert "a mistake in the handler" in caplog.text


async def test_a_slow_reader_slows_the_writer(server: StreamServer, handler: FakeStreamHandler, protocol: str) -> None:
    """What nobody takes does not pile up in memory, and nothing of it is lost in the end."""
    seen = most = 0

    async def slow(data: bytes) -> None:
        nonlocal seen, most
        for _ in range(50):  # turns of the loop, in which the other side could write
            await asyncio.sleep(0)
        seen += len(data)
        most = max(most, handler.written - seen)

    size = 64 * MEBIBYTE
    url = server.exec_url("c1", ("flood", str(size)), False, False, True, False)
    assert await run_command(url, stdout=slow, protocols=(protocol,)) == 0
    assert seen == size
    assert most < 16 * MEBIBYTE  # the kernel's buffers are most of it


async def test_a_client_that_vanishes_ends_the_work(
    server: StreamServer, handler: FakeStreamHandler, protocol: str
) -> None:
    """The handler is cancelled, and the server has no connection left."""
    url = server.exec_url("c1", ("hang",), False, False, True, False)
    running = asyncio.create_task(run_command(url, stdout=lambda _: None, protocols=(protocol,)))
    await handler.hanging.wait()
    running.cancel()
    await asyncio.wait((running,))
    await handler.cancelled.wait()
    await eventually(lambda: not server.sessions, "the connection to end")


async def test_an_end_of_the_server_is_told(handler: FakeStreamHandler, protocol: str) -> None:
    """The work is cancelled and the client knows why."""
    server = StreamServer(handler)
    await server.start()
    url = server.exec_url("c1", ("hang",), False, False, True, False)
    running = asyncio.create_task(run_command(url, stdout=lambda _: None, protocols=(protocol,)))
    await handler.hanging.wait()
    await server.close()
    with pytest.raises(StreamError, match="the streaming server stops"):
        await running
    assert handler.cancelled.is_set()


async def test_an_idle_session_is_ended(handler: FakeStreamHandler, protocol: str) -> None:
    """And the client is told."""
    server = StreamServer(handler, limits=StreamLimits(idle=0.2))
    await server.start()
    url = server.exec_url("c1", ("hang",), False, False, True, False)
    with pytest.raises(StreamError, match="idle"):
        await run_command(url, stdout=lambda _: None, protocols=(protocol,))
    await server.close()


async def test_attach_gives_a_containers_own_streams(server: StreamServer) -> None:
    """And ends well when the container's do."""
    out = bytearray()
    url = server.attach_url("c9", False, True, True, False)
    assert await run_command(url, stdin=Typed(b"hello\n"), stdout=out.extend) == 0
    assert bytes(out) == b"this is c9\nhello\n"


async def test_a_url_can_be_used_once(server: StreamServer, protocol: str) -> None:
    """The second one who comes with it gets nothing, and the error does not show the token."""
    url = server.exec_url("c1", ("exit", "0"), False, False, True, False)
    assert await run_command(url, stdout=lambda _: None, protocols=(protocol,)) == 0
    with pytest.raises(StreamError, match="404") as caught:
        await run_command(url, stdout=lambda _: None, protocols=(protocol,))
    assert url.rpartition("/")[2] not in str(caught.value)


async def test_the_next_protocol_is_tried_with_a_new_url(server: StreamServer) -> None:
    """What a server does not speak it refuses, and whoever asks again asks for a new URL."""
    given: list[str] = []

    async def url() -> str:
        # The first is one that the server does not know, as if it had used it up.
        made = server.exec_url("c1", ("exit", "5"), False, False, True, False)
        given.append(made[:-8] + "12345678" if not given else made)
        return given[-1]

    assert await run_command(url, stdout=lambda _: None) == 5
    assert len(given) == 2


async def test_a_server_that_nobody_is_behind_is_named(unused_tcp_port: int) -> None:
    """The error says whom we asked."""
    with pytest.raises(StreamError, match=f"127.0.0.1:{unused_tcp_port}"):
        await run_command(f"http://127.0.0.1:{unused_tcp_port}/exec/abcdefgh", stdout=lambda _: None)


async def test_what_goes_wrong_with_the_output_ends_the_session(
    server: StreamServer, handler: FakeStreamHandler, protocol: str
) -> None:
    """A pipe that breaks on our side is the caller's to see; the command does not go on."""

    def broken(_data: bytes) -> None:
        raise BrokenPipeError("nobody reads")

    url = server.exec_url("c1", ("hang",), False, False, True, False)
    with pytest.raises(BrokenPipeError):
        await run_command(url, stdout=broken, protocols=(protocol,))
    await handler.cancelled.wait()
