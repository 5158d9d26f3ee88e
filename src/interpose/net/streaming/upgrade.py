"""How a connection becomes SPDY or WebSocket, and in which version: what a server answers, what a client asks.

Invariant: a server agrees only to what it speaks; whatever else is asked for gets an answer that says what would do.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from interpose.net.h1.heads import Framing, RequestHead, ResponseHead
from interpose.net.streaming.channels import PORT_FORWARD, TUNNEL, V1, V2, V3, V4, V5

SPDY: Final = "SPDY/3.1"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_PHRASES: Final = {
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


class SessionKind(Enum):
    """What is asked for: a command's streams (exec, attach), or ports."""

    COMMAND = "command"
    PORTS = "ports"


class StreamTransport(Enum):
    """The protocol below the channels of a session."""

    SPDY = "SPDY/3.1"
    WEBSOCKET = "WebSocket"


# What we support, best first. The last of each is what a client gets that names none.
SUPPORTED: Final[Mapping[tuple[SessionKind, StreamTransport], tuple[str, ...]]] = {
    (SessionKind.COMMAND, StreamTransport.SPDY): (V4, V3, V2, V1),
    (SessionKind.COMMAND, StreamTransport.WEBSOCKET): (V5, V4, V1),
    (SessionKind.PORTS, StreamTransport.SPDY): (PORT_FORWARD,),
    (SessionKind.PORTS, StreamTransport.WEBSOCKET): (TUNNEL, V4, V1),
}


class UpgradeAgreement(NamedTuple):
    """The server agrees: send `answer`, then speak `protocol`."""

    transport: StreamTransport
    protocol: str
    answer: bytes


