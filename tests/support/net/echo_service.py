"""A made-up gRPC service for the peers of the relay: every kind of call, and a memory of what it saw."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from interpose.testing.grpcpeer import bidi_stream, client_stream, server_stream, unary

DETAILS = bytes(range(256))


class EchoService:
    """A service nobody has heard of, which remembers what it saw."""

    def __init__(self) -> None:
        self.metadata: list[tuple[str, str | bytes]] = []
        self.remaining: float | None = None
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def echo(self, request: bytes, context: Any) -> bytes:
        """The message back, with metadata on both ends."""
        self.metadata = [tuple(item) for item in context.invocation_metadata()]
        self.remaining = context.time_remaining()
        await context.send_initial_metadata((("x-initial", "first"), ("x-initial-bin", DETAILS)))
        context.set_trailing_metadata((("x-trailer", "last"), ("x-trailer-bin", DETAILS)))
        return request

    async def count(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        """As many messages as asked for."""
        for number in range(int(request)):
            yield b"%d" % number

    async def join(self, requests: Any, context: Any) -> bytes:
        """All messages in one."""
        return b",".join([message async for message in requests])

    async def mirror(self, requests: Any, context: Any) -> AsyncIterator[bytes]:
        """Each message back before the next is read."""
        async for message in requests:
            yield message

    async def fail(self, request: bytes, context: Any) -> bytes:
        """A full status."""
        context.set_trailing_metadata((("grpc-status-details-bin", DETAILS),))
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "kein Platz für Töpfe: 100% voll\n☃")
        raise AssertionError("abort returns never")

    async def fail_midway(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        """A message, then an error."""
        yield b"one"
        await context.abort(grpc.StatusCode.DATA_LOSS, "the rest is gone")

    async def hang(self, request: bytes, context: Any) -> bytes:
        """Never ends by itself."""
        self.remaining = context.time_remaining()
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return b""

    def handlers(self) -> dict[str, Any]:
        """By path."""
        return {
            "/test.Echo/Unary": unary(self.echo),
            "/test.Echo/Count": server_stream(self.count),
            "/test.Echo/Join": client_stream(self.join),
            "/test.Echo/Mirror": bidi_stream(self.mirror),
            "/test.Echo/Fail": unary(self.fail),
            "/test.Echo/FailMidway": server_stream(self.fail_midway),
            "/test.Echo/Hang": unary(self.hang),
            "/runtime.v1.RuntimeService/Version": unary(self.echo),
            "/runtime.v1alpha2.RuntimeService/Version": unary(self.echo),
        }


async def failed(call: Any) -> grpc.aio.AioRpcError:
    """The error a call ends with."""
    try:
        reply = await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError(f"the call did not fail, it answered {reply!r:.200}")
