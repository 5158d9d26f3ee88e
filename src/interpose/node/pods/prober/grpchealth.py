"""The health check of gRPC (`grpc.health.v1.Health/Check`), asked over TCP. Two small messages, read by hand."""

import asyncio
from typing import Final

from interpose.net.grpc.exchange import Exchange
from interpose.net.grpc.framing import frame, request_headers
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub, Link
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.limits import Limits
from interpose.node.pods.prober.client import AskError

_CHECK: Final = b"/grpc.health.v1.Health/Check"
_SERVING: Final = 1
_STATUS_FIELD: Final = 0x08  # field 1, a number
_SERVICE_FIELD: Final = b"\x0a"  # field 1, a text
_LARGEST: Final = 64 << 10
_NAMES: Final = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}


async def grpc_health(host: str, port: int, service: str = "", *, timeout: float) -> None:
    """Nothing if the service says that it serves; AskError with what it says instead."""
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(timeout):
            answer = await _check(host, port, request_message(service), timeout)
    except TimeoutError:
        raise AskError(f"{where}: no answer within {timeout:g} s") from None
    except (OSError, UnicodeError) as error:
        raise AskError(f"{where}: {error}") from None
    except RpcError as error:
        if error.code is Code.UNIMPLEMENTED:
            raise AskError(f"{where}: has no health service: {error}") from None
        raise AskError(f"{where}: {error}") from None
    status = read_status(answer)
    if status != _SERVING:
        raise AskError(f"{where}: service {service!r} is {_NAMES.get(status, status)}")


async def _check(host: str, port: int, message: bytes, timeout: float) -> bytes:
    loop = asyncio.get_running_loop()
    hub = Hub()
    conn = ClientConnection(limits=Limits(), huffman=hub.huffman, dirty=hub.dirty)
    closed = loop.create_future()
    link = Link(conn, hub, closed.set_result)
    await loop.create_connection(lambda: link, host, port)
    try:
        conn.start()
        exchange = Exchange(_LARGEST)
        stream = conn.open(exchange, request_headers(_CHECK, (), timeout), False)
        stream.send_body(frame(message), True)
        hub.flush()
        return (await exchange.reply).message(_LARGEST)
    finally:
        link.abort()
        await asyncio.wait([closed])


def request_message(service: str) -> bytes:
    """A HealthCheckRequest."""
    name = service.encode()
    return _SERVICE_FIELD + _varint(len(name)) + name if name else b""


def read_status(message: bytes) -> int:
    """The status of a HealthCheckResponse; 0 if it has none that can be read."""
    if not message or message[0] != _STATUS_FIELD:
        return 0
    value = shift = 0
    for byte in message[1:11]:
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    return 0


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
