"""Kinds of values in documents, and reading a document against a table of them.

A table is a `FieldGroup`: its keys, each with the kind of its value. Reading goes on after a problem, so that all
problems are known at once. Null is as good as absent. A value that cannot be used is None until the report is settled.
Pure.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

from interpose.config.documents.yaml import TAG_NAMES, DocumentNode
from interpose.core.model.text import closest, quoted
from interpose.errors import ConfigError

# More than a person reads; a file that is something else altogether has one per line.
_MAX_PROBLEMS: Final = 50
_MAX_NAME: Final = 64
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_FRACTION: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
# YAML has more words for it than JSON; which of them count was decided when the document was read.
_TRUE: Final = frozenset(("true", "yes", "on"))
# How much alike two keys must be for one to be a slip of the other.
_ALIKE: Final = 0.6
_MUCH_ALIKE: Final = 0.8


class Report:
    """The problems of one document; `where` names it in every message: "file /etc/x.yaml"."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._problems: list[str] = []
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether further problems are only counted."""
        return self.count >= _MAX_PROBLEMS

    def say(self, node: DocumentNode, key: str, text: str) -> None:
        """Note a problem; the document itself has no key."""
        self.count += 1
        if self.count <= _MAX_PROBLEMS:
            line = f" line {node.line}" if node.line else ""
            self._problems.append(f"{self._where}{line}: " + (f"{key}: {text}" if key else text))

    def expected(self, what: str, tag: str, node: DocumentNode, key: str) -> None:
        """Note that a value is not `what` it should be; `tag` is the right one for it."""
        found = TAG_NAMES[node.tag]
        if node.tag not in ("map", "list", "null"):
            found = quoted(node.text) if node.tag == tag else f"{found} ({quoted(node.text)})"
        self.say(node, key, f"expected {what}, found {found}")

    def settle(self) -> None:
        """ConfigError if there was any problem."""
        if self.count > _MAX_PROBLEMS:
            self._problems.append(f"{self._where}: and {self.count - _MAX_PROBLEMS} problems more")
        if self._problems:
            raise ConfigError(self._problems)


@runtime_checkable
class Described(Protocol):
    """A kind that can describe its values as JSON Schema."""

    def form(self) -> dict[str, Any]:
        """The schema of a value."""


def form_of(kind: object) -> dict[str, Any]:
    """The JSON Schema of a kind; empty for one that does not describe itself."""
    return kind.form() if isinstance(kind, Described) else {}


class FieldReader(Protocol):
    """The kind of value that a key may have."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        """The value; None with a problem in the report if it is not of this kind. Not called for nulls."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that is not read: anything is allowed."""

    def read(self, node: DocumentNode, key: str, report: Report) -> None:
        return


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number within bounds."""

    low: int
    high: int

    def read(self, node: DocumentNode, key: str, report: Report) -> int | None:
        if node.tag == "int" and _WHOLE.fullmatch(node.text) and self.low <= int(node.text) <= self.high:
            return int(node.text)
        report.expected(f"a number from {self.low} to {self.high}", "int", node, key)
        return None

    def form(self) -> dict[str, Any]:
        """A whole number within the bounds."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


