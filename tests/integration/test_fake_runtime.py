"""A large FakeRuntime behind the relay: lists, events, stalls and slow readers."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import bidi_stream, grpc_channel, grpc_server, server_stream, unary
from interpose.testing.pods import pod_config, run_request
from interpose.testing.serve import serve_runtime
from interpose.testing.stack import Stack, relay_stack
from tests.support.lab.processes import rss_bytes

V1 = "/runtime.v1.RuntimeService"
MIB = 1024 * 1024


@pytest.fixture
async def runtime(runtime_path: Path) -> AsyncIterator[FakeRuntime]:
    """A node with 1000 containers."""
    runtime = FakeRuntime()
    runtime.populate(500, 2)
    async with serve_runtime(runtime_path, runtime):
        yield runtime


@pytest.fixture
async def stack(relay_path: Path, runtime_path: Path, runtime: FakeRuntime) -> AsyncIterator[Stack]:
    """A relay in front of it."""
    async with relay_stack(relay_path, runtime_path) as stack:
        yield stack


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
async def test_large_list_equals_the_direct_one(channel: Any, runtime_path: Path, version: str) -> None:
    """ListContainers of 1000 containers, byte for byte."""
    path = f"/runtime.{version}.RuntimeService/ListContainers"
    async with grpc_channel(runtime_path) as direct:
        straight = await direct.unary_unary(path)(b"")
    through = await channel.unary_unary(path)(b"")
    assert through == straight
    assert len(cri.ListContainersResponse.FromString(through).containers) == 1000


async def test_streamed_list_passes(channel: Any) -> None:
    """The streaming form of the list, in all its parts."""
    parts = [part async for part in channel.unary_stream(f"{V1}/StreamContainers")(b"")]
    assert [len(cri.StreamContainersResponse.FromString(part).containers) for part in parts] == [100] * 10


async def test_events_reach_every_subscriber(channel: Any, stack: Stack, runtime: FakeRuntime) -> None:
    """Three subscriptions of two clients; each sees each event; ending one ends it at the runtime."""
    async with grpc_channel(stack.socket) as other:
        streams = [one.unary_stream(f"{V1}/GetContainerEvents")(b"") for one in (channel, channel, other)]
        await asyncio.wait_for(runtime.events.wait_for_subscribers(3), WAIT_LIMIT)
        reply = await channel.unary_unary(f"{V1}/RunPodSandbox")(run_request(pod_config("new")).SerializeToString())
        sandbox = cri.RunPodSandboxResponse.FromString(reply).pod_sandbox_id
        for stream in streams:
            event = cri.ContainerEventResponse.FromString(await stream.read())
            assert event.container_id == sandbox
        streams[0].cancel()
        await asyncio.wait_for(runtime.events.wait_for_subscribers(2), WAIT_LIMIT)
        assert stack.stats(f"{V1}/GetContainerEvents").in_flight == 2
        for stream in streams[1:]:
            stream.cancel()
    await asyncio.wait_for(runtime.events.wait_for_subscribers(0), WAIT_LIMIT)


async def test_stalled_call_delays_nobody(channel: Any, runtime: FakeRuntime) -> None:
    """One call stands still at the runtime; others on the same connections pass."""
    stall = runtime.stall("Status")
    stalled = channel.unary_unary(f"{V1}/Status")(b"")
    await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
    for _ in range(50):
        await asyncio.wait_for(channel.unary_unary(f"{V1}/Version")(b""), WAIT_LIMIT)
    assert not stalled.done()
    stall.release()
    assert await stalled


async def test_slow_reader_stalls_only_itself(relay_path: Path, runtime_path: Path) -> None:
    """A client that does not read: its sender waits, memory stays bounded, a neighbour on the same channel goes on."""
    sent = 0

    async def flood(request: bytes, context: Any) -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(400):
            yield bytes(MIB // 4)
            sent += MIB // 4

    async def echo(request: bytes, context: Any) -> bytes:
        return request

    handlers = {"/test.Flood/Flood": server_stream(flood), "/test.Flood/Echo": unary(echo)}
    # The client's own buffer must not hide the stall.
    small = [("grpc.http2.lookahead_bytes", 65536), ("grpc.http2.bdp_probe", 0)]
    async with (
        grpc_server(runtime_path, handlers, options=[("grpc.http2.bdp_probe", 0)]),
        relay_stack(relay_path, runtime_path) as stack,
        grpc_channel(relay_path, options=small) as channel,
    ):
        before = rss_bytes_of_self()
        stream = channel.unary_stream("/test.Flood/Flood")(b"")
        await stream.read()
        await eventually(lambda: stack.queued > 0, "the relay to hold something back")
        await settled(lambda: sent)
        assert sent < 8 * MIB
        assert stack.queued <= 256 * 1024 + MIB
        large = bytes(2 * MIB)
        assert await channel.unary_unary("/test.Flood/Echo")(large) == large
        assert rss_bytes_of_self() - before < 60 * MIB
        total = MIB // 4
        while part := await stream.read():
            total += len(part)
        assert total == 100 * MIB
        assert stack.queued == 0


async def test_slow_server_stalls_only_its_own_sender(relay_path: Path, runtime_path: Path) -> None:
    """The other direction: a server that does not read holds back one upload and nothing else."""
    gate = asyncio.Event()

    async def sink(requests: Any, context: Any) -> AsyncIterator[bytes]:
        await gate.wait()
        size = 0
        async for part in requests:
            size += len(part)
        yield b"%d" % size

    async def echo(request: bytes, context: Any) -> bytes:
        return request

    handlers = {"/test.Flood/Sink": bidi_stream(sink), "/test.Flood/Echo": unary(echo)}
    async with (
        grpc_server(runtime_path, handlers, options=[("grpc.http2.bdp_probe", 0)]),
        relay_stack(relay_path, runtime_path) as stack,
        grpc_channel(relay_path) as channel,
    ):
        stream = channel.stream_stream("/test.Flood/Sink")()
        written = 0

        async def upload() -> None:
            nonlocal written
            for _ in range(512):
                await stream.write(bytes(MIB // 32))
                written += MIB // 32
            await stream.done_writing()

        uploading = asyncio.create_task(upload())
        await eventually(lambda: written > 0, "the upload to begin")
        await settled(lambda: written)
        assert written < 8 * MIB
        assert not uploading.done()
        large = bytes(2 * MIB)
        assert await channel.unary_unary("/test.Flood/Echo")(large) == large
        gate.set()
        await uploading
        assert await stream.read() == b"%d" % (16 * MIB)
        assert stack.relay.in_flight <= 1


def rss_bytes_of_self() -> int:
    """Resident memory of this process: client, relay and server together."""
    return rss_bytes(os.getpid())


async def settled(value: Any) -> None:
    """Return when a number has stopped to change: nothing can be awaited when nothing is to happen."""
    unchanged, last = 0, value()
    while unchanged < 30:
        await asyncio.sleep(0.005)
        unchanged, last = (unchanged + 1 if value() == last else 0), value()
