"""grpcio as the independent peer on either side of the relay: generic servers and channels with bytes as messages.

Nothing here knows a service: a test gives its own handlers. Messages are bytes, so that what arrives can be compared
byte for byte with what was sent.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
Options = tuple[tuple[str, Any], ...]


def unary(behaviour: Callable[..., Any]) -> Any:
    """One message in, one out."""
    return grpc.unary_unary_rpc_method_handler(behaviour)


def server_stream(behaviour: Callable[..., Any]) -> Any:
    """One message in, any number out."""
    return grpc.unary_stream_rpc_method_handler(behaviour)


def client_stream(behaviour: Callable[..., Any]) -> Any:
    """Any number in, one out."""
    return grpc.stream_unary_rpc_method_handler(behaviour)


def bidi_stream(behaviour: Callable[..., Any]) -> Any:
    """Any number in, any number out."""
    return grpc.stream_stream_rpc_method_handler(behaviour)


def _merged(*several: Sequence[tuple[str, Any]]) -> Options:
    """Later ones win: grpcio does not say which of two equal names does."""
    return tuple({name: value for options in several for name, value in options}.items())


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, handlers: Mapping[str, Any]) -> None:
        self._handlers = handlers

    def service(self, details: Any) -> Any:
        return self._handlers.get(details.method)


@asynccontextmanager
async def grpc_server(
    path: Path, handlers: Mapping[str, Any], *, options: Sequence[tuple[str, Any]] = (), **more: Any
) -> AsyncIterator[Any]:
    """A grpcio server on `path` inside the block; `handlers` by full method path."""
    server = grpc.aio.server(options=(*UNLIMITED, *options), **more)
    server.add_generic_rpc_handlers((_Handlers(handlers),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield server
    finally:
        await server.stop(None)


@asynccontextmanager
async def grpc_channel(path: Path, *, options: Sequence[tuple[str, Any]] = (), **more: Any) -> AsyncIterator[Any]:
    """A grpcio channel with a connection of its own and no retries: what a test sees is what happened."""
    own: Options = (
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.initial_reconnect_backoff_ms", 50),
        # Also the time a connection may take to be made, which on a busy machine is more than the name says.
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.max_reconnect_backoff_ms", 200),
    )
    async with grpc.aio.insecure_channel(f"unix:{path}", options=_merged(UNLIMITED, own, options), **more) as channel:
        yield channel


def is_late(error: Exception) -> bool:
    """Whether the time of a call was over."""
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
