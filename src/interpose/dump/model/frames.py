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
from enum import IntEnum, IntFlag
from typing import Any, Final, NamedTuple, TypeAlias

VERSION: Final = 1
MARK: Final = b"\xc1R"
HEAD: Final = struct.Struct("<2sBxII")  # mark, kind, length of the payload, checksum
MAX_PAYLOAD: Final = 64 << 20  # above every message that can be collected
# What every recording begins with: the head of a HEADER frame is cut off where its length begins.
MAGIC: Final = MARK + b"\x01\x00"

_CHECKED: Final = struct.Struct("<BI")  # kind and length: with the payload what the checksum is of
_CHECKED_BYTES: Final = _CHECKED.size
_BEGIN_FIELDS: Final = "QqiIB"
_MESSAGE_FIELDS: Final = "QQBBI"
_END_FIELDS: Final = "QQB"
_BEGIN: Final = struct.Struct(f"<{_BEGIN_FIELDS}")
_MESSAGE: Final = struct.Struct(f"<{_MESSAGE_FIELDS}")
_END: Final = struct.Struct(f"<{_END_FIELDS}")
# The same behind kind and length.
_CHECKED_BEGIN: Final = struct.Struct(f"{_CHECKED.format}{_BEGIN_FIELDS}")
_CHECKED_MESSAGE: Final = struct.Struct(f"{_CHECKED.format}{_MESSAGE_FIELDS}")
_CHECKED_END: Final = struct.Struct(f"{_CHECKED.format}{_END_FIELDS}")
_DROPPED: Final = struct.Struct("<QQq")
_SHORT: Final = struct.Struct("<H")
_LONGEST: Final = 0xFFFF
_WORST_CODE: Final = 0xFF
# What a small frame may become in memory: texts of a call, and lists and objects in JSON.
_MAX_TEXTS: Final = 100_000
_MAX_PARTS: Final = 2_000_000
# Frames below this are cheaper to copy than to look at in place.
_SMALL: Final = 4096
# Of a call's beginning, what many calls share.
_MOST_KNOWN: Final = 256
_LONGEST_KNOWN: Final = 1024
Metadata: TypeAlias = tuple[tuple[str, str], ...]
BeginTexts: TypeAlias = tuple[str, str, Metadata]  # path, origin


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


NO_FLAGS: Final = Flags.NONE


def is_continued(flags: Flags) -> bool:
    """Whether a call began in an earlier file. Most calls have no flags, and an operator of flags costs a lot."""
    return flags is not NO_FLAGS and bool(flags & Flags.CONTINUED)


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


# An enumeration's own search for a value takes longer than the rest of a frame.
_SIDES: Final = tuple(MessageSide)
_PACKINGS: Final = tuple(Packing)
_FLAGS: Final = tuple(Flags(value) for value in range(256))
_KIND_BEGIN, _KIND_MESSAGE, _KIND_END = int(FrameKind.BEGIN), int(FrameKind.MESSAGE), int(FrameKind.END)
_BODY_AT: Final = HEAD.size + _MESSAGE.size
_TEXTS_AT: Final = HEAD.size + _BEGIN.size


class DamagedFrameError(ValueError):
    """Raised for bytes that are no frame."""


class Header(NamedTuple):
    """The beginning of a stream of frames; `facts` are for people and depend on who wrote it."""

    facts: Mapping[str, Any]


class Begin(NamedTuple):
    """The frame that begins a call."""

    number: int  # tells the calls of one relay process apart
    time: int  # nanoseconds since the epoch
    path: str  # /runtime.v1.RuntimeService/Version
    origin: str = "client"  # or the part of the relay that made the call
    pid: int = 0  # of the caller; 0: not known
    uid: int = 0
    flags: Flags = Flags.NONE
    metadata: Metadata = ()


class Message(NamedTuple):
    """A whole message of a call. `size` is that of the message, also if it was not kept."""

    number: int
    at: int  # nanoseconds since the call began
    side: MessageSide
    size: int
    body: bytes  # packed
    packing: Packing = Packing.PLAIN

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


class End(NamedTuple):
    """The frame that ends a call."""

    number: int
    elapsed: int  # nanoseconds
    code: int  # of gRPC
    message: str = ""  # of the status
    changed_by: tuple[str, ...] = ()  # who changed the request or the reply


class Dropped(NamedTuple):
    """Whoever read was too slow: so many frames and bytes are missing before this."""

    frames: int
    size: int
    time: int  # nanoseconds since the epoch


class Context(NamedTuple):
    """What a reader has to know that begins with this file."""

    facts: Mapping[str, Any]


class Index(NamedTuple):
    """Where the calls of this file are."""

    facts: Mapping[str, Any]


class Trailer(NamedTuple):
    """The last frame of a file that was closed in order."""

    index_at: int


Frame: TypeAlias = Header | Begin | Message | End | Dropped | Context | Index | Trailer


# -- writing


def encode_frame(kind: int, payload: bytes) -> bytes:
    """A head and the payload behind it."""
    return _joined(kind, len(payload), _CHECKED.pack(kind, len(payload)), payload)


def _joined(kind: int, length: int, checked: bytes, rest: bytes) -> bytes:
    """A head, and a payload of two parts: what is large is copied once. The first has kind and length before it."""
    if length > MAX_PAYLOAD:
        raise ValueError(f"a frame of {length} bytes is over the limit of {MAX_PAYLOAD}")
    checksum = zlib.crc32(rest, zlib.crc32(checked))
    return b"".join((HEAD.pack(MARK, kind, length, checksum), checked[_CHECKED_BYTES:], rest))


# For code that makes many frames and does not need the values they are read into. `texts` come from `pack_texts` and
# `pack_fields`.


