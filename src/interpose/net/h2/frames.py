"""HTTP/2 frames (RFC 9113 sections 4 and 6): numbers, and the bytes of the frames we send."""

from collections.abc import Callable
from struct import Struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY_FLAG: Final = 0x20

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

DEFAULT_WINDOW: Final = 65_535
DEFAULT_FRAME_SIZE: Final = 16_384
LARGEST_FRAME_SIZE: Final = (1 << 24) - 1
LARGEST_WINDOW: Final = (1 << 31) - 1
LARGEST_STREAM_ID: Final = (1 << 31) - 1

# Length and type share the first word: one unpack gives all four parts of a frame header.
FRAME_HEAD: Final = Struct(">IBI")
# The same nine bytes for the data path, where no arithmetic is the fastest: (0, length, type and flags, stream). The
# first byte is the length's highest, which no frame that we send or take needs.
SHORT_HEAD: Final = Struct(">BHHI")
unpack_head: Final[Callable[[bytes, int], tuple[int, int, int]]] = FRAME_HEAD.unpack_from
DATA_PLAIN: Final = 0x000
DATA_END: Final = 0x001
HEADERS_WHOLE: Final = 0x104  # END_HEADERS
HEADERS_END: Final = 0x105  # END_HEADERS and END_STREAM
HEAD_SIZE: Final = 9
_SETTING: Final = Struct(">HI")
_WINDOW_UPDATE: Final = Struct(">IBII")

SETTINGS_ACK: Final = FRAME_HEAD.pack(SETTINGS, ACK, 0)


def unpack_short(data: bytes, position: int) -> tuple[int, int, int, int]:
    """The four parts of `SHORT_HEAD` from the nine bytes at this position, which have to be there."""
    return (
        data[position],
        data[position + 1] << 8 | data[position + 2],
        data[position + 3] << 8 | data[position + 4],
        data[position + 5] << 24 | data[position + 6] << 16 | data[position + 7] << 8 | data[position + 8],
    )


def pack_short(high: int, length: int, what: int, number: int) -> bytes:
    """The nine bytes of these four parts."""
    return (high << 32 | length << 16 | what).to_bytes(5, "big") + number.to_bytes(4, "big")


ARITHMETIC: Final = (unpack_short, pack_short)
# Arithmetic is quicker than a call of `struct` where it is compiled, and slower where it is interpreted.
_INTERPRETED: Final = {"unpack_short": SHORT_HEAD.unpack_from, "pack_short": SHORT_HEAD.pack}
globals().update(_INTERPRETED if __file__.endswith(".py") else {})


def settings(values: dict[int, int]) -> bytes:
    """The bytes of a SETTINGS frame."""
    payload = b"".join([_SETTING.pack(key, value) for key, value in values.items()])
    return FRAME_HEAD.pack(len(payload) << 8 | SETTINGS, 0, 0) + payload


def window_update(stream: int, increment: int) -> bytes:
    """The bytes of a WINDOW_UPDATE frame; stream 0 is the connection."""
    return _WINDOW_UPDATE.pack(4 << 8 | WINDOW_UPDATE, 0, stream, increment)


def rst_stream(stream: int, code: int) -> bytes:
    """The bytes of an RST_STREAM frame."""
    return _WINDOW_UPDATE.pack(4 << 8 | RST_STREAM, 0, stream, code)


def ping(payload: bytes, *, ack: bool) -> bytes:
    """The bytes of a PING frame or of its answer."""
    return FRAME_HEAD.pack(8 << 8 | PING, ACK if ack else 0, 0) + payload


def goaway(last_stream: int, code: int, reason: bytes = b"") -> bytes:
    """The bytes of a GOAWAY frame."""
    payload = last_stream.to_bytes(4, "big") + code.to_bytes(4, "big") + reason
    return FRAME_HEAD.pack(len(payload) << 8 | GOAWAY, 0, 0) + payload


def headers(stream: int, block: bytes, end: bool, max_frame: int) -> bytes:
    """HEADERS, with as many CONTINUATION frames as the block needs."""
    flags = END_STREAM if end else 0
    if len(block) <= max_frame:
        return FRAME_HEAD.pack(len(block) << 8 | HEADERS, flags | END_HEADERS, stream) + block
    pieces = [block[at : at + max_frame] for at in range(0, len(block), max_frame)]
    out = [FRAME_HEAD.pack(len(pieces[0]) << 8 | HEADERS, flags, stream), pieces[0]]
    for piece in pieces[1:-1]:
        out += FRAME_HEAD.pack(len(piece) << 8 | CONTINUATION, 0, stream), piece
    out += FRAME_HEAD.pack(len(pieces[-1]) << 8 | CONTINUATION, END_HEADERS, stream), pieces[-1]
    return b"".join(out)


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """The pairs of a SETTINGS payload whose length is a multiple of six."""
    return list(_SETTING.iter_unpack(payload))


def read_head(data: bytes, position: int) -> tuple[int, int, int]:
    """Length of the payload, type and stream of a frame. Not for the data path."""
    head, _, number = FRAME_HEAD.unpack_from(data, position)
    return head >> 8, head & 0xFF, number
