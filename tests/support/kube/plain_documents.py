"""YAML files of clusters as plain values: manifests, values of charts, rule files.

Read by the same parser as settings: duplicate keys are an error, and so are anchors. Nothing else is checked.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from interpose.config.documents.yaml import DocumentNode, parse_document
from interpose.errors import ConfigError

Document = dict[str, Any]

_SEPARATOR: Final = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)
_NOTHING: Final = re.compile(r"(?:\s*(?:#.*)?\n)*\s*(?:#.*)?\Z")
_TRUE: Final = ("true", "yes", "on")


def read_documents(path: Path) -> list[Document]:
    """Every document of a file."""
    return documents(path.read_text(encoding="utf-8"), str(path))


def documents(text: str, where: str) -> list[Document]:
    """Every document of a text; ConfigError with place and reason if one is none, or no map."""
    found = []
    for number, part in enumerate(_SEPARATOR.split(text)):
        if not _NOTHING.match(part):
            value = value_of(part, f"{where} document {number}")
            if not isinstance(value, dict):
                raise ConfigError(f"{where} document {number}: is not a map")
            found.append(value)
    return found


def read_value(path: Path) -> Any:
    """What the one document of a file means."""
    return value_of(path.read_text(encoding="utf-8"), str(path))


def value_of(text: str, where: str) -> Any:
    """What a text means."""
    return plain(parse_document(text, where), where)


def plain(node: DocumentNode, where: str) -> Any:
    """A node as the value it stands for."""
    if node.tag == "map":
        return dict(_entries(node, where))
    if node.tag == "list":
        return [plain(item, where) for item in node.items]
    if node.tag == "null":
        return None
    if node.tag == "bool":
        return node.text.lower() in _TRUE
    if node.tag == "int":
        return whole(node.text)
    return float(node.text) if node.tag == "float" else node.text


def whole(text: str) -> int:
    """A whole number as YAML 1.1 has it, which is what kubectl and Helm read: 0644 is octal."""
    digits = text.replace("_", "")
    return int(digits, 8) if re.fullmatch(r"[-+]?0[0-7]+", digits) else int(digits, 0)


def _entries(node: DocumentNode, where: str) -> Iterator[tuple[str, Any]]:
    seen = set()
    for name, child in node.entries:
        if name in seen:
            raise ConfigError(f"{where} line {child.line}: {name} is given twice")
        seen.add(name)
        yield name, plain(child, where)