def encode_begin(number: int, time: int, pid: int, uid: int, flags: int, texts: bytes) -> bytes:
    """A BEGIN; texts are its path, its origin, and names and values of its metadata in turns."""
    length = _BEGIN.size + len(texts)
    checked = _CHECKED_BEGIN.pack(_KIND_BEGIN, length, number, time, pid, uid, flags)
    return _joined(_KIND_BEGIN, length, checked, texts)


def encode_message(number: int, at: int, side: int, packing: int, size: int, body: bytes) -> bytes:
    """A MESSAGE frame as bytes, without a `Message` value in between."""
    length = _MESSAGE.size + len(body)
    checked = _CHECKED_MESSAGE.pack(_KIND_MESSAGE, length, number, at, side, packing, size)
    return _joined(_KIND_MESSAGE, length, checked, body)


def encode_end(number: int, elapsed: int, code: int, texts: bytes) -> bytes:
    """An END; texts are the message of its status, and who changed the call. A code that gRPC has not is 255."""
    length = _END.size + len(texts)
    known = code if 0 <= code < _WORST_CODE else _WORST_CODE
    return _joined(_KIND_END, length, _CHECKED_END.pack(_KIND_END, length, number, elapsed, known), texts)


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


def decode(data: bytes | memoryview, at: int = 0, known: "KnownTexts | None" = None) -> tuple[Frame | None, bytes]:
    """The frame that begins here, and its bytes. None: a kind of a later version, to be passed over.

    EOFError if the frame is unfinished, DamagedFrame if it is not what was written.
    """
    left = len(data) - at
    if left < HEAD.size:
        frame_size(data, at)
        raise EOFError
    mark, kind, length, checksum = HEAD.unpack_from(data, at)
    if mark != MARK or length > MAX_PAYLOAD:
        raise DamagedFrameError("no frame begins here")
    if left < HEAD.size + length:
        raise EOFError
    end = at + HEAD.size + length
    # Copied when it is known to be a frame: whoever searches behind damage looks at many that are none.
    if length > _SMALL:
        with memoryview(data) as view, view[at + HEAD.size : end] as part:
            found = zlib.crc32(part, zlib.crc32(_CHECKED.pack(kind, length)))
    else:
        found = zlib.crc32(data[at + HEAD.size : end], zlib.crc32(_CHECKED.pack(kind, length)))
    if found != checksum:
        raise DamagedFrameError("the checksum of a frame does not match")
    wire = bytes(data[at:end])
    try:
        return _read(kind, wire, known), wire
    except (struct.error, ValueError, IndexError, RecursionError, MemoryError, zlib.error) as error:
        raise DamagedFrameError(f"a frame cannot be read: {error}") from None


def _read(kind: int, wire: bytes, known: "KnownTexts | None") -> Frame | None:
    if kind == _KIND_MESSAGE:
        number, at, side, packing, size = _MESSAGE.unpack_from(wire, HEAD.size)
        if size > MAX_PAYLOAD and packing != Packing.ABSENT:
            raise ValueError(f"a message of {size} bytes is over the limit of {MAX_PAYLOAD}")
        which = _SIDES[side] if side < len(_SIDES) else MessageSide(side)
        packed = _PACKINGS[packing] if packing < len(_PACKINGS) else Packing(packing)
        return Message(number, at, which, size, wire[_BODY_AT:], packed)
    if kind == _KIND_BEGIN:
        number, time, pid, uid, flags = _BEGIN.unpack_from(wire, HEAD.size)
        texts = wire[_TEXTS_AT:]
        path, origin, metadata = _begin_texts(texts) if known is None else known.of(texts)
        return Begin(number, time, path, origin, pid, uid, _FLAGS[flags], metadata)
    if kind == _KIND_END:
        number, elapsed, code = _END.unpack_from(wire, HEAD.size)
        message, *changed_by = _texts(wire, HEAD.size + _END.size)
        return End(number, elapsed, code, message, tuple(changed_by))
    if kind == FrameKind.DROPPED:
        frames, size, time = _DROPPED.unpack_from(wire, HEAD.size)
        return Dropped(frames=frames, size=size, time=time)
    payload = wire[HEAD.size :]
    if kind == FrameKind.TRAILER:
        return Trailer(index_at=int.from_bytes(payload[:8], "little"))
    if kind == FrameKind.INDEX:
        return Index(facts=_facts(_unpack_index(payload)))
    if kind in (FrameKind.HEADER, FrameKind.CONTEXT):
        return (Header if kind == FrameKind.HEADER else Context)(facts=_facts(payload))
    return None


def _begin_texts(data: bytes) -> BeginTexts:
    path, origin, *rest = _texts(data, 0)
    return path, origin, tuple(zip(rest[::2], rest[1::2], strict=True))


class KnownTexts:
    """Texts of BEGIN frames that were read before: clients send the same few all the time. Bounded."""

    def __init__(self) -> None:
        self._known: dict[bytes, BeginTexts] = {}

    def of(self, data: bytes) -> BeginTexts:
        """Path, origin and metadata."""
        texts = self._known.get(data)
        if texts is None:
            texts = _begin_texts(data)
            if len(data) <= _LONGEST_KNOWN:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[data] = texts
        return texts


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
    texts: list[str] = []
    size = len(payload)
    while at < size:
        (length,) = _SHORT.unpack_from(payload, at)
        begin = at + 2
        at = begin + length
        if at > size:
            raise ValueError("a text is cut off")
        texts.append(payload[begin:at].decode("utf-8", "surrogateescape"))
        if len(texts) > _MAX_TEXTS:
            raise ValueError("too many texts")
    return texts
