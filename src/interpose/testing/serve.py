"""Serving a FakeRuntime on a socket, with the server every daemon of ours uses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from interpose.net.grpc.server import LocalServer, serve
from interpose.testing.fakeruntime import FakeRuntime


@asynccontextmanager
async def serve_runtime(path: str | Path, runtime: FakeRuntime) -> AsyncIterator[LocalServer]:
    """The runtime answers on `path` inside the block; leaving it is a crash: connections end, the file goes."""
    server = await serve(path, runtime.handlers())
    try:
        yield server
    finally:
        await server.close()
        Path(path).unlink(missing_ok=True)  # noqa: ASYNC240 - a test's own file
