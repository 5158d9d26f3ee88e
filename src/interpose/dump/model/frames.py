"""The frames of a recording: what a `.crirec` file holds and what a relay sends to its readers.

A frame is a head of 12 bytes and a payload. The head has a mark, so that a reader can find the next frame behind
damage, and a checksum over everything else, so that it knows. A stream of frames begins with HEADER. The frames of a
call are BEGIN, any number of MESSAGE, END, with those of other calls between them; they share its number.

Pure: bytes in, values out, and back. A damaged frame is a `DamagedFrameError`, never another exception; an unfinished
one is None.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Final, TypeAlias

VERSION: Final = 1
MARK: Final = b"\xc1R"
HEAD: Final = struct.Struct("<2sBxII")  # mark, kind, length of the payload, checksum
MAX_PAYLOAD: Final = 64 << 20  # above every message that can be collected
# What every recording begins with: the head of a HEADER frame is cut off where its length begins.
MAGIC: Final = MARK + b"\x01\x00"

_BEGIN: Final = struct.Struct("<QqiIB")
_MESSAGE: Final = struct.Struct("<QQBBI")
_END: Final = struct.Struct("<QQB")
_DROPPED: Final = struct.Struct("<QQq")
_SHORT: Final = struct.Struct("<H")
_LONGEST: Final = 0xFFFF
_WORST_CODE: Final = 0xFF
# What a small frame may become in memory: texts of a call, and lists and objects in JSON.
_MAX_TEXTS: Final = 100_000
_MAX_PARTS: Final = 2_000_000
_CHECKED: Final = struct.Struct("<BI")


class FrameKind(IntEnum):
    """The kinds of frames with their numbers in recordings."""

    HEADER = 1  # JSON: where the recording comes from
    BEGIN = 2
    MESSAGE = 3
    END = 4
    DROPPED = 5  # so much was lost before this
    CONTEXT = 6  # JSON: what was known when this file of a rotated recording began
    INDEX = 7  # compressed JSON: where the calls are
    TRAILER = 8  # where the index is


class Flags(IntFlag):
    """Properties of a call in its BEGIN frame."""

    NONE = 0
    INTERCEPTED = 1  # somebody could change it
    CONTINUED = 2  # it began in an earlier file; what came then is not repeated


class MessageSide(IntEnum):
    """Which of the messages of a call."""

    REQUEST = 0  # as the caller sent it
    FORWARDED = 1  # as the runtime got it, if that differs
    RECEIVED = 2  # as the runtime answered, if the caller got something else
    REPLY = 3  # as the caller got it

    @property
    def is_reply(self) -> bool:
        """Whether it travels towards the caller."""
        return self >= MessageSide.RECEIVED


class Packing(IntEnum):
    """How the body of a message is kept."""

    PLAIN = 0
    ZLIB = 1
    ABSENT = 2  # not kept; the body is a text that says why


class DamagedFrameError(ValueError):
    """Raised for bytes that are no frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The beginning of a stream of frames; `facts` are for people and depend on who wrote it."""

    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The frame that begins a call."""

    number: int  # tells the calls of one relay process apart
    time: int  # nanoseconds since the epoch
    path: str  # /runtime.v1.RuntimeService/Version
    origin: str = "client"  # or the part of the relay that made the call
    pid: int = 0  # of the caller; 0: not known
    uid: int = 0
    flags: Flags = Flags.NONE
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A whole message of a call. `size` is that of the message, also if it was not kept."""

    number: int
    at: int  # nanoseconds since the call began
    side: MessageSide
    packing: Packing = Packing.PLAIN
    size: int
    body: bytes  # packed

    @property
    def absent(self) -> str:
        """Why there is no body; empty if there is one."""
        return self.body.decode(errors="replace") if self.packing is Packing.ABSENT else ""

    @property
    def data(self) -> bytes:
        """The message itself; empty if it was not kept. DamagedFrameError if it cannot be unpacked."""
        if self.packing is Packing.PLAIN:
            return self.body
        if self.packing is Packing.ABSENT:
            return b""
        try:
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(self.body, self.size + 1)
        except zlib.error as error:
            raise DamagedFrameError(f"the body of a message cannot be unpacked: {error}") from None
        if len(data) != self.size:
            raise DamagedFrameError(f"a message of {self.size} bytes unpacks to {len(data)} or more")
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The frame that ends a call."""

    number: int
    elapsed: int  # nanoseconds
    code: int  # of gRPC
    message: str = ""  # of the status
    changed_by: tuple[str, ...] = ()  # who changed the request or the reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Whoever read was too slow: so many frames and bytes are missing before this."""

    frames: int
    size: int
    time: int  # nanoseconds since the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a reader has to know that begins with this file."""

    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Where the calls of this file are."""

    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """The last frame of a file that was closed in order."""

    index_at: int


Frame: TypeAlias = Header | Begin | Message | End | Dropped | Context | Index | Trailer


# -- writing


def encode_frame(kind: int, payload: bytes) -> bytes:
    """A head and the payload behind it."""
    return _joined(kind, payload, b"")


def _joined(kind: int, fixed: bytes, rest: bytes) -> bytes:
    """A head, and a payload of two parts: what is large is copied once."""
    length = len(fixed) + len(rest)
    if length > MAX_PAYLOAD:
        raise ValueError(f"a frame of {length} bytes is over the limit of {MAX_PAYLOAD}")
    checksum = zlib.crc32(rest, zlib.crc32(_CHECKED.pack(kind, length) + fixed))
    return b"".join((HEAD.pack(MARK, kind, length, checksum), fixed, rest))


# For code that makes many frames and does not need the values they are read into. `texts` come from `pack_texts` and
# `pack_fields`.


def encode_begin(number: int, time: int, pid: int, uid: int, flags: int, texts: bytes) -> bytes:
    """A BEGIN; texts are its path, its origin, and names and values of its metadata in turns."""
    return _joined(FrameKind.BEGIN, _BEGIN.pack(number, time, pid, uid, flags), texts)


def encode_message(number: int, at: int, side: int, packing: int, size: int, body: bytes) -> bytes:
    """A MESSAGE frame as bytes, without a `Message` value in between."""
    return _joined(FrameKind.MESSAGE, _MESSAGE.pack(number, at, side, packing, size), body)


def encode_end(number: int, elapsed: int, code: int, texts: bytes) -> bytes:
    """An END; texts are the message of its status, and who changed the call. A code that gRPC has not is 255."""
    return _joined(FrameKind.END, _END.pack(number, elapsed, code if 0 <= code < _WORST_CODE else _WORST_CODE), texts)


def pack_texts(*texts: str) -> bytes:
    """Texts the way frames hold them; one that is too long is cut off."""
    try:
        return _pack([text.encode(errors="surrogateescape") for text in texts])
    except UnicodeEncodeError:  # half of a pair: no bytes were read as that
        return _pack([text.encode(errors="backslashreplace") for text in texts])


def pack_fields(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The same of fields of HTTP, names and values in turns: texts in Latin-1, and nearly always ASCII."""
    return _pack([text if text.isascii() else text.decode("latin-1").encode() for field in fields for text in field])


