"""Protobuf bytes that nobody has a schema for, in one line a person can use.

Pure, and bounded in depth, fields and length whatever the bytes are. With `contents` values are shown, texts and the
first bytes too; without them only numbers, types and lengths, which is what may be said about withheld messages.
Whether some bytes are a message, a text or neither is a guess: nothing on the wire says it.
"""

from dataclasses import dataclass
from typing import Final

from interpose.core.model.text import escaped

MAX_READ: Final = 1000  # fields that are read at all, those inside of others and of groups included
MAX_FIELDS: Final = 40  # of one message; the rest is counted
MAX_DEPTH: Final = 4
MAX_TEXT: Final = 60
MAX_PROBED: Final = 4096  # bytes that are looked at to see if something is a text
MAX_HEX: Final = 32
MAX_SUMMARY: Final = 2000

_VARINT, _FIXED64, _BYTES, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
TYPES: Final = {_VARINT: "varint", _FIXED64: "fixed64", _BYTES: "bytes", _START_GROUP: "group", _FIXED32: "fixed32"}
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT: Final = 10
_HIGHEST_NUMBER: Final = (1 << 29) - 1
_DEEPEST_GROUP: Final = 100


class _NoFieldError(ValueError):
    """These bytes are no protobuf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireField:
    """One field as it is on the wire. The value of a group is the bytes between its marks."""

    number: int
    type: str
    value: int | bytes


class _Budget:
    """How many fields may still be read: a message can hold millions, and each costs."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def wire_fields(data: bytes, limit: int = MAX_READ) -> list[WireField] | None:
    """The first fields in their order; None if the bytes, as far as they were read, are no protobuf message."""
    return _fields(data, _Budget(limit))


def wire_summary(data: bytes, *, contents: bool) -> str:
    """`26 bytes, 2 fields: 1 bytes[12] "registry.k8s", 2 message[10] {1 varint 7, ...}`."""
    budget = _Budget(MAX_READ)
    fields = _fields(data, budget)
    if fields is None:
        text = f"{len(data)} bytes, no protobuf message"
        return f"{text}: {_hex(data)}" if contents else text
    count = f"{len(fields)}{'' if budget.left >= 0 else ' or more'} field{'' if len(fields) == 1 else 's'}"
    text = ": ".join(part for part in (f"{len(data)} bytes, {count}", _list(fields, contents, budget, 1)) if part)
    return text if len(text) <= MAX_SUMMARY else text[:MAX_SUMMARY] + "..."


def terminal_text(data: bytes) -> str | None:
    """The bytes as text if a terminal can show it as it is, line ends and tabs included."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if text.isprintable() or text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable():
        return text
    return None


# -- saying


def _list(fields: list[WireField], contents: bool, budget: _Budget, depth: int) -> str:
    shown = [_format_field(field, contents, budget, depth) for field in fields[:MAX_FIELDS]]
    if len(fields) > MAX_FIELDS:
        shown.append(f"{len(fields) - MAX_FIELDS} more")
    return ", ".join(shown)


def _format_field(field: WireField, contents: bool, budget: _Budget, depth: int) -> str:
    if isinstance(field.value, int):
        return f"{field.number} {field.type} {field.value}" if contents else f"{field.number} {field.type}"
    size = f"[{len(field.value)}]"
    text = terminal_text(field.value[:MAX_PROBED])
    # Most texts are no messages and most messages no texts; what is both is a text.
    inner = _fields(field.value, budget) if depth < MAX_DEPTH and not text else None
    if inner:
        kind = "group" if field.type == "group" else "message"
        return f"{field.number} {kind}{size} {{{_list(inner, contents, budget, depth + 1)}}}"
    head = f"{field.number} {field.type}{size}"
    if not contents or not field.value:
        return head
    return f"{head} {_quoted(text) if text else _hex(field.value)}"


def _quoted(text: str) -> str:
    one_line = escaped(text)
    return f'"{one_line}"' if len(one_line) <= MAX_TEXT else f'"{one_line[:MAX_TEXT]}"...'


def _hex(data: bytes) -> str:
    return data[:MAX_HEX].hex(" ") + ("..." if len(data) > MAX_HEX else "")


# -- reading


def _fields(data: bytes, budget: _Budget) -> list[WireField] | None:
    fields = []
    at = 0
    try:
        while at < len(data) and budget.take():
            number, kind, at = _tag(data, at)
            if kind == _END_GROUP:
                return None
            value, at = _value(data, at, number, kind, budget)
            fields.append(WireField(number=number, type=TYPES[kind], value=value))
    except _NoFieldError:
        return None
    return fields


def _tag(data: bytes, at: int) -> tuple[int, int, int]:
    tag, at = _varint(data, at)
    number, kind = tag >> 3, tag & 7
    if not 0 < number <= _HIGHEST_NUMBER or kind > _FIXED32:
        raise _NoFieldError
    return number, kind, at


def _value(data: bytes, at: int, number: int, kind: int, budget: _Budget) -> tuple[int | bytes, int]:
    if kind == _VARINT:
        return _varint(data, at)
    if kind == _START_GROUP:
        return _group(data, at, number, budget)
    if kind == _BYTES:
        size, at = _varint(data, at)
    else:
        size = _FIXED[kind]
    value = data[at : at + size]
    if len(value) < size:
        raise _NoFieldError
    return (value if kind == _BYTES else int.from_bytes(value, "little")), at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + place + 1
    raise _NoFieldError


def _group(data: bytes, start: int, number: int, budget: _Budget) -> tuple[bytes, int]:
    """Everything up to the mark that ends the group; groups inside are passed over."""
    open_groups = [number]
    at = start
    while budget.take():
        begin = at
        inner, kind, at = _tag(data, at)
        if kind == _END_GROUP:
            if open_groups.pop() != inner:
                raise _NoFieldError
            if not open_groups:
                return data[start:begin], at
        elif kind == _START_GROUP:
            open_groups.append(inner)
            if len(open_groups) > _DEEPEST_GROUP:
                raise _NoFieldError
        else:
            _ignored, at = _value(data, at, inner, kind, budget)
    raise _NoFieldError
