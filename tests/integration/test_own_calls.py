"""Our own client against a grpcio server, and grpcio clients against our own server."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose.net.grpc.client import Client
from interpose.net.grpc.handlers import Handlers, ServerContext, ServerStreaming, Unary
from interpose.net.grpc.server import serve
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.testing.eventually import WAIT_LIMIT, eventually, pass_deadline
from interpose.testing.grpcpeer import grpc_channel, grpc_server, server_stream
from tests.support.net.echo_service import DETAILS, EchoService, failed

MIB = 1024 * 1024


@asynccontextmanager
async def our_client(path: Path, *, limit: int = 32 * MIB) -> AsyncIterator[Client]:
    """A client of ours."""
    hub = Hub()
    upstream = Upstream(str(path), hub=hub, limits=Limits(), wait=10.0)
    yield Client(upstream, hub, limit=limit)
    await upstream.close()


@pytest.fixture
async def service(runtime_path: Path) -> AsyncIterator[EchoService]:
    """A grpcio server."""
    service = EchoService()
    async with grpc_server(runtime_path, service.handlers()):
        yield service


# -- our client


@pytest.mark.parametrize("size", [0, 100, 5 * MIB], ids=str)
async def test_unary_call(service: EchoService, runtime_path: Path, size: int) -> None:
    """Any size, with metadata."""
    async with our_client(runtime_path) as client:
        assert await client.unary(b"/test.Echo/Unary", bytes(size), metadata=((b"x-a", b"1"),)) == bytes(size)
    assert ("x-a", "1") in service.metadata


async def test_failed_call(service: EchoService, runtime_path: Path) -> None:
    """Code, text and trailers."""
    async with our_client(runtime_path) as client:
        with pytest.raises(RpcError) as caught:
            await client.unary(b"/test.Echo/Fail", b"")
    assert (caught.value.code, caught.value.message) == (
        Code.FAILED_PRECONDITION,
        "kein Platz für Töpfe: 100% voll\n☃",
    )
    assert b"grpc-status-details-bin" in dict(caught.value.trailers)


async def test_timeout_and_cancel(service: EchoService, runtime_path: Path) -> None:
    """The deadline travels; cancelling the awaiting task cancels the call at the other side."""
    async with our_client(runtime_path) as client:

        async def hang(timeout: float) -> Code:
            with pytest.raises(RpcError) as caught:
                await client.unary(b"/test.Echo/Hang", b"", timeout=timeout)
            return caught.value.code

        assert await pass_deadline(hang, service.entered.is_set) is Code.DEADLINE_EXCEEDED
        assert service.remaining is not None
        await asyncio.wait_for(service.cancelled.wait(), WAIT_LIMIT)
        service.entered.clear()
        service.cancelled.clear()
        task = asyncio.create_task(client.unary(b"/test.Echo/Hang", b""))
        await asyncio.wait_for(service.entered.wait(), WAIT_LIMIT)
        task.cancel()
        await asyncio.wait_for(service.cancelled.wait(), WAIT_LIMIT)


async def test_server_stream(service: EchoService, runtime_path: Path) -> None:
    """All messages in order; an error in the middle comes after what was before it."""
    async with our_client(runtime_path) as client:
        assert [int(one) async for one in client.server_stream(b"/test.Echo/Count", b"500")] == list(range(500))
        stream = client.server_stream(b"/test.Echo/FailMidway", b"")
        assert await anext(stream) == b"one"
        with pytest.raises(RpcError, match="DATA_LOSS"):
            await anext(stream)


async def test_slow_consumer_slows_the_sender(runtime_path: Path) -> None:
    """Messages wait at the sender, not here; leaving the loop cancels the call."""
    sent = 0
    ended = asyncio.Event()

    async def flood(request: bytes, context: Any) -> AsyncIterator[bytes]:
        nonlocal sent
        try:
            while True:
                yield bytes(50_000)
                sent += 1
        finally:
            ended.set()

    async with (
        grpc_server(runtime_path, {"/test.Flood/Flood": server_stream(flood)}),
        our_client(runtime_path) as client,
    ):
        async with aclosing(client.server_stream(b"/test.Flood/Flood", b"")) as stream:  # type: ignore[type-var]
            async for _ in stream:
                await eventually(lambda: sent > 3, "the sender to run into the window")
                break
        await asyncio.wait_for(ended.wait(), WAIT_LIMIT)
        assert sent < 100


async def test_message_over_the_clients_limit(service: EchoService, runtime_path: Path) -> None:
    """Refused, and the connection is of further use."""
    async with our_client(runtime_path, limit=1000) as client:
        with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):
            await client.unary(b"/test.Echo/Unary", bytes(2000))
        assert await client.unary(b"/test.Echo/Unary", b"x") == b"x"


async def test_backend_that_is_not_there(runtime_path: Path) -> None:
    """UNAVAILABLE after the wait."""
    hub = Hub()
    upstream = Upstream(str(runtime_path), hub=hub, limits=Limits(), wait=0.05)
    with pytest.raises(RpcError, match=r"UNAVAILABLE.*No such file"):
        await Client(upstream, hub).unary(b"/a/b", b"")
    await upstream.close()


async def test_backend_that_speaks_no_http2(runtime_path: Path) -> None:
    """It is not up before its settings are there, and the reason is told."""
    server = await asyncio.start_unix_server(lambda _, writer: writer.close(), str(runtime_path))
    hub = Hub()
    upstream = Upstream(str(runtime_path), hub=hub, limits=Limits(), wait=0.2)
    with pytest.raises(RpcError, match="closed before its first settings"):
        await Client(upstream, hub).unary(b"/a/b", b"")
    assert not upstream.up
    await upstream.close()
    server.close()


async def test_backend_that_hangs_from_the_start(runtime_path: Path) -> None:
    """The kernel takes the connection, nobody answers: calls do not pile up behind it, and the reason is told."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(runtime_path))
        listening.listen()
        hub = Hub()
        upstream = Upstream(str(runtime_path), hub=hub, limits=Limits(), wait=0.05)
        with pytest.raises(RpcError, match="sends no HTTP/2 settings"):
            await Client(upstream, hub).unary(b"/a/b", b"")
        await upstream.close()


