"""Objects in Kubernetes' protobuf form, as kubectl sends those it makes by itself (`kubectl create configmap`). Pure.

Only what such objects can have: a table of fields for each message. Answers are always JSON, which clients take too.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeAlias

from tests.support.apiserver.problems import bad_request, unsupported_media

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"


class _Form(Enum):
    TEXT = auto()
    FLAG = auto()
    TEXTS = auto()  # repeated
    TEXT_MAP = auto()
    BYTES_MAP = auto()  # base64 in JSON


class _Field(NamedTuple):
    name: str
    form: "_Form | _Message"


_Message: TypeAlias = Mapping[int, _Field]

_METADATA: Final[_Message] = {
    1: _Field("name", _Form.TEXT),
    2: _Field("generateName", _Form.TEXT),
    3: _Field("namespace", _Form.TEXT),
    5: _Field("uid", _Form.TEXT),
    6: _Field("resourceVersion", _Form.TEXT),
    11: _Field("labels", _Form.TEXT_MAP),
    12: _Field("annotations", _Form.TEXT_MAP),
    14: _Field("finalizers", _Form.TEXTS),
}
_OBJECTS: Final[Mapping[tuple[str, str], _Message]] = {
    ("v1", "ConfigMap"): {
        1: _Field("metadata", _METADATA),
        2: _Field("data", _Form.TEXT_MAP),
        3: _Field("binaryData", _Form.BYTES_MAP),
        4: _Field("immutable", _Form.FLAG),
    },
    ("v1", "Secret"): {
        1: _Field("metadata", _METADATA),
        2: _Field("data", _Form.BYTES_MAP),
        3: _Field("type", _Form.TEXT),
        4: _Field("stringData", _Form.TEXT_MAP),
        5: _Field("immutable", _Form.FLAG),
    },
    ("v1", "Namespace"): {1: _Field("metadata", _METADATA), 2: _Field("spec", {}), 3: _Field("status", {})},
    ("v1", "ServiceAccount"): {1: _Field("metadata", _METADATA)},
    ("v1", "DeleteOptions"): {
        2: _Field("preconditions", {1: _Field("uid", _Form.TEXT), 2: _Field("resourceVersion", _Form.TEXT)}),
        5: _Field("dryRun", _Form.TEXTS),
    },
}
_TYPE_META: Final[_Message] = {1: _Field("apiVersion", _Form.TEXT), 2: _Field("kind", _Form.TEXT)}


def read_protobuf(raw: bytes) -> Mapping[str, Any]:
    """The object as its JSON would be; refused if it is of a kind that is not in the table."""
    if not raw.startswith(_MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        parts = dict(_fields(raw[len(_MAGIC) :]))
        said = _read(parts.get(1, b""), _TYPE_META)
        known = _OBJECTS.get((said.get("apiVersion", ""), said.get("kind", "")))
        if known is None:
            raise unsupported_media(["application/json"])
        return said | _read(parts.get(2, b""), known)
    except (IndexError, TypeError, UnicodeDecodeError) as error:
        raise bad_request(f"proto: {error}") from None


def _read(raw: bytes | int, message: _Message) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for number, value in _fields(raw):
        field = message.get(number)
        if field is None:
            continue
        match field.form:
            case _Form.TEXT:
                read[field.name] = _text(value)
            case _Form.FLAG:
                read[field.name] = bool(value)
            case _Form.TEXTS:
                read.setdefault(field.name, []).append(_text(value))
            case _Form.TEXT_MAP | _Form.BYTES_MAP:
                entry = dict(_fields(_bytes(value)))
                content = entry.get(2, b"")
                told = _text(content) if field.form is _Form.TEXT_MAP else b64encode(_bytes(content)).decode()
                read.setdefault(field.name, {})[_text(entry.get(1, b""))] = told
            case inner:
                read[field.name] = _read(_bytes(value), inner)
    return {key: value for key, value in read.items() if value not in ("", {})}


def _fields(raw: bytes | int) -> Iterator[tuple[int, bytes | int]]:
    """Number and value of each field: bytes, or a number."""
    data, at = _bytes(raw), 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            number, at = _varint(data, at)
            yield tag >> 3, number
        elif tag & 7 == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise IndexError("unexpected EOF")
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            raise TypeError(f"wire type {tag & 7} is of no use here")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise TypeError("a number where bytes belong")
    return value


def _text(value: bytes | int) -> str:
    return _bytes(value).decode()
