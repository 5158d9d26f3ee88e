"""Network probes of a container: an HTTP GET, a TCP connection, the health service of gRPC.

For probes and for lifecycle hooks. No connection is kept, no proxy is used, certificates are not verified (as the
kubelet does it: the server is our own container). Every failure is a `ProbeError` with a short reason. The two
messages of `grpc.health.v1.Health/Check` are small and encoded by hand.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Sequence
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from interpose import __version__
from interpose.net.grpc.exchange import Exchange
from interpose.net.grpc.framing import frame, request_headers
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub, Link
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.limits import Limits
from interpose.node.pods.prober.http import AnswerReader, HttpAnswer
from interpose.node.pods.spec import ContainerSpec, HttpAction, TcpAction

_MOST_REDIRECTS: Final = 10
_LARGEST_BODY: Final = 10 << 10
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_READ: Final = 64 << 10
_LARGEST_PORT: Final = 65535
# What OpenSSL finds where a record of TLS should begin: its releases have several words for it.
_NO_TLS: Final = frozenset(("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"))
_LEFT_OUT: Final = frozenset(("accept", "user-agent"))  # if they are given and empty


class ProbeError(Exception):
    """There was no answer, or none that can be understood."""


class NoTlsError(ProbeError):
    """Who was asked with TLS answered without."""


def port_of(action: HttpAction | TcpAction, container: ContainerSpec) -> int:
    """The number of the port; one may be called by the name it has in the container. AskError if there is none."""
    port = action.port
    if isinstance(port, str):
        named = next((declared.container_port for declared in container.ports if declared.name == port), None)
        if named is None and not port.isdecimal():
            raise ProbeError(f"container {container.name} has no port named {port!r}")
        port = named if named is not None else int(port)
    if not 0 < port <= _LARGEST_PORT:
        raise ProbeError(f"port {port} is not between 1 and {_LARGEST_PORT}")
    return port


async def tcp_connect(host: str, port: int, timeout: float) -> None:
    """Open a connection and close it; AskError if nobody takes it in time."""
    async with _limited(f"{host}:{port}", timeout):
        _, writer = await asyncio.open_connection(host, port)
        await _hang_up(writer)


async def http_get(
    host: str,
    port: int,
    path: str = "/",
    *,
    scheme: str = "HTTP",
    headers: Sequence[tuple[str, str]] = (),
    timeout: float,
) -> HttpAnswer:
    """The answer to a GET. Redirects to the same host are followed; one that leads elsewhere is the answer."""
    url = f"{scheme.lower()}://{_authority(host, port)}/{path.removeprefix('/')}"
    async with _limited(url, timeout):
        for _ in range(_MOST_REDIRECTS + 1):
            answer = await _get(url, headers)
            if not answer.location or answer.status not in _REDIRECTS:
                return answer
            target = urljoin(url, answer.location)
            if urlsplit(target).hostname != urlsplit(url).hostname:
                return answer
            url = target
    raise ProbeError(f"stopped after {_MOST_REDIRECTS} redirects")


async def _get(url: str, headers: Sequence[tuple[str, str]]) -> HttpAnswer:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=_trusting() if secure else None
    )
    try:
        writer.write(request_bytes(url, headers))
        return await _read(reader)
    finally:
        await _hang_up(writer)


def request_bytes(url: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """A GET request. Headers given replace our own of the same name; an empty User-Agent or Accept leaves it out.

    An empty Host says nothing, and a request without one is refused by many: ours stays.
    """
    parts = urlsplit(url)
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        target += "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    fields = {"host": ("Host", parts.netloc), "user-agent": ("User-Agent", f"interpose-probe/{__version__}")}
    fields["accept"] = ("Accept", "*/*")
    given = [header for header in headers if header[1] or header[0].lower() != "host"]
    replaced = {name.lower() for name, _ in given}
    lines = [line for name, line in fields.items() if name not in replaced]
    lines += [(name, value) for name, value in given if value or name.lower() not in _LEFT_OUT]
    for name, value in lines:
        if any(letter in name + value for letter in "\r\n\0"):
            raise ProbeError(f"header {name!r} holds a line break")
    text = "".join(f"{name}: {value}\r\n" for name, value in [*lines, ("Connection", "close")])
    return f"GET {target} HTTP/1.1\r\n{text}\r\n".encode()


async def _read(reader: asyncio.StreamReader) -> HttpAnswer:
    answers = AnswerReader(_LARGEST_BODY)
    while True:
        answer = answers.receive(await reader.read(_READ))
        if answer is not None:
            return answer


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """Not a graceful end: the other side may not read any more, and nobody waits for it."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.asynccontextmanager
async def _limited(what: str, timeout: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError:
        raise ProbeError(f"{what}: no answer within {timeout:g} s") from None
    except (OSError, ssl.SSLError, UnicodeError, ValueError) as error:
        kind = NoTlsError if getattr(error, "reason", "") in _NO_TLS else ProbeError
        raise kind(f"{what}: {error}") from None


# -- gRPC

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
        raise ProbeError(f"{where}: no answer within {timeout:g} s") from None
    except (OSError, UnicodeError) as error:
        raise ProbeError(f"{where}: {error}") from None
    except RpcError as error:
        if error.code is Code.UNIMPLEMENTED:
            raise ProbeError(f"{where}: has no health service: {error}") from None
        raise ProbeError(f"{where}: {error}") from None
    status = read_status(answer)
    if status != _SERVING:
        raise ProbeError(f"{where}: service {service!r} is {_NAMES.get(status, status)}")


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
    """An encoded HealthCheckRequest for this service."""
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