# -- our server


class Local:
    """Handlers that note what they saw."""

    def __init__(self) -> None:
        self.metadata: list[tuple[bytes, bytes]] = []
        self.deadline: float | None = None
        self.cancelled = asyncio.Event()

    async def echo(self, message: bytes, context: ServerContext) -> bytes:
        """Back."""
        self.metadata = list(context.metadata)
        self.deadline = context.deadline
        return message

    async def fail(self, message: bytes, context: ServerContext) -> bytes:
        """A status of its own, or a bug."""
        if message == b"bug":
            raise ZeroDivisionError
        raise RpcError(Code.NOT_FOUND, "wo? ☃", ((b"grpc-status-details-bin", b"AAEC"),))

    async def hang(self, message: bytes, context: ServerContext) -> bytes:
        """For ever."""
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return b""

    async def count(self, message: bytes, context: ServerContext) -> AsyncIterator[bytes]:
        """As many as asked for."""
        for number in range(int(message)):
            yield b"%d" % number

    def handlers(self) -> Handlers:
        """By path."""
        return {
            b"/test.Local/Echo": Unary(self.echo),
            b"/test.Local/Fail": Unary(self.fail),
            b"/test.Local/Hang": Unary(self.hang),
            b"/test.Local/Count": ServerStreaming(self.count),
        }


@pytest.fixture
async def local(runtime_path: Path) -> AsyncIterator[Local]:
    """Our server."""
    local = Local()
    server = await serve(runtime_path, local.handlers())
    yield local
    await server.close()


@pytest.fixture
async def channel(local: Local, runtime_path: Path) -> AsyncIterator[Any]:
    """A grpcio client of it."""
    async with grpc_channel(runtime_path) as channel:
        yield channel


@pytest.mark.parametrize("size", [0, 100, 5 * MIB], ids=str)
@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip], ids=["plain", "gzip"])
async def test_grpcio_calls_us(channel: Any, local: Local, size: int, compression: Any) -> None:
    """Any size, compressed or not, with metadata and deadline."""
    call = channel.unary_unary("/test.Local/Echo")
    metadata = (("x-a", "1"),)
    assert await call(bytes(size), metadata=metadata, timeout=WAIT_LIMIT, compression=compression) == bytes(size)
    assert (b"x-a", b"1") in local.metadata
    assert local.deadline is not None


async def test_our_errors_arrive(channel: Any) -> None:
    """A status with details; a bug is INTERNAL and says nothing more; an unknown method says so."""
    error = await failed(channel.unary_unary("/test.Local/Fail")(b""))
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "wo? ☃")
    assert ("grpc-status-details-bin", DETAILS[:3]) in list(error.trailing_metadata())
    error = await failed(channel.unary_unary("/test.Local/Fail")(b"bug"))
    assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, "internal error")
    error = await failed(channel.unary_unary("/test.Local/Missing")(b""))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "Missing" in error.details()


async def test_our_stream_arrives(channel: Any) -> None:
    """Many messages, and none."""
    call = channel.unary_stream("/test.Local/Count")
    assert [int(one) async for one in call(b"2000")] == list(range(2000))
    assert [one async for one in call(b"0")] == []


async def test_cancelled_call_cancels_the_handler(channel: Any, local: Local) -> None:
    """By the client, and by its deadline."""
    call = channel.unary_unary("/test.Local/Hang")
    error = await pass_deadline(lambda timeout: failed(call(b"", timeout=timeout)), local.cancelled.is_set)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.wait_for(local.cancelled.wait(), WAIT_LIMIT)
