"""The connection of a client: connect to the host in a URL, ask for the upgrade, and read what was agreed.

Invariant: errors name the host and the server's message, never the path: a reader of the log could use the token.
"""

import asyncio
import base64
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from interpose.net.h1.heads import Heads, MalformedError, ResponseHead
from interpose.net.h1.messages import BodyPart, ResponseReader
from interpose.net.streaming.byte_transport import (
    ByteTransport,
    SocketTransport,
    TcpTransport,
    WebSocketTransport,
    connect,
)
from interpose.net.streaming.channels import PORT_FORWARD, TUNNEL, V1, V2, V3, V4, V5
from interpose.net.streaming.upgrade import (
    SessionKind,
    StreamTransport,
    UpgradeRefusedError,
    agreed_protocol,
    spdy_request,
    websocket_request,
)

UrlSource = str | Callable[[], Awaitable[str]]
_MOST_TEXT: Final = 500  # characters of a refusal that are shown
_REFUSAL_TIMEOUT: Final = 2.0  # seconds for the text of a refusal

# What is asked for under each name, best first.
OFFERS: Final[Mapping[tuple[str, SessionKind], tuple[StreamTransport, tuple[str, ...]]]] = {
    ("websocket", SessionKind.COMMAND): (StreamTransport.WEBSOCKET, (V5,)),
    ("websocket-v4", SessionKind.COMMAND): (StreamTransport.WEBSOCKET, (V4,)),
    ("spdy", SessionKind.COMMAND): (StreamTransport.SPDY, (V4, V3, V2, V1)),
    ("websocket", SessionKind.PORTS): (StreamTransport.WEBSOCKET, (TUNNEL,)),
    ("websocket-v4", SessionKind.PORTS): (StreamTransport.WEBSOCKET, (V4,)),
    ("spdy", SessionKind.PORTS): (StreamTransport.SPDY, (PORT_FORWARD,)),
}


class StreamError(Exception):
    """A stream could not be opened, or broke, or the command could not be run."""


class Upgraded(NamedTuple):
    """A connection that speaks what was agreed. `where` is the host, for errors."""

    wire: ByteTransport
    transport: StreamTransport
    protocol: str
    where: str


class _Endpoint(NamedTuple):
    host: str
    port: int
    target: str
    tls: bool

    @property
    def where(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


async def dial(
    source: UrlSource,
    kind: SessionKind,
    names: tuple[str, ...],
    *,
    timeout: float,
    context: ssl.SSLContext | None = None,
) -> Upgraded:
    """Ask for each of the names in turn until the server agrees. StreamError if it does not."""
    refusals: list[str] = []
    where = ""
    for name in names:
        offer = OFFERS.get((name, kind))
        if offer is None:
            raise StreamError(f"there is no protocol {name!r}: {', '.join(sorted({known for known, _ in OFFERS}))}")
        # A new URL for each attempt: a server may have used up the token of the one that it refused.
        endpoint = _parse_url(source if isinstance(source, str) else await source())
        where = endpoint.where
        try:
            async with asyncio.timeout(timeout):
                return await _upgrade(endpoint, *offer, context)
        except UpgradeRefusedError as refusal:
            refusals.append(f"{name}: {refusal}")
        except TimeoutError:
            raise StreamError(f"{where}: no answer within {timeout:g} s") from None
        except (OSError, MalformedError) as error:
            raise StreamError(f"{where}: {str(error) or type(error).__name__}") from None
    raise StreamError(f"{where}: the server refused the stream ({'; '.join(refusals)})")


def _parse_url(url: str) -> _Endpoint:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise StreamError("the runtime answered with a URL that is none for streams (http or https, with a host)")
    tls = parts.scheme == "https"
    target = parts.path or "/"
    if parts.query:
        target += f"?{parts.query}"
    if not target.isascii() or not target.isprintable() or " " in target:
        raise StreamError(f"the runtime answered with a URL for {host} whose path cannot be asked for")
    return _Endpoint(host, port or (443 if tls else 80), target, tls)


async def _upgrade(
    endpoint: _Endpoint, transport: StreamTransport, protocols: tuple[str, ...], context: ssl.SSLContext | None
) -> Upgraded:
    connection = await _connect_to(endpoint, context)
    try:
        key = base64.b64encode(os.urandom(16))
        if transport is StreamTransport.WEBSOCKET:
            request = websocket_request(endpoint.target, endpoint.where, protocols, key)
        else:
            request = spdy_request(endpoint.target, endpoint.where, protocols)
        connection.send(request)
        responses = ResponseReader(Heads(entries=0))
        head = await _read_head(connection, responses)
        try:
            protocol = agreed_protocol(head, transport, protocols, key)
        except UpgradeRefusedError as refusal:
            text = await _read_refusal(connection, responses) if head.status != 101 else ""
            raise UpgradeRefusedError(refusal.status, f"{refusal}: {text}" if text else str(refusal)) from None
        connection.unread(responses.take_rest())
        wire: ByteTransport = connection
        if protocol == TUNNEL:
            wire = WebSocketTransport(connection, client=True, random=os.urandom)
        return Upgraded(wire, transport, protocol, endpoint.where)
    except BaseException:
        connection.abort()
        await connection.close()
        raise


async def _connect_to(endpoint: _Endpoint, context: ssl.SSLContext | None) -> TcpTransport | SocketTransport:
    if not endpoint.tls:
        return await connect(endpoint.host, endpoint.port)
    tls = context or ssl.create_default_context()
    return TcpTransport(*await asyncio.open_connection(endpoint.host, endpoint.port, ssl=tls))


async def _read_head(wire: ByteTransport, responses: ResponseReader) -> ResponseHead:
    responses.expect("GET")
    while True:
        head = responses.next()
        if isinstance(head, ResponseHead) and not head.interim:
            return head
        if head is None:
            data = await wire.read()
            if not data:
                raise ConnectionResetError("the server closed the connection instead of an answer")
            responses.receive(data)


async def _read_refusal(wire: ByteTransport, responses: ResponseReader) -> str:
    """The text of a refusal, as far as it arrives at once."""
    responses.decode = True
    body = b""
    with suppress(TimeoutError, OSError, MalformedError):
        async with asyncio.timeout(_REFUSAL_TIMEOUT):
            while len(body) < _MOST_TEXT:
                part = responses.next()
                if isinstance(part, BodyPart):
                    body += part.data
                    if part.end:
                        break
                    continue
                data = await wire.read()
                if not data:
                    break
                responses.receive(data)
    return " ".join(body[:_MOST_TEXT].decode(errors="replace").split())
