"""Manifests of ConfigMaps as people write them, read for the policies in them before a cluster has them.

A manifest may have many documents, and lists; what is no ConfigMap, or one about something else, is counted and left
alone. Each map is read as a node reads it, once for every node that its keys name, so that a mistake in the part of
one node is seen too. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from interpose.config.documents.fields import FieldGroup, FlagField, Report, Texts, Unread
from interpose.config.documents.policy import PolicyDocument, read_config_map
from interpose.config.documents.policy_objects import OBJECT_POLICIES
from interpose.config.documents.yaml import DocumentNode, parse_document, split_documents
from interpose.core.policy.names import NAMES
from interpose.errors import ConfigError

KIND: Final = "ConfigMap"
# The default of the agent.
USUAL_NAME: Final = "cri-resmgr-config"
_LISTS: Final = ("List", "ConfigMapList", *(f"{kind}List" for kind in OBJECT_POLICIES))
_KEY: Final = re.compile(r"policy(\.|$)")
_PLACE: Final = re.compile(r"ConfigMap key ([^:\s]+)")
_MAP: Final = FieldGroup(
    {
        "apiVersion": Unread(),
        "kind": Unread(),
        "metadata": Unread(),
        "immutable": FlagField(),
        "data": Texts(),
        "binaryData": Unread(),
    },
    lambda values: dict(values.get("data", {})),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMap:
    """One map: what it says to the node that was asked for, or to all that are not named; notes come with the place."""

    title: str
    document: PolicyDocument
    lines: Mapping[str, int]  # where its keys stand
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The maps of a file that are about policies, and its other objects."""

    maps: tuple[ConfigMap, ...]
    others: tuple[DocumentNode, ...] = ()


def read_manifest(text: str, where: str, node_name: str | None = None) -> Manifest:
    """All documents of a text. ConfigError with everything that is wrong with any of them."""
    problems: list[str] = []
    maps: list[ConfigMap] = []
    others: list[DocumentNode] = []
    for title, document in split_documents(text, where):
        try:
            for node in _objects(parse_document(document, title)):
                if text_of(node, "kind") == KIND and is_about_policies(node):
                    maps.append(_read(node, title, node_name))
                else:
                    others.append(node)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return Manifest(maps=tuple(maps), others=tuple(others))


def is_about_policies(node: DocumentNode) -> bool:
    """Whether a ConfigMap has keys for policies, or goes by the name under which they are looked for."""
    data = _child(node, "data")
    keys = [] if data is None else [name for name, _ in data.entries]
    return any(map(_KEY.match, keys)) or _metadata_text(node, "name").startswith(USUAL_NAME)


def read_data(data: Mapping[str, str], node_name: str | None) -> tuple[PolicyDocument, tuple[str, ...]]:
    """What the data of a map says to a node, and what has no effect. Without a name: to all that have no part of
    their own, and the parts of single nodes are checked as well. ConfigError with every problem of every key."""
    problems: dict[str, None] = {}
    warnings: dict[str, None] = {}
    found = PolicyDocument()
    for name in (node_name,) if node_name is not None else ("", *sorted(named_nodes(data))):
        try:
            document = read_config_map(data, name)
        except ConfigError as error:
            problems |= dict.fromkeys(error.problems)
            continue
        if name in ("", node_name):
            found = document
        warnings |= dict.fromkeys(document.warnings)
    if problems:
        raise ConfigError(list(problems))
    return found, tuple(warnings)


def named_nodes(data: Mapping[str, str]) -> set[str]:
    """The nodes that keys such as `policy.static.node-1` name."""
    keys = [key.split(".", 2) for key in data]
    return {key[2] for key in keys if len(key) == 3 and key[0] == "policy" and key[1].lower() in NAMES and key[2]}


def placed(texts: Sequence[str], where: str, lines: Mapping[str, int]) -> list[str]:
    """Messages about keys, each with the file and the line of its key."""
    return [f"{where}{_line(text, lines)}: {text}" for text in texts]


def _line(text: str, lines: Mapping[str, int]) -> str:
    named = _PLACE.match(text)
    line = lines.get(named[1]) if named else None
    return f" line {line}" if line else ""


def _read(node: DocumentNode, where: str, node_name: str | None) -> ConfigMap:
    report = Report(where)
    data: Any = _MAP.read(node, "", report)
    report.settle()
    entries = _child(node, "data")
    lines = {} if entries is None else {name: child.line for name, child in entries.entries if child.line}
    try:
        document, warnings = read_data(data, node_name)
    except ConfigError as error:
        raise ConfigError(placed(error.problems, where, lines)) from None
    return ConfigMap(
        title=title_of(node), document=document, lines=lines, warnings=tuple(placed(warnings, where, lines))
    )


def _objects(node: DocumentNode) -> Iterator[DocumentNode]:
    if text_of(node, "kind") in _LISTS:
        items = _child(node, "items")
        for item in () if items is None else items.items:
            yield from _objects(item)
    else:
        yield node


def title_of(node: DocumentNode) -> str:
    """The unique title of an object in a cluster: its kind, its namespace if it has one, its name."""
    where = [word for word in (_metadata_text(node, "namespace"), _metadata_text(node, "name")) if word]
    return " ".join((text_of(node, "kind"), "/".join(where))).rstrip()


def _metadata_text(node: DocumentNode, name: str) -> str:
    metadata = _child(node, "metadata")
    return "" if metadata is None else text_of(metadata, name)


def text_of(node: DocumentNode, name: str) -> str:
    """The text of a key; empty if there is none."""
    found = _child(node, name)
    return "" if found is None else found.text


def _child(node: DocumentNode, name: str) -> DocumentNode | None:
    return next((child for key, child in node.entries if key == name), None)
