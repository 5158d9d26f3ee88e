"""Frames of HTTP/2 for tests: build any frame, broken ones too, and read back what the engine wrote.

The other opinion: nothing of `interpose.net.h2` is imported and nothing is fast. What a builder is told it writes,
right or wrong; only `read_frames` is strict, because it judges the engine. HPACK for tests is in `h2hpack`, the engine
between a test and its sinks in `h2bench`.
"""

from dataclasses import dataclass
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
LARGEST_FRAME: Final = 16_384
NAMES: Final = (
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it is on the wire; `kind` is the name of its type."""

    kind: str
    stream: int
    payload: bytes = b""
    flags: int = 0

    @property
    def end(self) -> bool:
        """END_STREAM on DATA and HEADERS, ACK on SETTINGS and PING: the same bit."""
        return bool(self.flags & 0x1)

    @property
    def code(self) -> int:
        """The error code of RST_STREAM or GOAWAY."""
        return int.from_bytes(self.payload[-4:] if self.kind == "RST_STREAM" else self.payload[4:8], "big")

    @property
    def number(self) -> int:
        """The increment of WINDOW_UPDATE, or the last stream of GOAWAY."""
        return int.from_bytes(self.payload[:4], "big")

    @property
    def settings(self) -> dict[int, int]:
        """The pairs of SETTINGS."""
        at = range(0, len(self.payload), 6)
        return {_number(self.payload[i : i + 2]): _number(self.payload[i + 2 : i + 6]) for i in at}


class BadFramesError(Exception):
    """The engine wrote bytes that are no frames; the message says which."""


def read_frames(data: bytes) -> list[Frame]:
    """All frames of these bytes, which have to end where a frame ends."""
    found = []
    while data:
        length = _number(data[:3])
        payload = data[9 : 9 + length]
        if len(data) < 9 or len(payload) != length or length > LARGEST_FRAME or data[3] >= len(NAMES):
            raise BadFramesError(f"no frame: {data[:32].hex(' ')} ({len(data)} bytes left)")
        found.append(Frame(NAMES[data[3]], _number(data[5:9]), payload, data[4]))
        data = data[9 + length :]
    return found


def raw(kind: int, flags: int, stream: int, payload: bytes = b"", *, length: int | None = None) -> bytes:
    """Any frame at all; `length` may lie."""
    size = len(payload) if length is None else length
    return size.to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def data(stream: int, payload: bytes = b"", *, end: bool = False, pad: int | None = None) -> bytes:
    """DATA; `pad` is what its padding claims and has."""
    flags, payload = _padded(payload, pad)
    return raw(0, flags | (0x1 if end else 0), stream, payload)


def headers(
    stream: int,
    block: bytes,
    *,
    end: bool = False,
    more: bool = False,
    pad: int | None = None,
    depends_on: int | None = None,
) -> bytes:
    """HEADERS; `more` leaves END_HEADERS out, `depends_on` adds the priority fields."""
    if depends_on is not None:
        block = depends_on.to_bytes(4, "big") + b"\x10" + block
    flags, payload = _padded(block, pad)
    flags |= (0x1 if end else 0) | (0 if more else 0x4) | (0 if depends_on is None else 0x20)
    return raw(1, flags, stream, payload)


def continuation(stream: int, block: bytes, *, more: bool = False) -> bytes:
    """CONTINUATION; `more` leaves END_HEADERS out."""
    return raw(9, 0 if more else 0x4, stream, block)


def priority(stream: int, depends_on: int = 0) -> bytes:
    """PRIORITY."""
    return raw(2, 0, stream, depends_on.to_bytes(4, "big") + b"\x10")


def rst_stream(stream: int, code: int = 8) -> bytes:
    """RST_STREAM; CANCEL unless told."""
    return raw(3, 0, stream, code.to_bytes(4, "big"))


def settings(*pairs: tuple[int, int]) -> bytes:
    """SETTINGS; the same key may come twice."""
    return raw(4, 0, 0, b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs))


def settings_ack() -> bytes:
    """The answer to SETTINGS."""
    return raw(4, 0x1, 0)


def push_promise(stream: int, promised: int, block: bytes) -> bytes:
    """PUSH_PROMISE."""
    return raw(5, 0x4, stream, promised.to_bytes(4, "big") + block)


def ping(payload: bytes = b"pingpong", *, ack: bool = False) -> bytes:
    """PING or its answer."""
    return raw(6, 0x1 if ack else 0, 0, payload)


def goaway(last: int, code: int = 0, text: bytes = b"") -> bytes:
    """GOAWAY."""
    return raw(7, 0, 0, last.to_bytes(4, "big") + code.to_bytes(4, "big") + text)


def window_update(stream: int, increment: int) -> bytes:
    """WINDOW_UPDATE; stream 0 is the connection."""
    return raw(8, 0, stream, increment.to_bytes(4, "big"))


def _padded(payload: bytes, pad: int | None) -> tuple[int, bytes]:
    if pad is None:
        return 0, payload
    return 0x8, bytes((pad,)) + payload + bytes(pad)


def _number(raw_bytes: bytes) -> int:
    return int.from_bytes(raw_bytes, "big")