def _pack(texts: list[bytes]) -> bytes:
    parts: list[bytes] = []
    for data in texts:
        size = len(data)
        if size > _LONGEST:
            data, size = data[:_LONGEST], _LONGEST
        parts += (_SHORT.pack(size), data)
    return b"".join(parts)


def encode(value: Frame) -> bytes:
    if isinstance(value, Message):
        return encode_message(value.number, value.at, value.side, value.packing, value.size, value.body)
    if isinstance(value, Begin):
        texts = pack_texts(value.path, value.origin, *(text for pair in value.metadata for text in pair))
        return encode_begin(value.number, value.time, value.pid, value.uid, value.flags, texts)
    if isinstance(value, End):
        return encode_end(value.number, value.elapsed, value.code, pack_texts(value.message, *value.changed_by))
    if isinstance(value, Dropped):
        return encode_frame(FrameKind.DROPPED, _DROPPED.pack(value.frames, value.size, value.time))
    if isinstance(value, Trailer):
        return encode_frame(FrameKind.TRAILER, value.index_at.to_bytes(8, "little"))
    if isinstance(value, Index):
        return encode_frame(FrameKind.INDEX, _pack_index(_json(value.facts)))
    return encode_frame(FrameKind.HEADER if isinstance(value, Header) else FrameKind.CONTEXT, _json(value.facts))


def _pack_index(data: bytes) -> bytes:
    if len(data) > MAX_PAYLOAD:
        raise ValueError(f"an index of {len(data)} bytes is over the limit of {MAX_PAYLOAD}")
    return zlib.compress(data, 6)


