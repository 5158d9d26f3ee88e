"""Header fields, and what makes a list of them a request, a response or trailers.

A Field carries its own outgoing form (`wire`): static table or literal, never indexed, so that sending needs no state
and one decoded block can be written to any connection. Each field has a one-byte kind; the kinds of a block, as bytes,
decide its shape (RFC 9113 8.2, 8.3), and that decision is kept because real traffic has a handful of them.
"""

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final

from interpose.net.h2.static_table import STATIC_TABLE

# Kinds: what a field means to the shape of its block, and the few fields that are looked up by everyone.
PLAIN: Final = 0
METHOD: Final = 1
SCHEME: Final = 2
PATH: Final = 3
AUTHORITY: Final = 4
STATUS: Final = 5
BAD: Final = 6
GRPC_STATUS: Final = 7
TE: Final = 8  # of names only: a field is then PLAIN or BAD

_KINDS: Final = {
    b":method": METHOD,
    b":scheme": SCHEME,
    b":path": PATH,
    b":authority": AUTHORITY,
    b":status": STATUS,
    b"grpc-status": GRPC_STATUS,
    # Fields that speak about one connection must not travel on (RFC 9113 8.2.2).
    b"connection": BAD,
    b"keep-alive": BAD,
    b"proxy-connection": BAD,
    b"transfer-encoding": BAD,
    b"upgrade": BAD,
    b"te": TE,
}
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")


class HeaderShape(IntEnum):
    """What a header block may be."""

    MALFORMED = 0
    REQUEST = 1
    RESPONSE = 2
    INTERIM = 3  # a response with a 1xx status: more headers follow
    TRAILERS = 4


class Field:
    """One header field, immutable by agreement. `size` counts as RFC 7541 4.1 does."""

    __slots__ = ("kind", "name", "name_kind", "prefix", "size", "value", "wire")

    def __init__(self, name: bytes, value: bytes, name_kind: int, prefix: bytes, wire: bytes) -> None:
        self.name = name
        self.value = value
        self.name_kind = name_kind
        self.prefix = prefix  # how a literal of this name begins
        self.wire = wire
        self.size = len(name) + len(value) + 32
        # What a value can do is make its field worse (RFC 9113 8.2.1, 8.2.2, 8.3.1).
        # Bytes are looked for as numbers: `bytes in bytes` makes an exception before it searches.
        if 0x0A in value or 0x0D in value or 0 in value:
            self.kind = BAD
        elif name_kind <= PLAIN:
            self.kind = name_kind
        elif (name_kind == PATH and value[:1] != b"/") or (name_kind == TE and value != b"trailers"):
            # A path without its slash is more than untidy: servers take it as the same method, tables of ours do not.
            self.kind = BAD
        else:
            self.kind = PLAIN if name_kind == TE else name_kind

    def __repr__(self) -> str:
        return f"Field({self.name!r}: {len(self.value)} bytes)"  # values may be secrets


# What a call and a field of a new block cost, in the units of `net.h2.connection`'s slices.
_CALL_COST: Final = 60
FIELD_COST: Final = 16
DEAR: Final = _CALL_COST + 500
"""Calls that cost more have 8 KB of headers, which no client of CRI has, or are over the limit."""
_CODES: Final = {b"%d" % code: code for code in range(17)}


class Headers:
    """A decoded header block. Shared between calls by the decoder's memo, hence never changed.

    `event` is the shape as a plain number for the state table; a list over the limit may not come at any time.
    `grpc_code` is -1 without a grpc-status, and 2 (UNKNOWN) if that is no code. `cost` is what a call with this block
    costs, bytes that go out included: a few that came may stand for many.
    """

    __slots__ = ("_size", "cost", "event", "fields", "grpc_code", "grpc_status", "path", "shape", "wire")

    def __init__(self, fields: list[Field], size: int = 0) -> None:
        self.fields = fields
        self._size = size
        self.wire = b"".join([field.wire for field in fields])
        self.cost = _CALL_COST + (len(self.wire) >> 4)
        self.shape, self.event, path_at, status_at = _layout(bytes([field.kind for field in fields]))
        self.path = fields[path_at].value if path_at >= 0 else b""
        self.grpc_status: bytes | None = None
        self.grpc_code = -1
        if status_at >= 0:
            self.grpc_status = fields[status_at].value
            self.grpc_code = _CODES.get(self.grpc_status, 2)
        if self.event == _RESPONSE_EVENT:
            self._look_at_status(fields[0].value)
        if size:
            self.event = 0
            self.cost += size >> 4

    def _look_at_status(self, status: bytes) -> None:
        if len(status) != 3 or not status.isdigit():
            self.shape = HeaderShape.MALFORMED
        elif status[0] == 0x31:
            self.shape = HeaderShape.INTERIM
        self.event = int(self.shape) * 2

    @property
    def oversized(self) -> bool:
        """Whether the list was over the limit; `fields` are then only its beginning."""
        return self._size > 0

    @property
    def size(self) -> int:
        """The size of the whole list, as RFC 7541 4.1 counts."""
        return self._size or sum(field.size for field in self.fields)

    def get(self, name: bytes) -> bytes | None:
        """The first value of this name."""
        for field in self.fields:
            if field.name == name:
                return field.value
        return None

    def items(self) -> list[tuple[bytes, bytes]]:
        """All fields in order, pseudo-header fields included."""
        return [(field.name, field.value) for field in self.fields]


