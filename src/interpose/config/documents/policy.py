"""Policy documents: which policy is active, what it may use, the options of each policy.

A document comes as a file or as the data of a ConfigMap. `policy: {static: ...}` and `policy.static: ...` say the same,
and saying both is a mistake. Parts that other software reads are named in warnings. Pure. Invariant: a document with a
problem is not used in part, and all its problems are known at once.

A key with dots is a group: `policy.static: ...` is `policy: {static: ...}`, and parts of a group may stand in several
places. A value given twice is a problem in the report of the document.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from interpose.config.documents.amounts import CpuAmount
from interpose.config.documents.constraints import cpu_constraints
from interpose.config.documents.fields import Choice, FieldGroup, FieldReader, FlagField, Report, Unread
from interpose.config.documents.policy_options import (
    DEFAULT_OPTIONS,
    OPTIONS,
    AnyCase,
    names_option,
    option_values,
    read_options,
    without_effect,
)
from interpose.config.documents.yaml import DocumentNode, parse_document
from interpose.core.model.text import closest, quoted
from interpose.core.policy.names import NAMES, POLICIES
from interpose.errors import ConfigError


def unfold(node: DocumentNode, key: str, depth: int, report: Report) -> DocumentNode:
    """Keys with dots as groups, so many levels deep: below that, names are other people's and may have dots.

    `key` is that of the node itself, empty for a document.
    """
    if depth == 0 or node.tag != "map":
        return node
    parts: dict[str, list[DocumentNode]] = {}
    plain: dict[str, DocumentNode] = {}
    for name, child in node.entries:
        head, dot, rest = name.partition(".")
        if head and dot and rest:
            parts.setdefault(head, []).append(DocumentNode(tag="map", line=child.line, entries=((rest, child),)))
        elif plain.setdefault(name, child) is child:
            parts.setdefault(name, []).append(child)
        else:
            first = plain[name].line
            where = f", first in line {first}" if first else ""
            report.say(child, _below(key, name), f"is given twice{where}")
    entries = []
    for head, found in parts.items():
        where = _below(key, head)
        entries.append((head, unfold(_joined(found, where, report), where, depth - 1, report)))
    return replace(node, entries=tuple(entries))


def _joined(parts: list[DocumentNode], key: str, report: Report) -> DocumentNode:
    """One group of several; null is as good as absent."""
    said = [part for part in parts if part.tag != "null"] or parts[:1]
    if len(said) == 1:
        return said[0]
    if strange := [part for part in said if part.tag != "map"]:
        report.say(strange[0], key, "is given as a value and as a group of keys")
        return DocumentNode(tag="null", line=said[0].line)
    return replace(said[0], entries=tuple(entry for part in said for entry in part.entries))


def _below(key: str, name: str) -> str:
    shown = name if name.isprintable() else quoted(name)
    return f"{key}.{shown}" if key else shown


_POLICY: Final = "policy"
# How deep a dot in a key is the same as a group: module, policy, option. Below that names are other people's.
_DOTTED: Final = 3
# What the documents of cri-resmgr hold besides.
_OTHER_MODULES: Final = (
    "logger",
    "dump",
    "instrumentation",
    "rdt",
    "blockio",
    "cpu",
    "memory",
    "resource-manager",
)
_OTHER_POLICIES: Final = ("eda",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """What a document says; None and a policy without options: nothing."""

    active: str | None = None  # a name, no alias
    available: CpuAmount | None = None
    reserved: CpuAmount | None = None
    migrate_memory: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # by name of the policy, typed and complete
    warnings: tuple[str, ...] = ()


def read_policy_document(node: DocumentNode, where: str) -> PolicyDocument:
    """A whole document; `where` names it: "file /etc/x.yaml". ConfigError with every problem."""
    report = Report(where)
    warnings: list[str] = []
    root = unfold(node, "", _DOTTED, report)
    found: PolicyDocument | None = _DOCUMENT.read(root, "", report)
    report.settle()
    for name, child in root.entries:
        if name.lower() == _POLICY:
            warnings += _policy_warnings(child, where, _POLICY)
        else:
            warnings.append(ineffective(child, where, name))
    return replace(found or PolicyDocument(), warnings=tuple(warnings))


def read_config_map(data: Mapping[str, str], node_name: str) -> PolicyDocument:
    """The data of a ConfigMap: `policy` with a document, `policy.<name>` or `policy.<name>.<node>` with options.

    What is meant for this node alone wins over what is meant for all. ConfigError with every problem of every key.
    """
    found = _ConfigMap(node_name)
    for key in sorted(data):
        found.sort(key, data[key])
    return found.read()


def policy_form() -> dict[str, Any]:
    """The JSON Schema of a document. Keys with dots are the same as groups; only the reader looks into those."""
    form = _DOCUMENT.form()
    return {**form, "patternProperties": {**form["patternProperties"], "^[Pp][Oo][Ll][Ii][Cc][Yy]\\..+$": {}}}


def policy_values(document: PolicyDocument) -> Iterator[tuple[str, str]]:
    """What a document means, key by key: options that it does not have are at their defaults."""
    amounts = (("AvailableResources", document.available), ("ReservedResources", document.reserved))
    if document.active is not None:
        yield f"{_POLICY}.Active", document.active
    for name, amount in amounts:
        if amount is not None:
            yield f"{_POLICY}.{name}.CPU", str(amount)
    if document.migrate_memory is not None:
        yield f"{_POLICY}.MigrateMemory", str(document.migrate_memory).lower()
    for policy, default in DEFAULT_OPTIONS.items():
        for key, value in option_values(document.options.get(policy) or default):
            yield f"{_POLICY}.{policy}.{key}", value


# -- ConfigMaps


class _ConfigMap:
    """Keys sorted by what they are about, and everything wrong with them."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self._fields: dict[str, str] = {}  # key -> text; about `policy` itself
        self._general: dict[str, tuple[str, str]] = {}  # policy -> key and text
        self._specific: dict[str, tuple[str, str]] = {}
        self._problems: list[str] = []
        self._warnings: list[str] = []

    def sort(self, key: str, text: str) -> None:
        module, _, rest = key.partition(".")
        name, _, node = rest.partition(".")
        policy = NAMES.get(name.lower())
        if module != _POLICY or name.lower() in _OTHER_POLICIES:
            self._warnings.append(f"{_position(key)}: has no effect here")
        elif policy is None:
            self._sort_field(key, name, text)
        elif node in ("", self._node_name):
            chosen = self._specific if node else self._general
            if policy in chosen:
                self._problems.append(f"{_position(key)}: is about the policy {policy}, as {chosen[policy][0]} is")
            chosen[policy] = key, text
        elif names_option(policy, node):
            # As a node's name it would be another node's, and be ignored without a word.
            self._problems.append(f"{_position(key)}: options belong into the text of the key {_POLICY}.{name}")
        elif names_option(policy, node.partition(".")[0]):
            self._warnings.append(f"{_position(key)}: is taken to be for the node {node}, has no effect on this one")

    def _sort_field(self, key: str, name: str, text: str) -> None:
        if not name or name.lower() in _FIELDS:
            self._fields[key] = text
            return
        close = closest(name, [*NAMES, *_FIELDS.values()])
        meant = f", did you mean {_POLICY}.{close}?" if close else ""
        self._problems.append(f"{_position(key)}: {quoted(name)} is not a known policy{meant}")

    def read(self) -> PolicyDocument:
        """Everything that is said, or everything that is wrong with it."""
        whole = self._read_fields()
        options = dict(whole.options)
        for policy in NAMES.values():
            general = self._general.get(policy)
            if general is not None and policy in whole.options:
                self._problems.append(f"{_position(general[0])}: the key {_POLICY} has options of {policy} too")
        for policy, (key, text) in {**self._general, **self._specific}.items():
            options[policy] = self._read_options(policy, key, text)
        if self._problems:
            raise ConfigError(list(dict.fromkeys(self._problems)))
        return replace(whole, options=MappingProxyType(options), warnings=tuple(self._warnings))

    def _read_fields(self) -> PolicyDocument:
        """What the keys about `policy` itself say together."""
        merged: dict[str, Any] = {}
        origin: dict[str, str] = {}
        for key, text in self._fields.items():
            report = Report(_position(key))
            node = self._parse(key, text)
            if node is None or node.tag == "null":
                continue
            # `policy.Active` with its text is `policy` with `Active: text`.
            for name in reversed(key.split(".")[1:]):
                node = DocumentNode(tag="map", line=node.line, entries=((name, node),))
            node = unfold(node, "", _DOTTED - 1, report)
            values = _POLICY_KEYS.read(node, "", report)
            self._settle(report)
            self._warnings += _policy_warnings(node, _position(key), "")
            for name, value in (values or {}).items():
                if name in merged:
                    self._problems.append(f"{_position(key)}: {name} is in the key {origin[name]} too")
                merged[name], origin[name] = value, key
        return _document(merged)

    def _read_options(self, policy: str, key: str, text: str) -> Any:
        node = self._parse(key, text)
        if node is None:
            return None
        report = Report(_position(key))
        options = read_options(policy, unfold(node, "", 1, report), "", report)
        self._settle(report)
        self._warnings += [ineffective(child, _position(key), name) for name, child in without_effect(policy, node)]
        return options

    def _parse(self, key: str, text: str) -> DocumentNode | None:
        if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
            return DocumentNode(tag="null")
        try:
            return parse_document(text, _position(key))
        except ConfigError as error:
            self._problems += error.problems
            return None

    def _settle(self, report: Report) -> None:
        try:
            report.settle()
        except ConfigError as error:
            self._problems += error.problems