def _json(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


# -- reading


def frame_size(data: bytes | memoryview, at: int = 0) -> int | None:
    """The size of the frame that begins here; None if its head is incomplete, DamagedFrameError if none begins here."""
    if len(data) - at < HEAD.size:
        if not MARK.startswith(bytes(data[at : at + len(MARK)])):
            raise DamagedFrameError("no frame begins here")
        return None
    mark, _kind, length, _checksum = HEAD.unpack_from(data, at)
    if mark != MARK or length > MAX_PAYLOAD:
        raise DamagedFrameError("no frame begins here")
    return HEAD.size + int(length)


def decode(data: bytes | memoryview, at: int = 0) -> tuple[Frame | None, int]:
    """The frame that begins here and where the next one does. None: a kind of a later version, to be passed over.

    EOFError if the frame is unfinished, DamagedFrame if it is not what was written.
    """
    size = frame_size(data, at)
    if size is None or len(data) - at < size:
        raise EOFError
    _mark, kind, length, checksum = HEAD.unpack_from(data, at)
    # Copied when it is known to be a frame: whoever searches behind damage looks at many that are none.
    with memoryview(data) as view, view[at + HEAD.size : at + size] as part:
        if zlib.crc32(part, zlib.crc32(_CHECKED.pack(kind, length))) != checksum:
            raise DamagedFrameError("the checksum of a frame does not match")
        payload = bytes(part)
    try:
        return _read(kind, payload), at + size
    except (struct.error, ValueError, IndexError, RecursionError, MemoryError, zlib.error) as error:
        raise DamagedFrameError(f"a frame cannot be read: {error}") from None


def _read(kind: int, payload: bytes) -> Frame | None:
    if kind == FrameKind.MESSAGE:
        number, at, side, packing, size = _MESSAGE.unpack_from(payload)
        if size > MAX_PAYLOAD and packing != Packing.ABSENT:
            raise ValueError(f"a message of {size} bytes is over the limit of {MAX_PAYLOAD}")
        body = payload[_MESSAGE.size :]
        return Message(number=number, at=at, side=MessageSide(side), packing=Packing(packing), size=size, body=body)
    if kind == FrameKind.BEGIN:
        return _read_begin(payload)
    if kind == FrameKind.END:
        number, elapsed, code = _END.unpack_from(payload)
        message, *changed_by = _texts(payload, _END.size)
        return End(number=number, elapsed=elapsed, code=code, message=message, changed_by=tuple(changed_by))
    if kind == FrameKind.DROPPED:
        frames, size, time = _DROPPED.unpack_from(payload)
        return Dropped(frames=frames, size=size, time=time)
    if kind == FrameKind.TRAILER:
        return Trailer(index_at=int.from_bytes(payload[:8], "little"))
    if kind == FrameKind.INDEX:
        return Index(facts=_facts(_unpack_index(payload)))
    if kind in (FrameKind.HEADER, FrameKind.CONTEXT):
        return (Header if kind == FrameKind.HEADER else Context)(facts=_facts(payload))
    return None


def _read_begin(payload: bytes) -> Begin:
    number, time, pid, uid, flags = _BEGIN.unpack_from(payload)
    path, origin, *rest = _texts(payload, _BEGIN.size)
    return Begin(
        number=number,
        time=time,
        path=path,
        origin=origin,
        pid=pid,
        uid=uid,
        flags=Flags(flags),
        metadata=tuple(zip(rest[::2], rest[1::2], strict=True)),
    )


def _unpack_index(payload: bytes) -> bytes:
    data = zlib.decompressobj().decompress(payload, MAX_PAYLOAD + 1)
    if len(data) > MAX_PAYLOAD:
        raise ValueError(f"an index of more than {MAX_PAYLOAD} bytes")
    return data


def _facts(data: bytes) -> Mapping[str, Any]:
    if data.count(b"[") + data.count(b"{") > _MAX_PARTS:
        raise ValueError("JSON of too many parts")
    facts = json.loads(data)
    if not isinstance(facts, dict):
        raise ValueError("what should be a JSON object is none")
    return facts


def _texts(payload: bytes, at: int) -> list[str]:
    texts = []
    while at < len(payload):
        (length,) = _SHORT.unpack_from(payload, at)
        at += _SHORT.size
        if at + length > len(payload):
            raise ValueError("a text is cut off")
        texts.append(payload[at : at + length].decode(errors="surrogateescape"))
        at += length
        if len(texts) > _MAX_TEXTS:
            raise ValueError("too many texts")
    return texts
