"""Frames of SPDY/3.1: values to bytes, and bytes, however they are cut, to values.

Invariant: at most one control frame is held, and none above the limit; data goes out as it comes, so a frame of
16 MiB costs nothing. Control frames of kinds we do not know are skipped, as the protocol asks.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

VERSION: Final = 3
FIN: Final = 0x01
INITIAL_WINDOW_SIZE: Final = 7  # the one setting that says that a peer counts windows
LARGEST: Final = (1 << 24) - 1
_STREAM: Final = 0x7FFFFFFF
_HEAD: Final = 8


class SpdyError(Exception):
    """The bytes are not SPDY/3.1; nothing after them can be understood."""


class Status(IntEnum):
    """Why a stream was reset."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    CANCEL = 5
    INTERNAL_ERROR = 6
    STREAM_IN_USE = 8
    STREAM_ALREADY_CLOSED = 9


class SynStream(NamedTuple):
    """A stream is opened; `block` holds its headers, compressed."""

    stream: int
    block: bytes
    fin: bool = False


class SynReply(NamedTuple):
    """A stream is accepted."""

    stream: int
    block: bytes
    fin: bool = False


class RstStream(NamedTuple):
    """A stream is ended in both directions."""

    stream: int
    status: int


class Settings(NamedTuple):
    """Settings of the sender, as pairs of number and value."""

    values: tuple[tuple[int, int], ...]


class Ping(NamedTuple):
    """A ping; the receiver sends it back."""

    number: int


class GoAway(NamedTuple):
    """No more streams; those up to `last` were seen."""

    last: int
    status: int = 0


class SpdyHeaders(NamedTuple):
    """More headers for a stream."""

    stream: int
    block: bytes
    fin: bool = False


class WindowUpdate(NamedTuple):
    """`delta` more bytes may be sent: on a stream, or on all together (0)."""

    stream: int
    delta: int


class Data(NamedTuple):
    """Bytes of a stream. Read, it may be a piece of a frame; `fin` is on the last."""

    stream: int
    data: bytes
    fin: bool = False


Frame = SynStream | SynReply | RstStream | Settings | Ping | GoAway | SpdyHeaders | WindowUpdate | Data


def data_frame(stream: int, data: bytes, *, fin: bool = False) -> bytes:
    """A data frame; data is at most LARGEST bytes."""
    return struct.pack(">II", stream & _STREAM, (FIN if fin else 0) << 24 | len(data)) + data


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    match frame:
        case Data(stream, data, fin):
            return data_frame(stream, data, fin=fin)
        case SynStream(stream, block, fin):
            return _control(1, struct.pack(">IIH", stream, 0, 0) + block, fin=fin)
        case SynReply(stream, block, fin):
            return _control(2, struct.pack(">I", stream) + block, fin=fin)
        case RstStream(stream, status):
            return _control(3, struct.pack(">II", stream, status))
        case Settings(values):
            return _control(4, struct.pack(">I", len(values)) + b"".join(struct.pack(">II", *pair) for pair in values))
        case Ping(number):
            return _control(6, struct.pack(">I", number))
        case GoAway(last, status):
            return _control(7, struct.pack(">II", last, status))
        case SpdyHeaders(stream, block, fin):
            return _control(8, struct.pack(">I", stream) + block, fin=fin)
        case _:
            return _control(9, struct.pack(">II", frame.stream, frame.delta))


def _control(kind: int, payload: bytes, *, fin: bool = False) -> bytes:
    return struct.pack(">HHI", 0x8000 | VERSION, kind, (FIN if fin else 0) << 24 | len(payload)) + payload


class _Kind(NamedTuple):
    """How a control frame is read, and how long it is: at least, and if `exact` at most."""

    name: str
    least: int
    exact: bool
    read: Callable[[bytes, bool], Frame]


def _number(payload: bytes, at: int = 0) -> int:
    return int.from_bytes(payload[at : at + 4], "big")


def _stream(payload: bytes) -> int:
    return _number(payload) & _STREAM


def _settings(payload: bytes, _fin: bool) -> Settings:
    count = _number(payload)
    if len(payload) != 4 + 8 * count:
        raise SpdyError(f"a SETTINGS frame of {len(payload)} bytes says that it has {count} settings")
    pairs = struct.iter_unpack(">II", payload[4:])
    return Settings(tuple((flagged & 0xFFFFFF, value) for flagged, value in pairs))


_KINDS: Final[Mapping[int, _Kind]] = {
    1: _Kind("SYN_STREAM", 10, False, lambda payload, fin: SynStream(_stream(payload), payload[10:], fin)),
    2: _Kind("SYN_REPLY", 4, False, lambda payload, fin: SynReply(_stream(payload), payload[4:], fin)),
    3: _Kind("RST_STREAM", 8, True, lambda payload, _fin: RstStream(_stream(payload), _number(payload, 4))),
    4: _Kind("SETTINGS", 4, False, _settings),
    6: _Kind("PING", 4, True, lambda payload, _fin: Ping(_number(payload))),
    7: _Kind("GOAWAY", 8, True, lambda payload, _fin: GoAway(_stream(payload), _number(payload, 4))),
    8: _Kind("HEADERS", 4, False, lambda payload, fin: SpdyHeaders(_stream(payload), payload[4:], fin)),
    9: _Kind(
        "WINDOW_UPDATE", 8, True, lambda payload, _fin: WindowUpdate(_stream(payload), _number(payload, 4) & _STREAM)
    ),
}


class FrameReader:
    """Cuts frames out of a stream of bytes."""

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit = limit
        self._held = bytearray()  # a head, or the payload of a control frame
        self._wanted = _HEAD
        self._kind: _Kind | None = None  # of the control frame whose payload is held
        self._fin = False
        self._stream = 0
        self._left = 0  # of the data frame at hand
        self._skipped = 0  # bytes left of a control frame of unknown kind

    @property
    def held(self) -> int:
        """Bytes that were fed and not given out."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete, and pieces of data. SpdyError after the last good one: feed nothing more."""
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                yield Data(self._stream, piece, self._fin and not self._left)
            elif self._skipped:
                step = min(self._skipped, len(data) - at)
                at += step
                self._skipped -= step
            else:
                piece = data[at : at + self._wanted - len(self._held)]
                at += len(piece)
                self._held += piece
                if len(self._held) == self._wanted:
                    frame = self._complete()
                    if frame is not None:
                        yield frame

    def _complete(self) -> Frame | None:
        held = bytes(self._held)
        self._held.clear()
        if self._kind is not None:
            kind, self._kind = self._kind, None
            self._wanted = _HEAD
            return kind.read(held, self._fin)
        first, second = struct.unpack(">II", held)
        length = second & LARGEST
        self._fin = bool(second >> 24 & FIN)
        if first >> 31:
            self._control(first >> 16 & 0x7FFF, first & 0xFFFF, length)
            return None
        self._stream = first
        self._left = length
        return None if length else Data(first, b"", self._fin)

    def _control(self, version: int, number: int, length: int) -> None:
        if version != VERSION:
            raise SpdyError(f"a control frame has version {version}, not {VERSION}")
        kind = _KINDS.get(number)
        if kind is None:
            self._skipped = length
            return
        if length < kind.least or (kind.exact and length != kind.least):
            raise SpdyError(f"a {kind.name} frame has {length} bytes")
        if length > self._limit:
            raise SpdyError(f"a {kind.name} frame has {length} bytes, more than {self._limit}")
        self._kind = kind
        self._wanted = length
