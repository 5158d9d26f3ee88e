"""Leaving without cutting anything short: what clients see of a drain."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose.relay.restart.drain import Drain
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.grpcpeer import grpc_channel, grpc_server, unary
from interpose.testing.stack import Stack, relay_stack
from tests.support.net import h2_peer
from tests.support.net.echo_service import EchoService, failed
from tests.support.net.hpack import Encoder

HELLO = h2_peer.PREFACE + h2_peer.settings((4, 0)) + h2_peer.settings_ack()
REQUEST = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/test.Echo/Large"),
    (b":authority", b"x"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
]


async def large(request: bytes, context: Any) -> bytes:
    """A reply that fits the relay's window."""
    return bytes(100_000)


@pytest.fixture
async def stack(relay_path: Path, runtime_path: Path) -> AsyncIterator[Stack]:
    """A relay in front of a grpcio server."""
    handlers = {"/test.Echo/Large": unary(large), **EchoService().handlers()}
    async with grpc_server(runtime_path, handlers), relay_stack(relay_path, runtime_path) as stack:
        yield stack


def drain(stack: Stack, grace: float) -> asyncio.Task[bool]:
    """Begin to leave."""
    return asyncio.create_task(Drain(stack.listener, stack.hub).run(grace))


async def test_idle_connections_are_asked_to_go(stack: Stack) -> None:
    """A client without calls hangs up by itself and the drain is over at once."""
    async with grpc_channel(stack.socket) as channel:
        await channel.unary_unary("/test.Echo/Unary")(b"")
        assert await asyncio.wait_for(drain(stack, WAIT_LIMIT), WAIT_LIMIT)
        assert not stack.listener.links


async def test_complete_reply_waits_for_its_slow_reader(stack: Stack) -> None:
    """The backend has answered, the client's window is shut: the drain waits until the reply is delivered."""
    reader, writer = await asyncio.open_unix_connection(str(stack.socket))
    block = Encoder().block(REQUEST, "plain")
    writer.write(HELLO + h2_peer.headers(1, block) + h2_peer.data(1, bytes(5), end=True))
    await eventually(lambda: stack.stats("/test.Echo/Large").codes[0] == 1, "the backend's answer")
    assert stack.queued == 100_005
    leaving = drain(stack, WAIT_LIMIT)
    answer = b""
    while h2_peer.ping(b"draining") not in answer:
        answer += await asyncio.wait_for(reader.read(65536), WAIT_LIMIT)
    writer.write(h2_peer.ping(b"draining", ack=True))
    # Longer than a client with nothing in flight would get.
    done, _ = await asyncio.wait([leaving], timeout=1.3)  # clock: nothing may happen in that time
    assert not done
    writer.write(h2_peer.window_update(0, 200_000) + h2_peer.window_update(1, 200_000))
    answer += await asyncio.wait_for(reader.read(-1), WAIT_LIMIT)
    frames = h2_peer.read_frames(answer)
    assert sum(len(frame.payload) for frame in frames if frame.kind == "DATA") == 100_005
    assert [frame.end for frame in frames if frame.kind == "HEADERS"] == [False, True]
    assert await leaving
    writer.close()


async def test_end_of_grace(stack: Stack) -> None:
    """A call that does not end is told so; the drain says that it was not complete."""
    async with grpc_channel(stack.socket) as channel:
        call = channel.unary_unary("/test.Echo/Hang")(b"")
        await eventually(lambda: stack.relay.in_flight == 1, "the call to be in flight")
        leaving = drain(stack, 0.05)
        error = await failed(call)
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "connect again" in error.details()
        assert not await leaving
        assert stack.relay.in_flight == 0
