"""How a connection becomes SPDY or WebSocket: what a server answers, what a client asks and takes for an answer."""

import pytest

from interpose.net.h1.heads import Heads, RequestHead, ResponseHead
from interpose.net.streaming.channels import PORT_FORWARD, TUNNEL, V1, V2, V3, V4, V5
from interpose.net.streaming.upgrade import (
    SPDY,
    SessionKind,
    StreamTransport,
    UpgradeAgreement,
    UpgradeRefusal,
    UpgradeRefusedError,
    accept_key,
    agreed_protocol,
    negotiate,
    spdy_request,
    websocket_request,
)

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="


def request(raw: bytes) -> RequestHead:
    return Heads().request(raw)


def asked(*fields: str, method: str = "POST") -> RequestHead:
    lines = (f"{method} /exec/abc HTTP/1.1", "Host: x", *fields, "", "")
    return request("\r\n".join(lines).encode())


def websocket(*protocols: str, **others: str) -> RequestHead:
    names = [f"Sec-WebSocket-Protocol: {protocol}" for protocol in protocols]
    fields = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY.decode()} | others
    return asked("Connection: Upgrade", *(f"{name}: {value}" for name, value in fields.items()), *names, method="GET")


def spdy(*versions: str) -> RequestHead:
    named = [f"X-Stream-Protocol-Version: {protocol}" for protocol in versions]
    return asked("Connection: Upgrade", f"Upgrade: {SPDY}", *named)


def answer(raw: bytes) -> ResponseHead:
    return Heads().response(raw, "GET")


def test_the_proof_is_that_of_the_rfc() -> None:
    """The accept key is that of the example in RFC 6455, 1.3."""
    assert accept_key(KEY) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(
    ("kind", "head", "transport", "protocol"),
    [
        (SessionKind.COMMAND, spdy(V4, V3, V2, V1), StreamTransport.SPDY, V4),
        (SessionKind.COMMAND, spdy(V5, f"{V3}, {V4}"), StreamTransport.SPDY, V3),
        (SessionKind.COMMAND, spdy(V1), StreamTransport.SPDY, V1),
        (SessionKind.COMMAND, spdy(), StreamTransport.SPDY, V1),
        (SessionKind.PORTS, spdy(PORT_FORWARD), StreamTransport.SPDY, PORT_FORWARD),
        (SessionKind.PORTS, spdy(), StreamTransport.SPDY, PORT_FORWARD),
        (SessionKind.COMMAND, websocket(V5, V4), StreamTransport.WEBSOCKET, V5),
        (SessionKind.COMMAND, websocket(f"v4.base64.channel.k8s.io, {V4}"), StreamTransport.WEBSOCKET, V4),
        (SessionKind.COMMAND, websocket(), StreamTransport.WEBSOCKET, V1),
        (SessionKind.PORTS, websocket(TUNNEL), StreamTransport.WEBSOCKET, TUNNEL),
        (SessionKind.PORTS, websocket(V4), StreamTransport.WEBSOCKET, V4),
    ],
)
def test_the_first_that_both_speak_is_agreed(
    kind: SessionKind, head: RequestHead, transport: StreamTransport, protocol: str
) -> None:
    """In the client's order; a client takes the answer for what it is."""
    agreed = negotiate(kind, head)
    assert isinstance(agreed, UpgradeAgreement)
    assert (agreed.transport, agreed.protocol) == (transport, protocol)
    read = answer(agreed.answer)
    assert read.status == 101
    if protocol != V1:
        assert agreed_protocol(read, transport, [protocol], KEY) == protocol


@pytest.mark.parametrize(
    ("head", "status", "words"),
    [
        (asked(method="DELETE"), 405, "method DELETE"),
        (asked("Content-Length: 5", "Connection: Upgrade", f"Upgrade: {SPDY}"), 400, "has a body"),
        (asked(), 400, "Connection: Upgrade"),
        (asked("Connection: Upgrade", "Upgrade: h2c"), 400, "SPDY/3.1 or websocket"),
        (asked(f"Upgrade: {SPDY}"), 400, "Connection: Upgrade"),
        (spdy("v9.channel.k8s.io"), 403, "client supports ('v9.channel.k8s.io',)"),
        (websocket("v4.base64.channel.k8s.io"), 403, "base64 is not spoken"),
        (websocket("chat"), 403, "asked for are ('chat',)"),
        (websocket(V5, **{"Sec-WebSocket-Version": "8"}), 426, "version 13"),
        (asked("Connection: Upgrade", "Upgrade: websocket"), 400, "needs GET"),
    ],
)
def test_whatever_else_is_refused_with_a_reason(head: RequestHead, status: int, words: str) -> None:
    """In a whole answer of HTTP."""
    refused = negotiate(SessionKind.COMMAND, head)
    assert isinstance(refused, UpgradeRefusal)
    assert refused.status == status
    assert words in refused.message
    raw, _, body = refused.answer.partition(b"\r\n\r\n")
    read = answer(raw + b"\r\n\r\n")
    assert (read.status, read.length) == (status, len(body))


def test_a_refusal_names_what_is_spoken() -> None:
    """As Go's clients look for it."""
    refused = negotiate(SessionKind.COMMAND, spdy("v9"))
    assert isinstance(refused, UpgradeRefusal)
    assert [value for _, value in refused.headers] == [V4, V3, V2, V1]


def test_what_a_client_asks_a_server_understands() -> None:
    """Both ways to ask."""
    agreed = negotiate(SessionKind.COMMAND, request(spdy_request("/exec/abc", "x:1", [V4, V3])))
    assert isinstance(agreed, UpgradeAgreement)
    assert agreed.protocol == V4
    agreed = negotiate(SessionKind.COMMAND, request(websocket_request("/exec/abc", "x:1", [V5], KEY)))
    assert isinstance(agreed, UpgradeAgreement)
    assert agreed.protocol == V5


def switched(*fields: str) -> ResponseHead:
    lines = ("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", *fields, "", "")
    return answer("\r\n".join(lines).encode())


def test_a_server_that_names_no_version_speaks_the_oldest() -> None:
    """The last of those that were asked for."""
    assert agreed_protocol(switched(f"Upgrade: {SPDY}"), StreamTransport.SPDY, [V4, V1]) == V1


@pytest.mark.parametrize(
    ("head", "transport", "words"),
    [
        (
            answer(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
            StreamTransport.SPDY,
            "answered 403 Forbidden",
        ),
        (switched("Upgrade: h2c"), StreamTransport.SPDY, "switched to 'h2c'"),
        (switched(), StreamTransport.SPDY, "switched to ''"),
        (switched("Upgrade: websocket"), StreamTransport.WEBSOCKET, "did not prove"),
        (
            switched("Upgrade: websocket", f"Sec-WebSocket-Accept: {accept_key(KEY)}"),
            StreamTransport.WEBSOCKET,
            "chose protocol none",
        ),
        (switched(f"Upgrade: {SPDY}", "X-Stream-Protocol-Version: v9"), StreamTransport.SPDY, "chose protocol v9"),
    ],
)
def test_an_answer_that_agrees_to_nothing_is_refused(
    head: ResponseHead, transport: StreamTransport, words: str
) -> None:
    """And says what the server did."""
    with pytest.raises(UpgradeRefusedError, match=words) as caught:
        agreed_protocol(head, transport, [V4], KEY)
    assert caught.value.status == head.status