class UpgradeRefusal(NamedTuple):
    """The server refuses: send `answer`, then close."""

    status: int
    message: str
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def answer(self) -> bytes:
        """The HTTP response, head and body."""
        body = self.message.encode() + b"\n"
        lines = [
            f"HTTP/1.1 {self.status} {_PHRASES[self.status]}",
            *(f"{name}: {value}" for name, value in self.headers),
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        return "\r\n".join((*lines, "", "")).encode("latin-1") + body


class UpgradeRefusedError(Exception):
    """A server did not agree. `status` is what it answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def negotiate(kind: SessionKind, head: RequestHead) -> UpgradeAgreement | UpgradeRefusal:
    """Decide how to answer a request for a stream."""
    if head.method not in ("GET", "POST"):
        return UpgradeRefusal(
            405, f"method {head.method} is not for streams, use GET or POST", (("Allow", "GET, POST"),)
        )
    if head.framing is not Framing.NONE:
        return UpgradeRefusal(400, "unable to upgrade: the request has a body")
    wanted = (head.get(b"upgrade") or b"").decode("latin-1").strip().lower()
    if not head.upgrade or wanted not in ("websocket", SPDY.lower()):
        return UpgradeRefusal(
            400,
            f"unable to upgrade: the request must have Connection: Upgrade and Upgrade: {SPDY} or websocket",
            (("Upgrade", f"{SPDY}, websocket"),),
        )
    return _websocket(kind, head) if wanted == "websocket" else _spdy(kind, head)


def _spdy(kind: SessionKind, head: RequestHead) -> UpgradeAgreement | UpgradeRefusal:
    supported = SUPPORTED[kind, StreamTransport.SPDY]
    requested = header_values(head.headers, b"x-stream-protocol-version")
    chosen = _choose_protocol(requested, supported)
    if chosen is None:
        message = (
            f"unable to upgrade: unable to negotiate protocol: client supports {requested}, server accepts {supported}"
        )
        return UpgradeRefusal(
            403, message, tuple(("X-Accepted-Stream-Protocol-Versions", protocol) for protocol in supported)
        )
    fields = [("Upgrade", SPDY), *((("X-Stream-Protocol-Version", chosen),) if requested else ())]
    return UpgradeAgreement(StreamTransport.SPDY, chosen, _switching_response(fields))


def _websocket(kind: SessionKind, head: RequestHead) -> UpgradeAgreement | UpgradeRefusal:
    key = head.get(b"sec-websocket-key")
    if head.method != "GET" or not key:
        return UpgradeRefusal(400, "unable to upgrade: WebSocket needs GET and Sec-WebSocket-Key")
    if head.get(b"sec-websocket-version") != b"13":
        return UpgradeRefusal(
            426, "unable to upgrade: WebSocket is spoken in version 13", (("Sec-WebSocket-Version", "13"),)
        )
    supported = SUPPORTED[kind, StreamTransport.WEBSOCKET]
    requested = header_values(head.headers, b"sec-websocket-protocol")
    chosen = _choose_protocol(requested, supported)
    if chosen is None:
        hint = "; base64 is not spoken" if any("base64" in protocol for protocol in requested) else ""
        message = f"unable to upgrade: WebSocket protocols asked for are {requested}, spoken are {supported}{hint}"
        return UpgradeRefusal(403, message)
    fields = [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept_key(key))]
    if requested:
        fields.append(("Sec-WebSocket-Protocol", chosen))
    return UpgradeAgreement(StreamTransport.WEBSOCKET, chosen, _switching_response(fields))


def _choose_protocol(requested: Sequence[str], supported: Sequence[str]) -> str | None:
    """The first protocol of the client that we support; the oldest if it names none."""
    if not requested:
        return supported[-1]
    return next((protocol for protocol in requested if protocol in supported), None)


def _switching_response(fields: Sequence[tuple[str, str]]) -> bytes:
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def accept_key(key: bytes) -> str:
    """What proves that a server has read a client's key (RFC 6455, 4.2.2)."""
    digest = hashlib.sha1(key.strip() + _GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode("ascii")


def header_values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> tuple[str, ...]:
    """All values of a header, whether it is there several times or has commas."""
    values = [value.decode("latin-1") for found, value in headers if found == name]
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def spdy_request(target: str, host: str, protocols: Sequence[str]) -> bytes:
    """The request of a client for SPDY."""
    versions = [("X-Stream-Protocol-Version", protocol) for protocol in protocols]
    return _make_request("POST", target, host, [("Upgrade", SPDY), *versions, ("Content-Length", "0")])


def websocket_request(target: str, host: str, protocols: Sequence[str], key: bytes) -> bytes:
    """The request of a client for WebSocket; the key is 16 random bytes in base64."""
    fields = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", key.decode("ascii")),
        ("Sec-WebSocket-Protocol", ", ".join(protocols)),
    ]
    return _make_request("GET", target, host, fields)


def _make_request(method: str, target: str, host: str, fields: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "User-Agent: interpose", "Connection: Upgrade"]
    lines += [f"{name}: {value}" for name, value in fields]
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def agreed_protocol(head: ResponseHead, transport: StreamTransport, requested: Sequence[str], key: bytes = b"") -> str:
    """What the server chose. UpgradeRefusedError if it did not agree, or to something else."""
    if head.status != 101:
        raise UpgradeRefusedError(head.status, f"answered {head.status} {head.reason}".rstrip())
    upgrade = (head.get(b"upgrade") or b"").decode("latin-1").strip()
    if upgrade.lower() != transport.value.lower():
        raise UpgradeRefusedError(101, f"switched to {upgrade!r} when asked for {transport.value}")
    if transport is StreamTransport.WEBSOCKET:
        if head.get(b"sec-websocket-accept") != accept_key(key).encode("ascii"):
            raise UpgradeRefusedError(101, "did not prove that it speaks WebSocket")
        chosen = header_values(head.headers, b"sec-websocket-protocol")
    else:
        # A server that names none speaks the oldest.
        chosen = header_values(head.headers, b"x-stream-protocol-version") or tuple(requested[-1:])
    if len(chosen) != 1 or chosen[0] not in requested:
        raise UpgradeRefusedError(101, f"chose protocol {', '.join(chosen) or 'none'} when asked for {list(requested)}")
    return chosen[0]