@dataclass(frozen=True, slots=True)
class FlagField:
    """A boolean, true or false."""

    def read(self, node: DocumentNode, key: str, report: Report) -> bool | None:
        if node.tag == "bool":
            return node.text.lower() in _TRUE
        report.expected("true or false", "bool", node, key)
        return None

    def form(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Text:
    """A text of any content."""

    def read(self, node: DocumentNode, key: str, report: Report) -> str | None:
        if node.tag == "str":
            return node.text
        report.expected("text", "str", node, key)
        return None

    def form(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words, each with its value. A word with the value None is as good as absent."""

    words: Mapping[str, Any]

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        """The value of the word."""
        if node.tag == "str" and node.text in self.words:
            return self.words[node.text]
        report.expected(" or ".join(filter(None, self.words)), "str", node, key)
        return None

    def form(self) -> dict[str, Any]:
        """One of the words."""
        return {"type": "string", "enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class Texts:
    """A map of texts with free names, as labels are."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, str] | None:
        if node.tag != "map":
            report.expected("a group of keys", "map", node, key)
            return None
        found: dict[str, str] = {}
        for name, child in node.entries:
            where = f"{key}[{quoted(name)}]"
            if name in found:
                report.say(child, where, "is given twice")
            elif child.tag == "str":
                found[name] = child.text
            elif child.tag != "null":
                report.expected("text in quotes", "str", child, where)
        return MappingProxyType(found)

    def form(self) -> dict[str, Any]:
        """Any keys, each with a text."""
        return {"type": "object", "additionalProperties": {"type": ["string", "null"]}}


@dataclass(frozen=True, slots=True)
class PlainValues:
    """A group of keys that somebody else defines, as plain values: dict, list, str, int, float, bool, None."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, Any] | None:
        if node.tag != "map":
            report.expected("a group of keys", "map", node, key)
            return None
        return MappingProxyType(self._values(node, key, report))

    def form(self) -> dict[str, Any]:
        return {"type": "object"}

    def _values(self, node: DocumentNode, key: str, report: Report) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, child in node.entries:
            where = f"{key}.{_printable(name)}"
            if name in found:
                report.say(child, where, "is given twice")
            found[name] = self._value(child, where, report)
        return found

    def _value(self, node: DocumentNode, key: str, report: Report) -> Any:
        match node.tag:
            case "map":
                return self._values(node, key, report)
            case "list":
                return [self._value(item, f"{key}[{index}]", report) for index, item in enumerate(node.items)]
            case "bool":
                return node.text.lower() in _TRUE
            case "int" if _WHOLE.fullmatch(node.text):
                return int(node.text)
            case "float" if _FRACTION.fullmatch(node.text):
                return float(node.text)
            case "null":
                return None
            case _:  # numbers of YAML that nobody writes on purpose, as 0660 and 1:30, keep their text
                return node.text


@dataclass(frozen=True, slots=True)
class NamedFields:
    """A map of values of one kind with free names."""

    kind: FieldReader

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, Any] | None:
        if node.tag != "map":
            report.expected("a group of keys", "map", node, key)
            return None
        found: dict[str, Any] = {}
        for name, child in node.entries:
            where = f"{key}.{name}" if name.isprintable() else f"{key}[{quoted(name)}]"
            if name in found:
                report.say(child, where, "is given twice")
            else:
                found[name] = self.kind.read(child, where, report)
        return MappingProxyType(found)

    def form(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": form_of(self.kind)}


@dataclass(frozen=True, slots=True)
class Items:
    """A list of values of one kind; `make` gets all of them."""

    kind: FieldReader
    make: Callable[[tuple[Any, ...]], Any]

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        """The result of `make` for all items."""
        if node.tag != "list":
            report.expected("a list", "list", node, key)
            return None
        before = report.count
        found = tuple(self.kind.read(item, f"{key}[{index}]", report) for index, item in enumerate(node.items))
        return _made(self.make, found, node, key, report, before)

    def form(self) -> dict[str, Any]:
        return {"type": "array", "items": form_of(self.kind)}


def _as_is(values: dict[str, Any]) -> dict[str, Any]:
    return values


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Keys with their kinds. `make` gets the values of those that are there; its ValueError is a problem of the group.

    A `loose` group is defined by another program, and only some of its keys are read: other keys are fine, unless they
    look like a slip of one that is.
    """

    keys: Mapping[str, FieldReader]
    make: Callable[[dict[str, Any]], Any] = _as_is
    required: tuple[str, ...] = ()
    loose: bool = field(default=False, kw_only=True)

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        """The result of `make` for the values; None if one of them has a problem."""
        if node.tag != "map":
            report.expected("a group of keys", "map", node, key)
            return None
        before = report.count
        values: dict[str, Any] = {}
        seen: dict[str, DocumentNode] = {}
        for name, child in node.entries:
            where = f"{key}.{_printable(name)}" if key else _printable(name)
            first = seen.setdefault(name, child)
            if first is not child:
                report.say(child, where, "is given twice" + (f", first in line {first.line}" if first.line else ""))
                continue
            kind = self.keys.get(name)
            if kind is None:
                self._unknown(name, child, where, report)
            elif child.tag != "null" and (value := kind.read(child, where, report)) is not None:
                values[name] = value
        for name in self.required:
            if name not in seen or seen[name].tag == "null":
                report.say(node, f"{key}.{name}" if key else name, "is missing")
        return _made(self.make, values, node, key, report, before)

    def form(self) -> dict[str, Any]:
        """The keys; null is as good as absent, except where a key is required."""
        keys = {
            name: form_of(kind) if name in self.required else or_null(form_of(kind)) for name, kind in self.keys.items()
        }
        required = {"required": list(self.required)} if self.required else {}
        return {"type": "object", "properties": keys, **required, "additionalProperties": self.loose}

    def _unknown(self, name: str, child: DocumentNode, where: str, report: Report) -> None:
        if report.full:  # no room for a suggestion
            if not self.loose:
                report.say(child, where, "is not a known key")
            return
        close = closest(name, self.keys, _MUCH_ALIKE if self.loose else _ALIKE)
        if close or not self.loose:
            report.say(child, where, "is not a known key" + (f", did you mean {close}?" if close else ""))


def or_null(form: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of the same value or null."""
    return {"anyOf": [form, {"type": "null"}]} if form else form


def _made(make: Callable[[Any], Any], values: Any, node: DocumentNode, key: str, report: Report, before: int) -> Any:
    if report.count > before:
        return None
    try:
        return make(values)
    except ValueError as error:
        report.say(node, key, str(error))
        return None


def _printable(name: str) -> str:
    return name if name.isprintable() and 0 < len(name) <= _MAX_NAME else quoted(name)
