"""A pass-through proxy as one would write it with grpc.aio: the obvious way in Python, for comparison.

Generic handlers forward any method as bytes, with metadata, trailers and status. Usage: grpcaio_proxy.py LISTEN BACKEND
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import Any

import grpc

LIMITS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# Set by the transport itself on each side; sending them on would double them.
OWN_KEYS = ("user-agent", "grpc-", ":")


class PassThrough(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Every call of every method goes to the backend as it is."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        forward = self._channel.stream_stream(details.method)

        async def handle(requests: Any, context: Any) -> Any:
            metadata = [(k, v) for k, v in context.invocation_metadata() if not k.startswith(OWN_KEYS)]
            call = forward(requests, metadata=metadata, timeout=context.time_remaining())
            try:
                async for reply in call:
                    yield reply
            except grpc.aio.AioRpcError as error:
                context.set_trailing_metadata(error.trailing_metadata())
                await context.abort(error.code(), error.details())
            context.set_trailing_metadata(await call.trailing_metadata())

        return grpc.stream_stream_rpc_method_handler(handle)


async def main(listen: str, backend: str) -> None:
    options = [*LIMITS, ("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{backend}", options=options) as channel:
        server = grpc.aio.server(handlers=[PassThrough(channel)], options=LIMITS)
        server.add_insecure_port(f"unix:{listen}")
        await server.start()
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        await server.stop(grace=0)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
