"""Backends that are full, go away, age or are two: grpcio servers behind a relay in this process."""

import asyncio
from pathlib import Path
from typing import Any

import grpc

from interpose.config.settings import LimitSettings
from interpose.testing.echoservice import EchoService, failed
from interpose.testing.eventually import eventually
from interpose.testing.grpcpeer import grpc_channel, grpc_server, unary
from interpose.testing.stack import relay_stack


async def test_image_service_has_a_backend_of_its_own(scratch: Path, relay_path: Path, runtime_path: Path) -> None:
    """The service in the path chooses the backend, for methods nobody has invented yet too."""

    def saying(name: bytes) -> Any:
        async def say(request: bytes, context: Any) -> bytes:
            return name

        return unary(say)

    paths = [
        "/runtime.v1.ImageService/ListImages",
        "/runtime.v1alpha2.ImageService/PullImage",
        "/runtime.v9.ImageService/Imagine",
        "/runtime.v1.RuntimeService/Version",
        "/some.Other/Method",
    ]
    image_path = scratch / "image.sock"
    async with (
        grpc_server(runtime_path, {path: saying(b"runtime") for path in paths}),
        grpc_server(image_path, {path: saying(b"image") for path in paths}),
        relay_stack(relay_path, runtime_path, image=image_path),
        grpc_channel(relay_path) as channel,
    ):
        answers = [await channel.unary_unary(path)(b"") for path in paths]
    assert answers == [b"image", b"image", b"image", b"runtime", b"runtime"]


async def test_full_backend_connection_gets_company(relay_path: Path, runtime_path: Path) -> None:
    """At the peer's MAX_CONCURRENT_STREAMS further connections are dialled, and no call fails."""
    service = EchoService()
    gate = asyncio.Event()
    inside = 0

    async def wait(request: bytes, context: Any) -> bytes:
        nonlocal inside
        inside += 1
        await gate.wait()
        return request

    handlers = {"/test.Echo/Wait": unary(wait), **service.handlers()}
    async with (
        grpc_server(runtime_path, handlers, options=[("grpc.max_concurrent_streams", 2)]),
        relay_stack(relay_path, runtime_path) as stack,
        grpc_channel(relay_path) as channel,
    ):
        await channel.unary_unary("/test.Echo/Unary")(b"")
        calls = [channel.unary_unary("/test.Echo/Wait")(b"%d" % number) for number in range(11)]
        await eventually(lambda: inside == 11, "all calls to be inside the server")
        assert stack.runtime.connections == 6
        gate.set()
        assert [await call for call in calls] == [b"%d" % number for number in range(11)]


async def test_graceful_stop_of_the_backend_loses_no_call(relay_path: Path, runtime_path: Path) -> None:
    """GOAWAY: calls in flight end well, later ones find the next server; the client's connection stays."""
    service = EchoService()
    gate = asyncio.Event()
    entered = asyncio.Event()

    async def wait(request: bytes, context: Any) -> bytes:
        entered.set()
        await gate.wait()
        return b"finished"

    handlers = {"/test.Echo/Wait": unary(wait), **service.handlers()}
    async with relay_stack(relay_path, runtime_path) as stack, grpc_channel(relay_path) as channel:
        async with grpc_server(runtime_path, handlers) as old:
            call = channel.unary_unary("/test.Echo/Wait")(b"")
            await asyncio.wait_for(entered.wait(), 5)
            stopping = asyncio.create_task(old.stop(10))
            await eventually(lambda: not stack.runtime.up, "GOAWAY to arrive")
            # grpcio removes the path when it stops listening, whoever has bound it since.
            await eventually(lambda: not runtime_path.exists(), "the old server to remove its path")
            async with grpc_server(runtime_path, service.handlers()):
                assert await channel.unary_unary("/test.Echo/Unary")(b"next") == b"next"
                gate.set()
                assert await call == b"finished"
                await stopping
        assert stack.listener.accepted == 1


async def test_backend_that_ages_its_connections_loses_no_call(relay_path: Path, runtime_path: Path) -> None:
    """max_connection_age: GOAWAY every moment under load, and every call that was accepted is answered."""
    service = EchoService()
    options = [("grpc.max_connection_age_ms", 100), ("grpc.max_connection_age_grace_ms", 5000)]
    async with (
        grpc_server(runtime_path, service.handlers(), options=options),
        relay_stack(relay_path, runtime_path) as stack,
        grpc_channel(relay_path, options=[("grpc.enable_retries", 1)]) as channel,
    ):
        call = channel.unary_unary("/test.Echo/Unary")

        async def caller() -> None:
            while stack.runtime.dials < 6:
                assert await call(b"ping") == b"ping"

        await asyncio.wait_for(asyncio.gather(*(caller() for _ in range(8))), 20)
        assert stack.listener.accepted == 1


async def test_total_streams_are_limited(relay_path: Path, runtime_path: Path) -> None:
    """Above the limit over all clients a call is refused; it was never started, and others go on."""
    service = EchoService()
    async with (
        grpc_server(runtime_path, service.handlers()),
        relay_stack(relay_path, runtime_path, limits=LimitSettings(max_total_streams=1)),
        grpc_channel(relay_path) as channel,
        grpc_channel(relay_path) as other,
    ):
        hanging = channel.unary_unary("/test.Echo/Hang")(b"")
        await asyncio.wait_for(service.entered.wait(), 5)
        assert (await failed(other.unary_unary("/test.Echo/Unary")(b""))).code() is grpc.StatusCode.UNAVAILABLE
        hanging.cancel()
        await asyncio.wait_for(service.cancelled.wait(), 5)
        assert await other.unary_unary("/test.Echo/Unary")(b"now") == b"now"
