"""gRPC status codes and how they travel.

The only place that turns a code and a text into header fields and back. A status that came from the runtime is never
rebuilt from these values: its bytes pass untouched.
"""

from enum import IntEnum
from typing import Final

from interpose.net.h2.errors import ErrorCode


class Code(IntEnum):
    """The canonical gRPC codes, by their number on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


# Statuses after which the server may have done it all the same.
OUTCOME_UNKNOWN: Final = frozenset((Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE))


class RpcError(Exception):
    """A call ended with a status other than OK. Raised by our client calls and by local handlers."""

    def __init__(self, code: Code, message: str = "", trailers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message
        self.trailers = trailers


# What a reset without a status means to a gRPC caller (gRPC over HTTP/2, "Errors").
_RESET_CODES: dict[int, Code] = {
    ErrorCode.NO_ERROR: Code.INTERNAL,
    ErrorCode.PROTOCOL_ERROR: Code.INTERNAL,
    ErrorCode.INTERNAL_ERROR: Code.INTERNAL,
    ErrorCode.FLOW_CONTROL_ERROR: Code.INTERNAL,
    ErrorCode.FRAME_SIZE_ERROR: Code.INTERNAL,
    ErrorCode.COMPRESSION_ERROR: Code.INTERNAL,
    ErrorCode.CONNECT_ERROR: Code.INTERNAL,
    ErrorCode.REFUSED_STREAM: Code.UNAVAILABLE,
    ErrorCode.CANCEL: Code.CANCELLED,
    ErrorCode.ENHANCE_YOUR_CALM: Code.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: Code.PERMISSION_DENIED,
}

# What an HTTP status without a grpc-status means (gRPC "HTTP to gRPC status code mapping").
_HTTP_CODES = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
    429: Code.UNAVAILABLE,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.UNAVAILABLE,
}


def code_of_reset(error: int) -> Code:
    """The gRPC code a caller sees when its stream is reset with this HTTP/2 error."""
    return _RESET_CODES.get(error, Code.UNKNOWN)


def code_of_http(status: int) -> Code:
    """The gRPC code for an answer that has an HTTP status and no grpc-status."""
    return _HTTP_CODES.get(status, Code.UNKNOWN)


def parse_code(value: bytes | None) -> Code:
    """Read a grpc-status value; anything unreadable is UNKNOWN."""
    if value is None:
        return Code.UNKNOWN
    try:
        return Code(int(value))
    except ValueError:
        return Code.UNKNOWN


def quote_message(text: str) -> bytes:
    """Percent-encode a grpc-message: printable ASCII except '%' stays readable."""
    raw = text.encode("utf-8", "surrogateescape")
    if all(0x20 <= byte <= 0x7E and byte != 0x25 for byte in raw):
        return raw
    return b"".join(bytes((byte,)) if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte for byte in raw)


def shortened(text: str, limit: int = 4096) -> str:
    """A message that fits: at most so many bytes when it is quoted, cut between characters, with dots at the end.

    Clients have a limit for all trailers, grpcio one of 8 KiB: beyond it they show a status of their own.
    """
    room, kept = limit, 0
    for position, character in enumerate(text, start=1):
        room -= len(quote_message(character))
        if room < 0:
            return text[:kept] + "..."
        if room >= 3:
            kept = position
    return text


def unquote_message(value: bytes) -> str:
    """Decode a grpc-message; a broken escape stays as it is, as gRPC asks."""
    if b"%" not in value:
        return value.decode("utf-8", "replace")
    out = bytearray()
    position = 0
    while position < len(value):
        if value[position] == 0x25 and position + 2 < len(value):
            try:
                out.append(int(value[position + 1 : position + 3], 16))
            except ValueError:
                out.append(0x25)
                position += 1
            else:
                position += 3
            continue
        out.append(value[position])
        position += 1
    return out.decode("utf-8", "replace")
