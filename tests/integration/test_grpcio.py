"""A grpcio client, the relay, a grpcio server: every kind of call arrives as it was sent."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose.net.grpc.client import Client
from interpose.net.grpc.status import RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.testing.eventually import WAIT_LIMIT, eventually, pass_deadline
from interpose.testing.grpcpeer import grpc_channel, grpc_server, unary
from interpose.testing.stack import Stack, relay_stack
from tests.support.net.echo_service import DETAILS, EchoService, failed

MIB = 1024 * 1024


@pytest.fixture
async def service(runtime_path: Path) -> AsyncIterator[EchoService]:
    """The service, served by grpcio."""
    service = EchoService()
    async with grpc_server(runtime_path, service.handlers()):
        yield service


@pytest.fixture
async def stack(relay_path: Path, runtime_path: Path, service: EchoService) -> AsyncIterator[Stack]:
    """A relay in front of it."""
    async with relay_stack(relay_path, runtime_path) as stack:
        yield stack


@pytest.mark.parametrize("size", [0, 1, 65_535, 300_000, 16 * MIB, 40 * MIB], ids=str)
async def test_unary_messages_of_any_size_pass_both_ways(channel: Any, size: int) -> None:
    """From nothing to far more than any window, byte for byte."""
    message = (b"%08d" % size * (size // 8 + 1))[:size]
    assert await channel.unary_unary("/test.Echo/Unary")(message) == message


async def test_server_stream(channel: Any) -> None:
    """Any number of replies, in order, and an empty stream."""
    call = channel.unary_stream("/test.Echo/Count")
    assert [int(reply) async for reply in call(b"1000")] == list(range(1000))
    assert [reply async for reply in call(b"0")] == []


async def test_client_stream(channel: Any) -> None:
    """Any number of requests, in order, and none at all."""
    call = channel.stream_unary("/test.Echo/Join")
    assert await call([b"a", b"", b"c" * 100_000]) == b"a,," + b"c" * 100_000
    assert await call([]) == b""


async def test_bidirectional_stream_is_not_held_back(channel: Any) -> None:
    """Each message arrives before the next is sent: nothing waits for the end of anything."""
    call = channel.stream_stream("/test.Echo/Mirror")()
    for number in range(20):
        await call.write(b"%d" % number)
        assert await call.read() == b"%d" % number
    await call.done_writing()
    assert await call.read() == grpc.aio.EOF
    assert await call.code() == grpc.StatusCode.OK


async def test_metadata_and_trailers_pass(channel: Any, service: EchoService) -> None:
    """Text and binary fields, repeated ones in order, both ways."""
    metadata = (("x-text", "value"), ("x-twice", "1"), ("x-twice", "2"), ("x-bytes-bin", DETAILS), ("x-empty", ""))
    call = channel.unary_unary("/test.Echo/Unary")(b"", metadata=metadata)
    await call
    assert [item for item in service.metadata if item[0].startswith("x-")] == list(metadata)
    assert list(await call.initial_metadata()) == [("x-initial", "first"), ("x-initial-bin", DETAILS)]
    assert list(await call.trailing_metadata()) == [("x-trailer", "last"), ("x-trailer-bin", DETAILS)]


async def test_status_passes_byte_for_byte(channel: Any) -> None:
    """Code, a message that is not ASCII, and the binary details; an abort before any reply is trailers-only."""
    error = await failed(channel.unary_unary("/test.Echo/Fail")(b""))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == "kein Platz für Töpfe: 100% voll\n☃"
    assert list(error.trailing_metadata()) == [("grpc-status-details-bin", DETAILS)]
    assert list(error.initial_metadata()) == []


async def test_stream_that_fails_midway_delivers_what_came_before(channel: Any) -> None:
    """A message, then the status."""
    call = channel.unary_stream("/test.Echo/FailMidway")(b"")
    assert await call.read() == b"one"
    error = await failed(call.read())
    assert (error.code(), error.details()) == (grpc.StatusCode.DATA_LOSS, "the rest is gone")


@pytest.mark.parametrize("path", ["/test.Echo/Missing", "/no.Such/Method", "/runtime.v1.RuntimeService/NotYet"])
async def test_unknown_methods_get_the_servers_own_answer(channel: Any, runtime_path: Path, path: str) -> None:
    """The relay does not know better than the runtime what exists: the same answer as without it."""
    through = await failed(channel.unary_unary(path)(b""))
    async with grpc_channel(runtime_path) as direct:
        straight = await failed(direct.unary_unary(path)(b""))
    assert through.code() is grpc.StatusCode.UNIMPLEMENTED
    assert (through.code(), through.details()) == (straight.code(), straight.details())


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
async def test_both_api_versions_pass_and_are_counted_apart(channel: Any, stack: Stack, version: str) -> None:
    """The version is part of the path; each has its own counters."""
    path = f"/runtime.{version}.RuntimeService/Version"
    assert await channel.unary_unary(path)(b"\x0a\x02v1") == b"\x0a\x02v1"
    other = path.replace(version, {"v1": "v1alpha2", "v1alpha2": "v1"}[version])
    assert (stack.stats(path).codes[0], stack.stats(other).started) == (1, 0)
    assert stack.stats(path).bytes_received == stack.stats(path).bytes_sent == 9


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate], ids=["gzip", "deflate"])
async def test_compressed_messages_pass_untouched(stack: Stack, runtime_path: Path, algorithm: Any) -> None:
    """The client compresses; the relay moves as few bytes as came, and the other side unpacks them."""
    message = b"compressible " * 100_000
    async with grpc_channel(stack.socket, compression=algorithm) as channel:
        assert await channel.unary_unary("/test.Echo/Unary")(message) == message
    assert 0 < stack.stats("/test.Echo/Unary").bytes_received < len(message) / 50


async def test_compressed_replies_pass_untouched(relay_path: Path, runtime_path: Path) -> None:
    """The server compresses."""

    async def reply(request: bytes, context: Any) -> bytes:
        return b"compressible " * 100_000

    async with (
        grpc_server(runtime_path, {"/test.Echo/Zip": unary(reply)}, compression=grpc.Compression.Gzip),
        relay_stack(relay_path, runtime_path) as stack,
        grpc_channel(relay_path) as channel,
    ):
        assert await channel.unary_unary("/test.Echo/Zip")(b"") == b"compressible " * 100_000
        assert 0 < stack.stats("/test.Echo/Zip").bytes_sent < 50_000


async def test_deadline_travels_and_ends_the_call(channel: Any, service: EchoService) -> None:
    """grpc-timeout arrives at the server, and its end is DEADLINE_EXCEEDED on both sides."""
    given = []

    async def hang(timeout: float) -> Any:
        given.append(timeout)
        return await failed(channel.unary_unary("/test.Echo/Hang")(b"", timeout=timeout))

    error = await pass_deadline(hang, service.entered.is_set)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert service.remaining is not None
    assert 0 < service.remaining <= given[-1] + 0.01
    await asyncio.wait_for(service.cancelled.wait(), WAIT_LIMIT)
    await channel.unary_unary("/test.Echo/Unary")(b"")
    assert service.remaining is None


async def test_cancel_reaches_the_server_at_once(channel: Any, service: EchoService, stack: Stack) -> None:
    """The client gives up; the server's handler is cancelled, and the call is counted as such."""
    call = channel.unary_unary("/test.Echo/Hang")(b"")
    await asyncio.wait_for(service.entered.wait(), WAIT_LIMIT)
    call.cancel()
    await asyncio.wait_for(service.cancelled.wait(), WAIT_LIMIT)
    await eventually(lambda: stack.relay.in_flight == 0, "the call to be counted")
    assert (stack.stats("/x").codes[1], stack.stats("/x").resets) == (1, 1)


