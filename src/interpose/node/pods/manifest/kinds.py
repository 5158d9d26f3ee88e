"""Kinds of values that manifests of Kubernetes have and settings of ours have not. Pure.

Each says what is wrong in the words of the manifest: the key, what was expected, and what was found.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, Final, TypeVar

from interpose.config.documents.fields import Choice, FlagField, Report, Texts, Unread
from interpose.config.documents.objects import Quantities, amount
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.quantity import parse_quantity, whole
from interpose.core.model.text import quoted
from interpose.node.pods.spec import ResourceRequirements

_E = TypeVar("_E", bound=StrEnum)
_OCTAL: Final = re.compile(r"0o?[0-7]+")
_DECIMAL: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_QUALIFIED: Final = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_RESOURCE: Final = re.compile(r"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGT]i|[^/\s]+/[^/\s]+")
MAX_PORT: Final = 65535
MAX_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class UnsupportedField:
    """What the API of Kubernetes has and we have not; `why` goes on from the key."""

    why: str

    def read(self, node: DocumentNode, key: str, report: Report) -> None:
        """A problem, unless nothing is said by it."""
        if node.items or node.entries or node.tag not in ("map", "list"):
            report.say(node, key, self.why)


@dataclass(frozen=True, slots=True)
class TrueOnlyFlag:
    """A flag that may only be true, which is as good as absent; `why` goes on from the key."""

    why: str

    def read(self, node: DocumentNode, key: str, report: Report) -> None:
        """A problem, unless it is true."""
        if FlagField().read(node, key, report) is False:
            report.say(node, key, self.why)


NEEDS_CLUSTER: Final = UnsupportedField("needs a cluster, and there is none here")
NOT_SUPPORTED: Final = UnsupportedField("is not supported")
IGNORED: Final = Unread()  # has no meaning on one node


@dataclass(frozen=True, slots=True)
class PatternText:
    """Text of a form; `what` is it in words."""

    form: re.Pattern[str]
    what: str
    longest: int = 253

    def fits(self, text: str) -> bool:
        """Whether a text has the form."""
        return len(text) <= self.longest and self.form.fullmatch(text) is not None

    def read(self, node: DocumentNode, key: str, report: Report) -> str | None:
        """The text; None and a problem in the report if it does not fit."""
        if node.tag == "str" and self.fits(node.text):
            return node.text
        report.expected(self.what, "str", node, key)
        return None


LABEL: Final = PatternText(
    re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"), "a name of lower case letters, digits and '-', of at most 63", 63
)
SUBDOMAIN: Final = PatternText(
    re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"),
    "a name of lower case letters, digits, '-' and '.', of at most 253",
)
UID: Final = PatternText(
    re.compile(r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"), "letters, digits and '-', at most 63", 63
)
PORT_NAME: Final = PatternText(
    re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*"), "a name of at most 15 lower case letters, digits and '-'", 15
)
ENV_NAME: Final = PatternText(re.compile(r"[\x20-\x3c\x3e-\x7e]+"), "a name without '='", 4096)
WORD: Final = PatternText(re.compile(r"\S+"), "text without blanks", 4096)
ABSOLUTE: Final = PatternText(re.compile(r"/(?!(.*/)?\.\.(/|$))[^\0]*"), "an absolute path without '..'", 4096)
RELATIVE: Final = PatternText(re.compile(r"(?!/)(?!(.*/)?\.\.(/|$))[^\0]*"), "a relative path without '..'", 4096)
MOUNT_PATH: Final = PatternText(re.compile(r"[^:\0]+"), "a path without ':'", 4096)


@dataclass(frozen=True, slots=True)
class KnownName:
    """One of the names that something else in the manifest has."""

    names: frozenset[str]
    what: str

    def read(self, node: DocumentNode, key: str, report: Report) -> str | None:
        """The name; None and a problem in the report if it is not known."""
        if node.tag == "str" and node.text in self.names:
            return node.text
        report.expected(self.what, "str", node, key)
        return None


@dataclass(frozen=True, slots=True)
class Address:
    """An IPv4 or IPv6 address as text."""

    def read(self, node: DocumentNode, key: str, report: Report) -> str | None:
        """The address as it is written."""
        try:
            if node.tag == "str":
                return str(ip_address(node.text))
        except ValueError:
            pass
        report.expected("an IP address", "str", node, key)
        return None


@dataclass(frozen=True, slots=True)
class FileMode:
    """Bits of a file's mode: octal as YAML writes it (0644), or the number that JSON makes of it (420)."""

    def read(self, node: DocumentNode, key: str, report: Report) -> int | None:
        """The mode bits; None and a problem in the report if they are none."""
        if node.tag == "int" and (value := number(node.text)) is not None and 0 <= value <= 0o777:
            return value
        report.expected("a mode from 0 to 0777", "int", node, key)
        return None


