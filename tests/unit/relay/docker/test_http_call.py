"""A call in the hand: what is sent on, and how often."""

import asyncio

import pytest

from interpose.net.h1.heads import Heads
from interpose.relay.docker.connection import HttpReply
from interpose.relay.docker.http_call import DockerHttpCall, resized, without_expect

HEADS = Heads()


def head(*lines: bytes) -> bytes:
    return b"\r\n".join((b"POST /containers/create HTTP/1.1", b"Host: docker", *lines, b"", b""))


def sent(call: DockerHttpCall, body: bytes | None = None) -> bytes:
    """What is sent on."""
    asyncio.run(_forward(call, body))
    return SENT.pop()


async def _forward(call: DockerHttpCall, body: bytes | None) -> None:
    await call.forward(body)


SENT: list[bytes] = []


async def _send(request: bytes) -> HttpReply:
    SENT.append(request)
    return HttpReply()


def call(raw: bytes, body: bytes, *, as_it_came: bytes | None = None, continued: bool = False) -> DockerHttpCall:
    return DockerHttpCall(head=HEADS.request(raw), body=body, raw=as_it_came, send=_send, continued=continued)


def test_a_call_goes_on_as_it_came() -> None:
    """Its body in chunks, too."""
    raw = head(b"Transfer-Encoding: chunked")
    assert sent(call(raw, b"ab", as_it_came=b"2\r\nab\r\n0\r\n\r\n")) == raw + b"2\r\nab\r\n0\r\n\r\n"


def test_who_was_told_to_go_on_expects_nothing_any_more() -> None:
    """The other headers keep their bytes."""
    raw = head(b"expect: 100-continue", b"Content-Length:  2", b"X: y ")
    assert sent(call(raw, b"ab", continued=True)) == head(b"Content-Length:  2", b"X: y ") + b"ab"


def test_another_body_has_its_own_length() -> None:
    """In the place of the old one."""
    raw = head(b"content-length: 2", b"X: y", b"Expect: 100-continue")
    assert sent(call(raw, b"ab"), b"abc") == head(b"Content-Length: 3", b"X: y") + b"abc"


def test_another_body_is_not_in_chunks() -> None:
    """And what announced their trailers goes."""
    raw = head(b"Trailer: a", b"Transfer-Encoding: chunked", b"X: y")
    assert sent(call(raw, b"ab"), b"abc") == head(b"Content-Length: 3", b"X: y") + b"abc"


def test_another_target() -> None:
    """The rest of the head, and the body, stay as they are or as they became."""
    raw = head(b"Content-Length: 2", b"Expect: 100-continue", b"X: y")
    for body, length in ((None, b"2"), (b"abc", b"3")):
        one = call(raw, b"ab", continued=True)
        one.target = "/v1.41/containers/f00/update?x=%20"
        wanted = head(b"Content-Length: " + length, b"X: y").replace(b"/containers/create", one.target.encode())
        assert sent(one, body) == wanted + (body or b"ab")


def test_a_body_where_there_was_none() -> None:
    """A length is added; without a body nothing is."""
    assert resized(HEADS.request(head(b"X: y")), 3) == head(b"X: y", b"Content-Length: 3")
    assert resized(HEADS.request(head(b"X: y")), 0) == head(b"X: y")


def test_a_head_that_expects_nothing_is_left_alone() -> None:
    """Byte by byte."""
    assert without_expect(head(b"X: y")) == head(b"X: y")


def test_a_call_is_sent_on_once() -> None:
    """Whoever tries again is wrong."""
    one = call(head(), b"")
    sent(one)
    assert one.forwarded
    with pytest.raises(RuntimeError, match="at most once"):
        asyncio.run(_forward(one, None))