def _position(key: str) -> str:
    return f"ConfigMap key {key}" if key.isprintable() else f"ConfigMap key {quoted(key)}"


# -- the table


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of one policy."""

    policy: str

    def read(self, node: DocumentNode, key: str, report: Report) -> Any:
        """Typed; None is as good as absent."""
        return read_options(self.policy, node, key, report)

    def form(self) -> dict[str, Any]:
        """Those of the policy."""
        return OPTIONS[self.policy].form()


def _document(values: Mapping[str, Any]) -> PolicyDocument:
    return PolicyDocument(
        active=values.get("Active"),
        available=values.get("AvailableResources"),
        reserved=values.get("ReservedResources"),
        migrate_memory=values.get("MigrateMemory"),
        options=MappingProxyType({name: value for name, value in values.items() if name in OPTIONS}),
    )


_FIXED: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {
        "Active": Choice(NAMES),
        "AvailableResources": cpu_constraints(amounts=False),
        "ReservedResources": cpu_constraints(amounts=True),
        "MigrateMemory": FlagField(),
    }
)
_FIELDS: Final = MappingProxyType({name.lower(): name for name in _FIXED})
_POLICY_KEYS: Final = AnyCase(
    FieldGroup(
        {
            **_FIXED,
            **{policy.name: _Options(policy.name) for policy in POLICIES},
            **{name: Unread() for name in _OTHER_POLICIES},
        }
    ),
    NAMES,
)
_DOCUMENT: Final = AnyCase(
    FieldGroup(
        {_POLICY: _POLICY_KEYS, **{name: Unread() for name in _OTHER_MODULES}},
        lambda values: _document(values.get(_POLICY, {})),
    )
)


# -- warnings


def _policy_warnings(node: DocumentNode, where: str, key: str) -> Iterator[str]:
    """What stands in the group `policy` and does nothing."""
    prefix = f"{key}." if key else ""
    for name, child in node.entries:
        policy = NAMES.get(name.lower())
        if name.lower() in _OTHER_POLICIES:
            yield ineffective(child, where, f"{prefix}{name}")
        elif policy is not None:
            for option, value in without_effect(policy, child):
                yield ineffective(value, where, f"{prefix}{name}.{option}")
        elif name.lower() != "active":
            yield from constraint_warnings(child, where, f"{prefix}{name}")


def constraint_warnings(node: DocumentNode, where: str, key: str) -> Iterator[str]:
    """Remarks about the parts of available or reserved resources that do nothing: all but CPUs."""
    for domain, value in node.entries:
        if domain.lower() != "cpu":
            yield ineffective(value, where, f"{key}.{domain}")


def ineffective(node: DocumentNode, where: str, key: str) -> str:
    """The remark about a key that does nothing."""
    line = f" line {node.line}" if node.line else ""
    return f"{where}{line}: {key}: has no effect here"