async def test_lost_client_is_a_cancelled_call(stack: Stack, service: EchoService) -> None:
    """A client that vanishes takes its calls with it, at the server too."""
    hub = Hub()
    client = Upstream(str(stack.socket), hub=hub, limits=Limits(), wait=10.0)
    call = asyncio.create_task(Client(client, hub).unary(b"/test.Echo/Hang", b""))
    await asyncio.wait_for(service.entered.wait(), WAIT_LIMIT)
    await client.close()
    with pytest.raises(RpcError):
        await call
    await asyncio.wait_for(service.cancelled.wait(), WAIT_LIMIT)
    await eventually(lambda: not stack.listener.links, "the connection to end")


async def test_many_calls_at_once(channel: Any, stack: Stack) -> None:
    """300 calls share one connection to the backend and each gets its own answer."""
    call = channel.unary_unary("/test.Echo/Unary")
    messages = [b"%d" % number * 100 for number in range(300)]
    assert await asyncio.gather(*(call(message) for message in messages)) == messages
    assert stack.runtime.connections == 1
    assert (stack.stats("/x").codes[0], stack.relay.in_flight) == (300, 0)


async def test_large_headers_pass_and_too_large_ones_are_refused(stack: Stack, service: EchoService) -> None:
    """7 KiB of metadata is fine; above the limit the call is refused with both sizes, and the connection lives on.

    Not 8: from there on the grpcio server behind refuses at random.
    """
    async with grpc_channel(stack.socket, options=[("grpc.max_metadata_size", MIB)]) as channel:
        call = channel.unary_unary("/test.Echo/Unary")
        await call(b"", metadata=(("x-large", "v" * 7168),))
        assert ("x-large", "v" * 7168) in service.metadata
        error = await failed(call(b"", metadata=(("x-large", "v" * 80_000),)))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "over the limit of 65536" in error.details()
        assert await call(b"again") == b"again"
        assert stack.listener.accepted == 1


async def test_long_status_messages_of_the_runtime_pass(relay_path: Path, runtime_path: Path) -> None:
    """Runtimes put whole error texts into trailers: 200 KiB arrive, cut into CONTINUATION frames."""
    text = "error: " + "x" * 200_000

    async def fail(request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.UNKNOWN, text)
        raise AssertionError("abort returns never")

    big = [("grpc.max_metadata_size", MIB), ("grpc.absolute_max_metadata_size", MIB)]
    async with (
        grpc_server(runtime_path, {"/test.Echo/Fail": unary(fail)}),
        relay_stack(relay_path, runtime_path),
        grpc_channel(relay_path, options=big) as channel,
    ):
        assert (await failed(channel.unary_unary("/test.Echo/Fail")(b""))).details() == text
