"""Statuses and codes."""

import json

import pytest

from interpose.net.grpc.status import Code
from interpose.relay.docker.translate.errors import (
    answer,
    code_of_status,
    error_answer,
    error_body,
    message_of,
    status_of_code,
)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (0, Code.UNAVAILABLE),
        (101, Code.OK),
        (200, Code.OK),
        (201, Code.OK),
        (204, Code.OK),
        (304, Code.OK),
        (301, Code.UNKNOWN),
        (400, Code.INVALID_ARGUMENT),
        (403, Code.PERMISSION_DENIED),
        (404, Code.NOT_FOUND),
        (409, Code.FAILED_PRECONDITION),
        (500, Code.UNKNOWN),
        (501, Code.UNIMPLEMENTED),
        (503, Code.UNKNOWN),
    ],
)
def test_what_dockerd_answers(status: int, code: Code) -> None:
    """As interceptors see it."""
    assert code_of_status(status) is code


def test_a_conflict_while_creating_is_about_the_name() -> None:
    """Everywhere else it is about the state."""
    assert code_of_status(409, creating=True) is Code.ALREADY_EXISTS
    assert code_of_status(404, creating=True) is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.FAILED_PRECONDITION, 403),
        (Code.PERMISSION_DENIED, 403),
        (Code.INVALID_ARGUMENT, 400),
        (Code.NOT_FOUND, 404),
        (Code.ALREADY_EXISTS, 409),
        (Code.RESOURCE_EXHAUSTED, 503),
        (Code.UNAVAILABLE, 503),
        (Code.DEADLINE_EXCEEDED, 504),
        (Code.INTERNAL, 500),
        (Code.UNKNOWN, 500),
    ],
)
def test_how_a_refusal_is_said(code: Code, status: int) -> None:
    """Docker's clients know statuses."""
    assert status_of_code(code) == status


def test_message_of_an_error_is_read_again() -> None:
    """What was written."""
    assert message_of(error_body('plugin "a" says\nno: ü')) == 'plugin "a" says\nno: ü'
    assert error_body("x").endswith(b"\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (b"page not found\n", "page not found"),
        (b'{"message":3}', '{"message":3}'),
        (b"[1]", "[1]"),
        (b'{"message":"\\ud800"}', "?"),
        (b"\xff", "\ufffd"),
        (b"[" * 99999, "[" * 4096),
        (b"x" * 100_000, "x" * 4096),
    ],
)
def test_odd_errors_are_shown_as_they_are(body: bytes, message: str) -> None:
    """And not longer than a page."""
    assert message_of(body) == message


def test_whole_answers() -> None:
    """With what a client needs to know where they end."""
    head, _, body = error_answer(403, "no", close=True).partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 403 Forbidden",
        b"Connection: close",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
    ]
    assert json.loads(body) == {"message": "no"}
    assert answer(204, b"ignored") == b"HTTP/1.1 204 No Content\r\n\r\n"
    assert answer(299).startswith(b"HTTP/1.1 299 Unknown\r\n")
