"""How a connection becomes SPDY or WebSocket: what a server answers, what a client asks and takes for an answer."""

import pytest

from interpose.net.h1.heads import Heads, RequestHead, ResponseHead
from interpose.net.streaming.channels import PORT_FORWARD, TUNNEL, V1, V2, V3, V4, V5
from interpose.net.streaming.upgrade import (
    SPDY,
    Agreed,
    Kind,
    Refused,
    Transport,
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
    names = [f"Sec-WebSocket-Protocol: {one}" for one in protocols]
    fields = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY.decode()} | others
    return asked("Connection: Upgrade", *(f"{name}: {value}" for name, value in fields.items()), *names, method="GET")


def spdy(*versions: str) -> RequestHead:
    named = [f"X-Stream-Protocol-Version: {one}" for one in versions]
    return asked("Connection: Upgrade", f"Upgrade: {SPDY}", *named)


def answer(raw: bytes) -> ResponseHead:
    return Heads().response(raw, "GET")


def test_the_proof_is_that_of_the_rfc() -> None:
    """RFC 6455, 1.3."""
    assert accept_key(KEY) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(
    ("kind", "head", "transport", "protocol"),
    [
        (Kind.COMMAND, spdy(V4, V3, V2, V1), Transport.SPDY, V4),
        (Kind.COMMAND, spdy(V5, f"{V3}, {V4}"), Transport.SPDY, V3),
        (Kind.COMMAND, spdy(V1), Transport.SPDY, V1),
        (Kind.COMMAND, spdy(), Transport.SPDY, V1),
        (Kind.PORTS, spdy(PORT_FORWARD), Transport.SPDY, PORT_FORWARD),
        (Kind.PORTS, spdy(), Transport.SPDY, PORT_FORWARD),
        (Kind.COMMAND, websocket(V5, V4), Transport.WEBSOCKET, V5),
        (Kind.COMMAND, websocket(f"v4.base64.channel.k8s.io, {V4}"), Transport.WEBSOCKET, V4),
        (Kind.COMMAND, websocket(), Transport.WEBSOCKET, V1),
        (Kind.PORTS, websocket(TUNNEL), Transport.WEBSOCKET, TUNNEL),
        (Kind.PORTS, websocket(V4), Transport.WEBSOCKET, V4),
    ],
)
def test_the_first_that_both_speak_is_agreed(
    kind: Kind, head: RequestHead, transport: Transport, protocol: str
) -> None:
    """In the client's order; a client takes the answer for what it is."""
    agreed = negotiate(kind, head)
    assert isinstance(agreed, Agreed)
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
    refused = negotiate(Kind.COMMAND, head)
    assert isinstance(refused, Refused)
    assert refused.status == status
    assert words in refused.message
    raw, _, body = refused.answer.partition(b"\r\n\r\n")
    read = answer(raw + b"\r\n\r\n")
    assert (read.status, read.length) == (status, len(body))


def test_a_refusal_names_what_is_spoken() -> None:
    """As Go's clients look for it."""
    refused = negotiate(Kind.COMMAND, spdy("v9"))
    assert isinstance(refused, Refused)
    assert [value for _, value in refused.headers] == [V4, V3, V2, V1]


def test_what_a_client_asks_a_server_understands() -> None:
    """Both ways to ask."""
    agreed = negotiate(Kind.COMMAND, request(spdy_request("/exec/abc", "x:1", [V4, V3])))
    assert isinstance(agreed, Agreed)
    assert agreed.protocol == V4
    agreed = negotiate(Kind.COMMAND, request(websocket_request("/exec/abc", "x:1", [V5], KEY)))
    assert isinstance(agreed, Agreed)
    assert agreed.protocol == V5


def switched(*fields: str) -> ResponseHead:
    lines = ("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", *fields, "", "")
    return answer("\r\n".join(lines).encode())


def test_a_server_that_names_no_version_speaks_the_oldest() -> None:
    """The last of those that were asked for."""
    assert agreed_protocol(switched(f"Upgrade: {SPDY}"), Transport.SPDY, [V4, V1]) == V1


@pytest.mark.parametrize(
    ("head", "transport", "words"),
    [
        (answer(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), Transport.SPDY, "answered 403 Forbidden"),
        (switched("Upgrade: h2c"), Transport.SPDY, "switched to 'h2c'"),
        (switched(), Transport.SPDY, "switched to ''"),
        (switched("Upgrade: websocket"), Transport.WEBSOCKET, "did not prove"),
        (
            switched("Upgrade: websocket", f"Sec-WebSocket-Accept: {accept_key(KEY)}"),
            Transport.WEBSOCKET,
            "chose protocol none",
        ),
        (switched(f"Upgrade: {SPDY}", "X-Stream-Protocol-Version: v9"), Transport.SPDY, "chose protocol v9"),
    ],
)
def test_an_answer_that_agrees_to_nothing_is_refused(head: ResponseHead, transport: Transport, words: str) -> None:
    """And says what the server did."""
    with pytest.raises(UpgradeRefusedError, match=words) as caught:
        agreed_protocol(head, transport, [V4], KEY)
    assert caught.value.status == head.status
