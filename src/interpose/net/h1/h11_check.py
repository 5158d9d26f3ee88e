"""A second check: h11 reads what our own rules have accepted, and may still refuse it. The only use of h11 here."""

import re
from typing import Final

import h11

from interpose.net.h1.rules import MalformedError

_HEAD: Final = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
_END: Final = h11.EndOfMessage()
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]")
_PLAIN: Final = [("host", "x")]
# The request that a response is read for: h11 accepts 101 only after a request for an upgrade.
_UPGRADE: Final = h11.Request(
    method="GET", target="/", headers=[*_PLAIN, ("connection", "upgrade"), ("upgrade", "any")]
)
_REQUESTS: Final = {
    method: h11.Request(method=method, target="/", headers=_PLAIN) for method in ("GET", "HEAD", "CONNECT")
}


def check_request(raw: bytes, limit: int) -> None:
    """Let h11 read the head of a request. Raises MalformedError with the status h11 would answer."""
    line, end, rest = raw.partition(b"\r\n")
    if not line.isascii():
        # h11 wants letters that are not ASCII to be escaped, Go does not; they have no bearing on anything else.
        line = _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line)
        raw = b"".join((line, end, rest))
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=limit)
    try:
        connection.receive_data(raw)
        event = connection.next_event()
    except h11.RemoteProtocolError as error:
        raise MalformedError(error.error_status_hint, _text(error)) from None
    if type(event) is not h11.Request:
        raise MalformedError(400, "the head is not a whole request")


def check_response(raw: bytes, method: str, status: int, limit: int) -> None:
    """Let h11 read the head of a response to a request of that method. Raises MalformedError with status 502."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=limit)
    connection.send(_UPGRADE if status == 101 else _REQUESTS[method])
    connection.send(_END)
    try:
        connection.receive_data(raw)
        event = connection.next_event()
    except h11.RemoteProtocolError as error:
        raise MalformedError(502, _text(error)) from None
    if type(event) not in (h11.Response, h11.InformationalResponse):
        raise MalformedError(502, "the head is not a whole answer")


def _text(error: h11.RemoteProtocolError) -> str:
    """What h11 says, without the bytes it shows: they may be secrets."""
    return str(error).partition(":")[0]


class BodyChecker:
    """Lets h11 read a chunked body. The head before it is made up: chunks are the same in requests and responses."""

    def __init__(self, limit: int, status: int) -> None:
        self._status = status
        # Trailers are the longest thing it has to hold, and our own rules count them.
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=2 * limit + 4096)
        self._connection.receive_data(_HEAD)
        self._connection.next_event()

    def check(self, data: bytes, *, end: bool) -> None:
        """Check the next bytes of the body, with which it ends or not. Raises MalformedError if h11 disagrees."""
        try:
            self._connection.receive_data(data)
            while type(event := self._connection.next_event()) is h11.Data:
                pass
        except h11.RemoteProtocolError as error:
            raise MalformedError(self._status, _text(error)) from None
        ended = type(event) is h11.EndOfMessage
        if ended is not end or (ended and self._connection.trailing_data[0]):
            raise MalformedError(self._status, "the end of the chunked body is in doubt")
