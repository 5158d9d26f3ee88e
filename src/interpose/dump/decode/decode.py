"""Messages as trees of plain values: what people see of them.

A tree holds dicts, lists, texts, numbers and truth values under the names of the protocol; what has its zero value is
left out, enums are names, and bytes that are not text are base64. Fields that this version does not know are there too,
under `unknown_fields`. Nothing makes decoding fail: what cannot be decoded gives no tree and a note that says why.

What is cached is bounded by the protocol: how each of its fields is shown.
"""

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from interpose.cri.errors import UnreadableMessageError
from interpose.cri.parser import CriParser
from interpose.dump.decode.api import DecodedMessage
from interpose.dump.decode.raw_protobuf import TYPES, terminal_text, wire_summary
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import DamagedFrameError, Message

UNKNOWN: Final = "unknown_fields"
MAX_VALUES: Final = 200_000  # of one tree: more is of no use to anybody, and costs seconds
_DEEPEST: Final = 20  # groups within groups of unknown fields


class ValueKind(Enum):
    """How a value is shown."""

    PLAIN = auto()
    FLOAT = auto()
    BYTES = auto()
    ENUM = auto()
    MESSAGE = auto()


_KINDS: Final = {
    FieldDescriptor.TYPE_DOUBLE: ValueKind.FLOAT,
    FieldDescriptor.TYPE_FLOAT: ValueKind.FLOAT,
    FieldDescriptor.TYPE_BYTES: ValueKind.BYTES,
    FieldDescriptor.TYPE_ENUM: ValueKind.ENUM,
    FieldDescriptor.TYPE_MESSAGE: ValueKind.MESSAGE,
    FieldDescriptor.TYPE_GROUP: ValueKind.MESSAGE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """How one field of the protocol is shown."""

    name: str
    full_name: str  # with its message
    kind: ValueKind  # of the values, if it is a map
    repeated: bool
    is_map: bool
    enum: Mapping[int, str]


def _describe_field(field: Any) -> _Field:
    entry = field.message_type
    is_map = entry is not None and entry.GetOptions().map_entry
    value = entry.fields_by_name["value"] if is_map else field
    return _Field(
        name=field.name,
        full_name=f"{field.containing_type.name}.{field.name}",
        kind=_KINDS.get(value.type, ValueKind.PLAIN),
        repeated=field.is_repeated,
        is_map=is_map,
        enum={} if value.enum_type is None else {member.number: member.name for member in value.enum_type.values},
    )


class Decoder:
    """Decodes the messages of calls. One for many calls: it remembers how fields are shown."""

    def __init__(self, *, max_values: int = MAX_VALUES) -> None:
        self._max_values = max_values
        self._fields: dict[Any, _Field] = {}
        self._parsers: dict[str, CriParser] = {}

    def message(self, flow: Flow, message: Message) -> DecodedMessage:
        """The message of a call."""
        if message.absent:
            return DecodedMessage(tree=None, note=message.absent)
        try:
            data = message.data
        except DamagedFrameError as damage:
            return DecodedMessage(tree=None, note=f"damaged: {damage}")
        method = flow.method
        if method is None:
            return DecodedMessage(tree=None, note=f"not a known CRI method: {wire_summary(data, contents=True)}")
        name = method.response if message.side.is_reply else method.request
        try:
            return self.decode(self._parser(name).parse(data))
        except UnreadableMessageError as error:
            return DecodedMessage(tree=None, note=f"{error}: {wire_summary(data, contents=True)}")

    def decode(self, message: Any) -> DecodedMessage:
        """A protobuf message of any type as a document."""
        walk = _Walk(self._fields, self._max_values)
        tree = walk.message(message)
        return DecodedMessage(tree=tree, note=walk.note)

    def _parser(self, name: str) -> CriParser:
        parser = self._parsers.get(name)
        if parser is None:
            parser = self._parsers[name] = CriParser(name)
        return parser


def to_tree(message: Any) -> Any:
    """A protobuf message as a tree. For many messages a `Decoder` is faster."""
    return Decoder().decode(message).tree


class _Walk:
    """The way through one message."""

    __slots__ = ("_as_base64", "_cut", "_fields", "_left", "_render")

    def __init__(self, fields: dict[Any, _Field], max_values: int) -> None:
        self._fields = fields
        self._left = max_values
        self._cut = 0
        self._as_base64: dict[str, None] = {}
        self._render: dict[ValueKind, Callable[[_Field, Any], Any]] = {
            ValueKind.FLOAT: _float,
            ValueKind.BYTES: self._bytes,
            ValueKind.ENUM: lambda field, number: field.enum.get(number, number),
            ValueKind.MESSAGE: lambda _field, message: self.message(message),
        }

    @property
    def note(self) -> str:
        """What has to be said about the tree."""
        notes = []
        if self._as_base64:
            notes.append(f"base64, because it is not text: {', '.join(self._as_base64)}")
        if self._cut:
            notes.append(f"too large to show: {self._cut} values left out")
        return "; ".join(notes)

    def message(self, message: Any) -> dict[str, Any]:
        """The fields of a message that are set."""
        tree: dict[str, Any] = {}
        for descriptor, value in message.ListFields():
            field = self._fields.get(descriptor)
            if field is None:
                field = self._fields[descriptor] = _describe_field(descriptor)
            self._left -= 1
            if field.is_map:
                tree[field.name] = self._map(field, value)
            elif field.repeated:
                tree[field.name] = self._list(field, value)
            elif field.kind is ValueKind.PLAIN:
                tree[field.name] = value
            else:
                tree[field.name] = self._render[field.kind](field, value)
        unknown: Any = UnknownFieldSet(message)  # the stubs do not know that it can be iterated
        if len(unknown):
            tree[UNKNOWN] = self._unknown(list(unknown), 0)
        return tree

    def _list(self, field: _Field, values: Any) -> list[Any]:
        if field.kind is ValueKind.PLAIN:
            return list(self._within(values))
        render = self._render[field.kind]
        shown: list[Any] = []
        for value in values:
            if self._left <= 0:  # what is inside of the first ones may have used it up
                self._cut += len(values) - len(shown)
                break
            self._left -= 1
            shown.append(render(field, value))
        return shown

    def _map(self, field: _Field, values: Any) -> dict[str, Any]:
        items = self._within(sorted(values.items()))
        if field.kind is ValueKind.PLAIN:
            return dict(items)
        render = self._render[field.kind]
        return {key: render(field, value) for key, value in items}

    def _within(self, values: Any) -> Any:
        """As many of them as may still be shown."""
        left = max(self._left, 0)
        if len(values) > left:
            self._cut += len(values) - left
            values = values[:left]
        self._left -= len(values)
        return values

    def _bytes(self, field: _Field, data: bytes) -> str:
        text = terminal_text(data)
        if text is not None:
            return text
        self._as_base64[field.full_name] = None
        return base64.b64encode(data).decode()

    def _unknown(self, fields: list[Any], depth: int) -> list[dict[str, Any]]:
        shown = []
        for field in self._within(fields):
            value = field.data
            kind = TYPES.get(field.wire_type, "unknown")
            if kind == "group":
                value = self._unknown(list(value), depth + 1) if depth < _DEEPEST else "deeper than anybody looks"
            elif isinstance(value, bytes):
                value = self._bytes(_UNKNOWN_FIELD, value)
            shown.append({"number": field.field_number, "type": kind, "value": value})
        return shown


_UNKNOWN_FIELD: Final = _Field(
    name=UNKNOWN, full_name=UNKNOWN, kind=ValueKind.BYTES, repeated=True, is_map=False, enum={}
)


def _float(_field: _Field, value: float) -> float | str:
    """JSON has no numbers that are none."""
    return value if math.isfinite(value) else str(value)
