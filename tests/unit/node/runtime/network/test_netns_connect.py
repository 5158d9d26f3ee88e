"""Connections to a port. In another namespace: tests/integration/test_cni.py."""

import asyncio

import pytest

from interpose.node.runtime.network.netns_connect import connect
from interpose.node.runtime.network.types import NetworkError


async def test_where_we_are() -> None:
    """An empty path is our own network; a port nobody listens on any more is named."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        reader, writer = await connect("", port)
        writer.write(b"x" * 100_000)
        writer.write_eof()
        assert len(await reader.read()) == 100_000
        writer.close()
        await writer.wait_closed()
    with pytest.raises(NetworkError, match=f"port {port} of the pod: Connection refused"):
        await connect("", port)