@dataclass(frozen=True, slots=True)
class PortNumber:
    """A port, or the name of one."""

    def read(self, node: DocumentNode, key: str, report: Report) -> int | str | None:
        """The number or the name of the port; None and a problem in the report if it is neither."""
        if node.tag == "str" and PORT_NAME.form.fullmatch(node.text) and len(node.text) <= PORT_NAME.longest:
            return node.text
        if node.tag == "int" and _DECIMAL.fullmatch(node.text) and 1 <= int(node.text) <= MAX_PORT:
            return int(node.text)
        report.expected(f"a number from 1 to {MAX_PORT} or the name of a port", node.tag, node, key)
        return None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of Kubernetes: `500m`, `1Gi`."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Fraction | None:
        """The exact amount in base units; None and a problem in the report if it is none."""
        if node.tag not in ("str", "int", "float"):
            report.expected("a quantity", "str", node, key)
            return None
        try:
            return parse_quantity(node.text, negative=False)
        except ValueError as error:
            report.say(node, key, str(error))
            return None


@dataclass(frozen=True, slots=True)
class ByteAmount:
    """An amount of bytes."""

    def read(self, node: DocumentNode, key: str, report: Report) -> int | None:
        """The amount in whole bytes, rounded up; None if it is none."""
        found = Quantity().read(node, key, report)
        return None if found is None else whole(found)


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels, or with `any_text` annotations: names of Kubernetes, and text."""

    any_text: bool = False

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, str] | None:
        """The texts by their names."""
        found = Texts().read(node, key, report)
        lines = dict(node.entries)
        for name, value in (found or {}).items():
            where = f"{key}[{quoted(name)}]"
            if not _QUALIFIED.fullmatch(name):
                report.say(lines[name], where, "is not a name of the form name or example.com/name")
            elif not self.any_text and not _LABEL_VALUE.fullmatch(value):
                report.say(lines[name], where, f"{quoted(value)} is not a value of a label")
        return found


@dataclass(frozen=True, slots=True)
class ResourceAmounts:
    """Amounts of resources that Kubernetes knows, or that have a domain in their name."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[str, Fraction] | None:
        """The exact amounts by name of the resource; None if there is a problem."""
        found = Quantities().read(node, key, report)
        lines = dict(node.entries)
        for name in found or ():
            if not _RESOURCE.fullmatch(name):
                text = f"{quoted(name)} is not a resource such as cpu, memory or example.com/card"
                report.say(lines[name], key, text)
        return None if found is None else MappingProxyType(dict(found))


def resources_of(values: dict[str, Any]) -> ResourceRequirements:
    """Requests and limits; ValueError if one asks for more than it may have."""
    found = ResourceRequirements(**{name: values[name] for name in ("requests", "limits") if name in values})
    for name, limit in found.limits.items():
        if (request := found.requests.get(name, limit)) > limit:
            raise ValueError(f"the request of {amount(request)} {name} is more than the limit, {amount(limit)}")
    return found


def words(kind: type[_E]) -> Choice:
    """One of the values of an enumeration."""
    return Choice({member.value: member for member in kind})


def choice(*allowed: str) -> Choice:
    """One of these words."""
    return Choice({word: word for word in allowed})


def or_unset(choices: Choice) -> Choice:
    """The same, or an empty text: the API server puts its default there, as where nothing is said."""
    return Choice({"": None, **choices.words})


def number(text: str) -> int | None:
    """A whole number as YAML 1.1 and JSON write it, octal ones too; None if it is none."""
    if len(text) > 1 and _OCTAL.fullmatch(text):
        return int(text.replace("o", ""), 8)
    return int(text) if _DECIMAL.fullmatch(text.removeprefix("-").removeprefix("+")) else None


def unique(plural: str, name: Callable[[Any], object] = lambda item: item.name) -> Callable[[tuple[Any, ...]], Any]:
    """A `make` of a list whose members must differ in what `name` gives."""

    def check(items: tuple[Any, ...]) -> tuple[Any, ...]:
        seen: set[object] = set()
        for item in items:
            if (found := name(item)) in seen:
                raise ValueError(f"two {plural} are {quoted(str(found))}")
            seen.add(found)
        return items

    return check


def renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The values of keys that are there, by the names that our fields have."""
    return {names[key]: value for key, value in values.items() if key in names}


def plain(node: DocumentNode) -> Any:
    """A node as JSON would have it."""
    match node.tag:
        case "map":
            return {name: plain(child) for name, child in node.entries}
        case "list":
            return [plain(child) for child in node.items]
        case "null":
            return None
        case "bool":
            return node.text.lower() in ("true", "yes", "on")
        case "int":
            found = number(node.text)
            return node.text if found is None else found
        case _:
            return node.text  # a float keeps its digits, as quantities do