_REQUEST: Final = re.compile(rb"(?=[^\x01]*\x01[^\x01]*$)(?=[^\x02]*\x02[^\x02]*$)(?=[^\x03]*\x03[^\x03]*$)"
                             rb"(?![^\x04]*\x04[^\x04]*\x04)[\x01-\x04]{3,4}[\x00\x07]*\Z", re.DOTALL)  # fmt: skip
_RESPONSE: Final = re.compile(rb"\x05[\x00\x07]*\Z")
_TRAILERS: Final = re.compile(rb"[\x00\x07]*\Z")


def shape_of(kinds: bytes) -> HeaderShape:
    """Decide by the kinds alone; a 1xx status is recognised later, by its value."""
    if kinds[:1] == b"\x05":
        return HeaderShape.RESPONSE if _RESPONSE.match(kinds) else HeaderShape.MALFORMED
    if _TRAILERS.match(kinds):
        return HeaderShape.TRAILERS
    return HeaderShape.REQUEST if _REQUEST.match(kinds) else HeaderShape.MALFORMED


@lru_cache(maxsize=256)
def _layout(kinds: bytes) -> tuple[HeaderShape, int, int, int]:
    """Shape, event, and where the path and the grpc-status stand (-1: nowhere)."""
    shape = shape_of(kinds)
    return shape, int(shape) * 2, kinds.find(PATH), kinds.find(GRPC_STATUS)


_RESPONSE_EVENT: Final = int(HeaderShape.RESPONSE) * 2


def kind_of(name: bytes) -> int:
    """The kind a name gives its fields."""
    kind = _KINDS.get(name)
    if kind is not None:
        return kind
    return PLAIN if _NAME.fullmatch(name) else BAD


def encode_integer(value: int, bits: int, pattern: int) -> bytes:
    """RFC 7541 5.1: an integer behind `bits` of prefix whose upper bits are `pattern`."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes((pattern | value,))
    out = bytearray((pattern | limit,))
    value -= limit
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_string(value: bytes) -> bytes:
    """A string literal without Huffman coding."""
    return encode_integer(len(value), 7, 0) + value


def _static_names() -> dict[bytes, int]:
    names: dict[bytes, int] = {}
    for index, (name, _) in enumerate(STATIC_TABLE, 1):
        names.setdefault(name, index)
    return names


_STATIC_INDEX: Final = {pair: index for index, pair in enumerate(STATIC_TABLE, 1)}
_STATIC_NAME: Final = _static_names()


def name_prefix(name: bytes) -> bytes:
    """How a literal field without indexing begins: the name, by static index where there is one."""
    index = _STATIC_NAME.get(name)
    return encode_integer(index, 4, 0) if index is not None else b"\x00" + encode_string(name)


def never_indexed(prefix: bytes) -> bytes:
    """The same beginning with the never-indexed mark, which each hop has to keep (RFC 7541 6.2.3)."""
    return bytes((prefix[0] | 0x10,)) + prefix[1:]


def make_field(name: bytes, value: bytes) -> Field:
    """A field of our own, or an entry of the static table."""
    prefix = name_prefix(name)
    index = _STATIC_INDEX.get((name, value))
    wire = encode_integer(index, 7, 0x80) if index is not None else prefix + encode_string(value)
    return Field(name, value, kind_of(name), prefix, wire)


def encode(items: list[tuple[bytes, bytes]]) -> bytes:
    """The wire form of fields of our own."""
    return b"".join([make_field(name, value).wire for name, value in items])
