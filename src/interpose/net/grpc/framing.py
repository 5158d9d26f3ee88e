"""gRPC inside HTTP/2: length-prefixed messages, their compression, timeouts, and the few header blocks we write."""

import zlib
from functools import lru_cache
from typing import Final

from interpose.net.grpc.status import Code, RpcError, quote_message
from interpose.net.h2.headers import encode, make_field, name_prefix

PREFIX: Final = 5
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

RESPONSE_HEADERS: Final = encode([(b":status", b"200"), (b"content-type", b"application/grpc")])


def frame(message: bytes) -> bytes:
    """A message with its prefix, not compressed."""
    return b"\x00" + len(message).to_bytes(4, "big") + message


class Messages:
    """Cuts a body into messages. Holds at most one unfinished message of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[tuple[bool, bytes]]:
        """The messages these bytes complete, each with its compressed flag. Raises RpcError over the limit."""
        pending = self._pending
        pending += data
        found: list[tuple[bool, bytes]] = []
        position = 0
        while len(pending) - position >= PREFIX:
            length = int.from_bytes(pending[position + 1 : position + PREFIX], "big")
            if length > self._limit:
                raise too_large(length, self._limit)
            end = position + PREFIX + length
            if end > len(pending):
                break
            found.append((bool(pending[position] & 1), bytes(pending[position + PREFIX : end])))
            position = end
        if position:
            del pending[:position]
        return found

    @property
    def unfinished(self) -> bool:
        """Whether a message has begun and not ended."""
        return bool(self._pending)


def too_large(size: int, limit: int) -> RpcError:
    """The one wording for a message over the limit."""
    return RpcError(Code.RESOURCE_EXHAUSTED, f"message of {size} bytes is over the limit of {limit}")


def decompress(encoding: bytes, data: bytes, limit: int) -> bytes:
    """Undo gzip or deflate, never producing more than `limit` bytes. LookupError for another encoding."""
    if encoding in (b"", b"identity"):
        return data
    if encoding not in (b"gzip", b"deflate"):
        raise LookupError(f"grpc-encoding {encoding.decode('latin-1')!r} is not known")
    worker = zlib.decompressobj(wbits=31 if encoding == b"gzip" else 15)
    try:
        out = worker.decompress(data, limit + 1)
    except zlib.error as error:
        raise RpcError(Code.INTERNAL, f"message is not valid {encoding.decode()}: {error}") from error
    if len(out) > limit:
        raise too_large(len(out), limit)
    if not worker.eof:
        raise RpcError(Code.INTERNAL, f"message is not valid {encoding.decode()}: cut short")
    if worker.unused_data:
        # Other readers take a second gzip member as more of the message: they would read something else than we do.
        raise RpcError(Code.INTERNAL, f"message is not valid {encoding.decode()}: more follows its end")
    return out


def parse_timeout(value: bytes) -> float | None:
    """Seconds of a grpc-timeout; None if it is not one."""
    unit = _UNITS.get(value[-1:])
    digits = value[:-1]
    if unit is None or not digits.isdigit() or len(digits) > 8:
        return None
    return int(digits) * unit


def format_timeout(seconds: float) -> bytes:
    """The finest unit that fits in eight digits; never below one nanosecond."""
    for unit, scale in ((b"n", 1e9), (b"u", 1e6), (b"m", 1e3), (b"S", 1.0)):
        count = int(seconds * scale)
        if count < 100_000_000:
            return b"%d%s" % (max(count, 1), unit)
    return b"%dM" % min(int(seconds / 60), 99_999_999)


def status_trailers(code: Code, message: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> bytes:
    """Trailers with a status of ours."""
    fields = [(b"grpc-status", b"%d" % code)]
    if message:
        fields.append((b"grpc-message", quote_message(message)))
    return encode([*fields, *more])


def request_headers(
    path: bytes,
    metadata: tuple[tuple[bytes, bytes], ...] = (),
    timeout: float | None = None,
) -> bytes:
    """The headers of a call of our own."""
    wire = _beginning(path)
    if timeout is not None:
        wire += timeout_field(timeout)
    return wire + encode(list(metadata)) if metadata else wire


def timeout_field(seconds: float) -> bytes:
    """A grpc-timeout on the wire. Every call has its own, so it is put together by hand."""
    value = format_timeout(seconds)
    return _TIMEOUT_NAME + bytes((len(value),)) + value


@lru_cache(maxsize=128)
def _beginning(path: bytes) -> bytes:
    """All that calls of one method have in common; methods are few."""
    return b"".join((_METHOD, _SCHEME, make_field(b":path", path).wire, _AUTHORITY, _CONTENT_TYPE, _TE))


_METHOD: Final = make_field(b":method", b"POST").wire
_SCHEME: Final = make_field(b":scheme", b"http").wire
_AUTHORITY: Final = make_field(b":authority", b"localhost").wire
_CONTENT_TYPE: Final = make_field(b"content-type", b"application/grpc").wire
_TE: Final = make_field(b"te", b"trailers").wire
_TIMEOUT_NAME: Final = name_prefix(b"grpc-timeout")
