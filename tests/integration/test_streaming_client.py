"""Our streaming client and servers that are not ours: refusals, lies, and connections that break at a bad moment."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interpose.net.streaming import exit_status
from interpose.net.streaming.channels import ERROR, STDOUT, V5, message
from interpose.net.streaming.client import StreamError, run_command
from interpose.net.streaming.portforward_client import PortForwarder
from interpose.net.streaming.upgrade import accept_key
from interpose.net.websocket import WebSocket
from interpose.testing.eventually import eventually

TOKEN = "s3cr3t_T"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter, bytes], Awaitable[None]]


@asynccontextmanager
async def serving(behaviour: Behaviour) -> AsyncIterator[str]:
    """A server that reads a request and then behaves like this; its URL."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await behaviour(reader, writer, await reader.readuntil(b"\r\n\r\n"))
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/exec/{TOKEN}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def says(data: bytes) -> Behaviour:
    """Answers with these bytes and closes."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _request: bytes) -> None:
        writer.write(data)
        writer.write_eof()
        await reader.read()

    return behave


def agreed(request: bytes, protocol: str = V5) -> bytes:
    """The answer that agrees to a WebSocket."""
    key = next(line for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")).split()[1]
    return (
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Accept: {accept_key(key)}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    ).encode()


def messages(*parts: tuple[int, bytes], close: bool = True) -> bytes:
    """As a server sends them."""
    socket = WebSocket(client=False, random=os.urandom)
    for channel, data in parts:
        socket.message(message(channel, data))
    if close:
        socket.close()
    return socket.take()


class Endless:
    """Stdin that always has more."""

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        return bytes(65536)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 12\r\n\r\nnot today\r\n\r\n", "answered 500 Oh: not today"),
        (
            b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nnope!\r\n0\r\n\r\n",
            "404 Not Found: nope!",
        ),
        (b"HTTP/1.1 403 Forbidden\r\n\r\nuntil the end", "403 Forbidden: until the end"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "answered 200 OK"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "127.0.0.1"),
        (b"", "closed the connection instead of an answer"),
    ],
)
async def test_a_server_that_does_not_agree_is_quoted(data: bytes, words: str) -> None:
    """With its host, and without the token."""
    async with serving(says(data)) as url:
        with pytest.raises(StreamError, match=r"127\.0\.0\.1:[0-9]+") as caught:
            await run_command(url, stdout=lambda _: None)
    assert words in str(caught.value)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["unix:///run/x.sock", "http:///exec/s3cr3t_T", "http://[::1/s3cr3t_T", "", "http://x/s3 cr3t_T"]
)
async def test_a_url_that_is_none_is_refused(url: str) -> None:
    """Without showing what is in it."""
    with pytest.raises(StreamError) as caught:
        await run_command(url, stdout=lambda _: None)
    assert TOKEN not in str(caught.value)


async def test_an_unknown_protocol_is_named() -> None:
    """With those that there are."""
    with pytest.raises(StreamError, match="'carrier-pigeon': spdy, websocket, websocket-v4"):
        await run_command("http://127.0.0.1:1/exec/x", protocols=("carrier-pigeon",))


async def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    """Longer than the timeout."""

    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter, _request: bytes) -> None:
        await asyncio.Event().wait()

    async with serving(silent) as url:
        with pytest.raises(StreamError, match=r"no answer within 0\.1 s"):
            await run_command(url, stdout=lambda _: None, timeout=0.1)


async def test_the_end_is_heard_although_our_bytes_come_back() -> None:
    """A server that tells the end and closes while we still send resets the connection; what it said counts."""

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(agreed(request))
        await reader.readexactly(100_000)
        writer.write(messages((STDOUT, b"x" * 100_000), (ERROR, exit_status.exit_document(9))))
        await writer.drain()

    async with serving(hasty) as url:
        for _ in range(20):
            out = bytearray()
            code = await run_command(url, stdin=Endless(), stdout=out.extend, protocols=("websocket",))
            assert (code, len(out)) == (9, 100_000)


async def test_an_end_that_was_not_told_is_an_error() -> None:
    """No exit code is guessed; what was written before has been handed on."""

    async def dying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(agreed(request) + messages((STDOUT, b"half"), close=False))
        writer.write_eof()
        await reader.read()

    out = bytearray()
    async with serving(dying) as url:
        with pytest.raises(StreamError, match="before the end of the command was told"):
            await run_command(url, stdout=out.extend, protocols=("websocket",))
    assert out == b"half"


async def test_a_server_that_does_not_close_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has told the end, and nothing more comes."""
    monkeypatch.setattr("interpose.net.streaming.client._TIMEOUT_AFTER_STATUS", 0.1)

    async def lingering(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(agreed(request) + messages((STDOUT, b"all"), (ERROR, exit_status.exit_document(4)), close=False))
        await asyncio.Event().wait()

    out = bytearray()
    async with serving(lingering) as url:
        assert await run_command(url, stdout=out.extend, protocols=("websocket",)) == 4
    assert out == b"all"


async def test_a_slow_reader_of_ours_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is still busy with what came, the session is not left, though the server is silent."""
    monkeypatch.setattr("interpose.net.streaming.client._TIMEOUT_AFTER_STATUS", 0.01)

    async def lingering(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(agreed(request) + messages((STDOUT, b"all"), (ERROR, exit_status.exit_document(4)), close=False))
        await asyncio.Event().wait()

    shown, rounds = bytearray(), 0
    real = asyncio.wait

    async def counted(*args: Any, **more: Any) -> Any:
        nonlocal rounds
        rounds += more.get("timeout") is not None
        return await real(*args, **more)

    async def slow(data: bytes) -> None:
        await eventually(lambda: rounds > 2, "the patience to be over")
        shown.extend(data)

    monkeypatch.setattr("interpose.net.streaming.client.asyncio.wait", counted)
    async with serving(lingering) as url:
        assert await run_command(url, stdout=slow, protocols=("websocket",)) == 4
    assert shown == b"all"


async def test_words_without_end_are_cut_off() -> None:
    """A server cannot fill our memory with its reasons."""

    async def wordy(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(agreed(request))
        while True:
            writer.write(messages((ERROR, b"because " * 8192), close=False))
            await writer.drain()

    async with serving(wordy) as url:
        with pytest.raises(StreamError, match="do not end"):
            await run_command(url, stdout=lambda _: None, protocols=("websocket",))


async def test_a_forwarder_survives_what_it_cannot_forward() -> None:
    """The reason is told without the token, and the port stays open."""
    errors: list[str] = []
    async with serving(says(b"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nbusy")) as url:
        forwarder = PortForwarder(url, 80, on_error=errors.append)
        await forwarder.start()
        for number in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
            assert await reader.read() == b""
            writer.close()
            await eventually(lambda wanted=number + 1: len(errors) == wanted, "the reason")  # type: ignore[misc]
        await forwarder.close()
    assert all("500 Oh: busy" in error and TOKEN not in error for error in errors)
