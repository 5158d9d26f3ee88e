"""Between Docker's HTTP statuses and the codes of gRPC, and the JSON in which Docker says what is wrong. Pure."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from interpose.net.grpc.status import Code

# What dockerd's answer means to those who stand in the way of calls. Any other is UNKNOWN: an answer, so no doubt about
# what happened.
_CODES: Final[Mapping[int, Code]] = MappingProxyType(
    {
        0: Code.UNAVAILABLE,  # there was no answer
        101: Code.OK,  # a tunnel
        304: Code.OK,  # it was so already
        400: Code.INVALID_ARGUMENT,
        401: Code.UNAUTHENTICATED,
        403: Code.PERMISSION_DENIED,
        404: Code.NOT_FOUND,
        409: Code.FAILED_PRECONDITION,
        499: Code.CANCELLED,
        501: Code.UNIMPLEMENTED,
    }
)
# How a refusal of ours is said. 403 is what dockerd answers if an authorization plugin of its own refuses.
_STATUSES: Final[Mapping[int, int]] = MappingProxyType(
    {
        Code.OK: 200,
        Code.INVALID_ARGUMENT: 400,
        Code.OUT_OF_RANGE: 400,
        Code.UNAUTHENTICATED: 403,
        Code.PERMISSION_DENIED: 403,
        Code.FAILED_PRECONDITION: 403,
        Code.NOT_FOUND: 404,
        Code.ALREADY_EXISTS: 409,
        Code.ABORTED: 409,
        Code.UNIMPLEMENTED: 501,
        Code.RESOURCE_EXHAUSTED: 503,
        Code.UNAVAILABLE: 503,
        Code.DEADLINE_EXCEEDED: 504,
    }
)
# Longer texts of others are cut before they go into messages of ours.
_LONGEST: Final = 4096


def code_of_status(status: int, *, creating: bool = False) -> Code:
    """The code of dockerd's answer; status 0 stands for none. A conflict while creating is about the name."""
    if 200 <= status < 300:
        return Code.OK
    if creating and status == 409:
        return Code.ALREADY_EXISTS
    return _CODES.get(status, Code.UNKNOWN)


def status_of_code(code: int) -> int:
    """The status of a refusal with this code."""
    return _STATUSES.get(code, 500)


def error_body(message: str) -> bytes:
    """The JSON of an error. It ends with a newline, as dockerd's does."""
    return json.dumps({"message": message}).encode() + b"\n"


def message_of(body: bytes) -> str:
    """What an answer says is wrong: the `message` of its JSON, else its text."""
    text = body[: 4 * _LONGEST].decode("utf-8", "replace")
    try:
        found = json.loads(body).get("message")
    except (ValueError, RecursionError, AttributeError):
        found = None
    if isinstance(found, str):
        text = found.encode("utf-8", "replace").decode()
    return text.strip()[:_LONGEST]


def answer(status: int, body: bytes = b"", *, close: bool = False) -> bytes:
    """A whole answer of our own with this JSON body. Statuses that never have a body get none."""
    head = [f"HTTP/1.1 {status} {_reason(status)}"]
    if close:
        head.append("Connection: close")
    if status in (204, 304):
        body = b""
    else:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


def error_answer(status: int, message: str, *, close: bool = False) -> bytes:
    """A whole answer that says what is wrong."""
    return answer(status, error_body(message), close=close)


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
