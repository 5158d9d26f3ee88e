"""Backends that are full, go away, age or are two: grpcio servers behind a relay in this process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose.config.relay.settings import LimitSettings
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import LOG_BURST, Upstream
from interpose.net.h2.limits import Limits
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.grpcpeer import grpc_channel, grpc_server, unary
from interpose.testing.stack import relay_stack
from tests.support.net import h2_peer
from tests.support.net.echo_service import EchoService, failed


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


async def test_image_calls_are_refused_if_nobody_shall_relay_them(
    start_relay: Callable[..., Any], runtime_path: Path
) -> None:
    """UNIMPLEMENTED with the setting that says so; all other calls pass."""

    async def say(request: bytes, context: Any) -> bytes:
        return b"runtime"

    paths = ["/runtime.v1.ImageService/ListImages", "/runtime.v9.ImageService/New"]
    version = "/runtime.v1.RuntimeService/Version"
    async with grpc_server(runtime_path, {path: unary(say) for path in [*paths, version]}):
        relay = await asyncio.to_thread(start_relay, "--image-service-endpoint", "none")
        async with grpc_channel(relay.socket) as channel:
            assert await channel.unary_unary(version)(b"") == b"runtime"
            for path in paths:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await channel.unary_unary(path)(b"x" * 100_000)
                assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
                assert "--image-endpoint is none" in (caught.value.details() or "")


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
            await asyncio.wait_for(entered.wait(), WAIT_LIMIT)
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

        await asyncio.wait_for(asyncio.gather(*(caller() for _ in range(8))), WAIT_LIMIT)
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
        await asyncio.wait_for(service.entered.wait(), WAIT_LIMIT)
        assert (await failed(other.unary_unary("/test.Echo/Unary")(b""))).code() is grpc.StatusCode.UNAVAILABLE
        hanging.cancel()
        await asyncio.wait_for(service.cancelled.wait(), WAIT_LIMIT)
        assert await other.unary_unary("/test.Echo/Unary")(b"now") == b"now"


class Pace:
    """Dials are not held up here; what each was told is kept."""

    def __init__(self) -> None:
        self.failed: list[int] = []

    async def __call__(self, failed: int) -> None:
        self.failed.append(failed)
        await asyncio.sleep(0)


@asynccontextmanager
async def hanging_up(path: Path, farewell: bytes = b"") -> AsyncIterator[list[None]]:
    """A server that greets and hangs up again, and how often it did."""
    visits: list[None] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(None)
        writer.write(h2_peer.settings() + farewell)
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield visits


@pytest.mark.parametrize("farewell", [b"", h2_peer.goaway(0)], ids=["closes", "says goaway"])
async def test_backend_that_greets_and_hangs_up_is_dialled_ever_slower(
    runtime_path: Path, farewell: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Once at once, as it may have been restarted, then like one that is away; and the log stays short."""
    caplog.set_level(logging.INFO)
    pace = Pace()
    upstream = Upstream(str(runtime_path), hub=Hub(), limits=Limits(), wait=5.0, pace=pace)
    async with hanging_up(runtime_path, farewell) as visits:
        upstream.start()
        await eventually(lambda: len(visits) > 9, "visits")
        await upstream.close()
    # A connection may be gone while its dial is still looked at: then the next dial is counted there.
    assert pace.failed[0] == 0
    assert pace.failed[9] >= 8
    assert pace.failed == sorted(pace.failed)
    assert 1 <= sum("Connected to backend" in one.message for one in caplog.records) <= LOG_BURST
    assert 1 <= sum("Backend connection ended" in one.message for one in caplog.records) <= LOG_BURST


async def test_backend_that_was_of_use_is_dialled_at_once(runtime_path: Path) -> None:
    """However often it hung up early before."""
    pace = Pace()
    upstream = Upstream(str(runtime_path), hub=Hub(), limits=Limits(), wait=5.0, pace=pace)
    async with hanging_up(runtime_path) as visits:
        upstream.start()
        await eventually(lambda: len(visits) > 4, "visits")
        upstream.useful_seconds = 0.0  # from now on every connection lasts long enough
        seen = len(pace.failed)
        await eventually(lambda: 0 in pace.failed[seen:], "a dial at once")
        await upstream.close()


async def test_nothing_is_sent_to_a_backend_that_is_not_trusted(runtime_path: Path) -> None:
    """The next dial may find another one."""
    got: list[bytes] = []
    allowed = False

    def vet(_sock: object) -> None:
        if not allowed:
            raise PermissionError(13, "it is not ours")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(len(h2_peer.PREFACE)))
        if got[-1]:
            writer.write(h2_peer.settings())
            await reader.read()
        writer.close()

    upstream = Upstream(str(runtime_path), hub=Hub(), limits=Limits(), wait=5.0, pace=Pace(), vet=vet)
    async with await asyncio.start_unix_server(serve, runtime_path):
        upstream.start()
        await eventually(lambda: got, "a visit")
        assert (upstream.up, upstream.last_error, set(got)) == (False, "it is not ours", {b""})
        allowed = True
        await eventually(lambda: upstream.up, "a connection")
        await eventually(lambda: got[-1] == h2_peer.PREFACE, "the preface")
        await upstream.close()
