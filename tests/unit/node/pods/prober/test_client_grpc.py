"""Health checks of gRPC, against a server of the gRPC project."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from interpose.node.pods.prober.client import ProbeError, grpc_health, read_status, request_message
from interpose.testing.eventually import WAIT_LIMIT


class _Health(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Says that it serves, does not, or knows no such service."""

    def service(self, details: Any) -> Any:
        if details.method != "/grpc.health.v1.Health/Check":
            return None

        async def check(request: bytes, context: Any) -> bytes:
            match request:
                case b"":
                    return b"\x08\x01"
                case b"\x0a\x04down":
                    return b"\x08\x02"
                case b"\x0a\x04slow":
                    await asyncio.Event().wait()
                case _:
                    await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
            return b""

        return grpc.unary_unary_rpc_method_handler(check)


@asynccontextmanager
async def served(*handlers: Any) -> AsyncIterator[int]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


async def test_a_service_that_serves() -> None:
    """Nothing is said."""
    async with served(_Health()) as port:
        await grpc_health("127.0.0.1", port, timeout=WAIT_LIMIT)


@pytest.mark.parametrize(
    ("service", "words"),
    [("down", "service 'down' is NOT_SERVING"), ("other", "unknown service"), ("x" * 200, "unknown service")],
)
async def test_services_that_do_not(service: str, words: str) -> None:
    """In its own words."""
    async with served(_Health()) as port:
        with pytest.raises(ProbeError, match=words):
            await grpc_health("127.0.0.1", port, service, timeout=WAIT_LIMIT)


async def test_a_server_without_health_checks() -> None:
    """That is a mistake of the manifest, and said so."""
    async with served() as port:
        with pytest.raises(ProbeError, match="has no health service"):
            await grpc_health("127.0.0.1", port, timeout=WAIT_LIMIT)


async def test_nobody_in_time_and_nobody_there() -> None:
    """The address is named."""
    async with served(_Health()) as port:
        with pytest.raises(ProbeError, match="no answer within"):
            await grpc_health("127.0.0.1", port, "slow", timeout=0.1)
    with pytest.raises(ProbeError, match=f"127.0.0.1:{port}"):
        await grpc_health("127.0.0.1", port, timeout=WAIT_LIMIT)


async def test_a_server_that_hangs_up() -> None:
    """Is a failure, not a wait."""

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ProbeError):
            await grpc_health("127.0.0.1", server.sockets[0].getsockname()[1], timeout=WAIT_LIMIT)


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (b"", 0),
        (b"\x08\x01", 1),
        (b"\x08\x80\x01", 128),
        (b"\x10\x01", 0),
        (b"\x08\xff", 0),
        (b"\x08" + b"\xff" * 20, 0),
    ],
)
def test_statuses_by_their_bytes(message: bytes, status: int) -> None:
    """What cannot be read is unknown."""
    assert read_status(message) == status


def test_requests_by_their_bytes() -> None:
    """Long names have a longer length."""
    assert request_message("") == b""
    assert request_message("abc") == b"\x0a\x03abc"
    assert request_message("x" * 200) == b"\x0a\xc8\x01" + b"x" * 200
