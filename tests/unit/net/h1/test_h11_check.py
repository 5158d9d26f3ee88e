"""What h11 says to what our own rules have let pass; here it is asked without them."""

import pytest

from interpose.net.h1 import h11_check
from interpose.net.h1.rules import MalformedError


def test_a_right_request_is_agreed_to() -> None:
    """As soon as it is whole, and within the limit."""
    head = b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
    h11_check.check_request(head, len(head))
    for end in range(len(head)):
        with pytest.raises(MalformedError):
            h11_check.check_request(head[:end], len(head))


def test_letters_of_a_target_that_are_not_ascii_are_agreed_to() -> None:
    """h11 is shown them escaped, as Go reads both alike; elsewhere they are refused."""
    h11_check.check_request(b"GET /\xc3\xa4?\xff HTTP/1.1\r\nHost: docker\r\n\r\n", 1000)
    with pytest.raises(MalformedError):
        h11_check.check_request(b"GET / HTTP/1.1\r\nHost\xff: docker\r\n\r\n", 1000)


@pytest.mark.parametrize(
    ("raw", "status", "text"),
    [
        (b"GET /_ping HTTP/1.1\r\n\r\n", 400, "Missing mandatory Host"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "Only Transfer-Encoding"),
        (b"GET /_ping HTTP/1.1\r\nHost: x\r\n", 400, "the head is not a whole request"),
        (b"GET /_ping HTTP/1.1\r\nX: " + b"y" * 2000, 431, "too long"),
    ],
)
def test_what_h11_refuses_is_refused(raw: bytes, status: int, text: str) -> None:
    """With the status it would answer."""
    with pytest.raises(MalformedError, match=text) as caught:
        h11_check.check_request(raw, 1000)
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("first", "method"),
    [("200 OK", "GET"), ("200 OK", "HEAD"), ("200 OK", "CONNECT"), ("100 Continue", "GET"), ("101 UPGRADED", "GET")],
)
def test_a_right_answer_is_agreed_to(first: str, method: str) -> None:
    """To each kind of request, and when protocols are switched; half of it is not."""
    head = f"HTTP/1.1 {first}\r\n\r\n".encode()
    h11_check.check_response(head, method, int(first[:3]), 1000)
    with pytest.raises(MalformedError, match="not a whole answer"):
        h11_check.check_response(head[:-2], method, int(first[:3]), 1000)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "bad Content-Length"),
        (b"HTTP/1.1 200 OK\r\n", "the head is not a whole answer"),
    ],
)
def test_an_answer_h11_refuses_is_refused(raw: bytes, text: str) -> None:
    """The fault is not the client's."""
    with pytest.raises(MalformedError, match=text) as caught:
        h11_check.check_response(raw, "GET", 200, 1000)
    assert caught.value.status == 502


def test_the_bytes_h11_would_show_are_not_shown() -> None:
    """They may be secrets."""
    with pytest.raises(MalformedError, match=r"^illegal header line$"):
        h11_check.check_request(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: secret\x00\r\n\r\n", 1000)


def test_a_body_is_read_along() -> None:
    """Piece by piece, to its end."""
    body = h11_check.BodyChecker(1000, 400)
    body.check(b"5\r\nhel", end=False)
    body.check(b"lo\r\n0\r", end=False)
    body.check(b"\nX: y\r\n\r\n", end=True)
    with pytest.raises(MalformedError, match="in doubt"):
        body.check(b"more", end=True)  # there is nothing left of which this could be a part


@pytest.mark.parametrize(
    ("data", "end", "text"),
    [
        (b"x\r\n", False, "illegal chunk header"),
        (b"0\r\n\r\n", False, "in doubt"),
        (b"0\r\n", True, "in doubt"),
        (b"0\r\n\r\nG", True, "in doubt"),
    ],
)
def test_a_body_that_ends_elsewhere_is_refused(data: bytes, end: bool, text: str) -> None:
    """A body whose end h11 sees elsewhere is refused, whichever reader is right."""
    with pytest.raises(MalformedError, match=text) as caught:
        h11_check.BodyChecker(1000, 502).check(data, end=end)
    assert caught.value.status == 502
