"""Check a raw document against the table of settings and collect every problem, not just the first.

Pure: nodes in, values and problems out. Each problem names the file, the line, the key and the offending value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from interpose.config.documents.yaml import TAG_NAMES, DocumentNode
from interpose.config.schema import Schema, Setting
from interpose.core.model.text import closest
from interpose.errors import ConfigError

API_VERSION = "interpose/v1"
# More than a person reads; a file that is something else altogether has one per line.
_MAX_PROBLEMS = 50


@dataclass(slots=True, kw_only=True)
class Checked:
    """The values of a document, the origin of each, and all problems."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check_document(root: DocumentNode, path: str, schema: Schema) -> Checked:
    """Walk the whole document; the result is usable only when `problems` is empty."""
    checked = Checked()
    by_key = {setting.key: setting for setting in schema.table}
    if root.tag != "map":
        found = TAG_NAMES[root.tag]
        checked.problems.append(f"{_position(path, root)}: the file must hold keys and values, not {found}")
        return checked
    checked.problems += _header_problems(root, path, schema.file_kind)
    _walk(root, "", path, by_key, checked)
    if (more := len(checked.problems) - _MAX_PROBLEMS) > 0:
        checked.problems[_MAX_PROBLEMS:] = [f"file {path}: and {more} problems more"]
    return checked


def _header_problems(root: DocumentNode, path: str, kind: str) -> Iterator[str]:
    present = dict(root.entries)
    for key, expected in (("apiVersion", API_VERSION), ("kind", kind)):
        node = present.get(key)
        if node is None:
            yield f"file {path}: {key} is missing, the file must say {key}: {expected}"
        elif node.text != expected:
            yield f"{_position(path, node)}: {key}: {_describe(node)} is not known here, it must be {expected}"


def _walk(node: DocumentNode, section: str, path: str, by_key: Mapping[str, Setting], checked: Checked) -> None:
    first_lines: dict[str, int | None] = {}
    for name, child in node.entries:
        key = f"{section}.{name}" if section else name
        where = f"{_position(path, child)}: {key}"
        if name in first_lines:
            first = first_lines[name]
            checked.problems.append(f"{where}: is given twice" + (f", first in line {first}" if first else ""))
            continue
        first_lines[name] = child.line
        if not section and name in ("apiVersion", "kind"):
            continue
        if key in by_key:
            _take(child, by_key[key], where, path, checked)
        elif any(known.startswith(key + ".") for known in by_key):
            _enter(child, key, where, path, by_key, checked)
        else:
            # A suggestion takes long, and only the first problems are shown.
            meant = _suggestion(key, by_key) if len(checked.problems) < _MAX_PROBLEMS else ""
            checked.problems.append(f"{where}: is not a known key{meant}")


def _enter(
    child: DocumentNode, key: str, where: str, path: str, by_key: Mapping[str, Setting], checked: Checked
) -> None:
    if child.tag == "map":
        _walk(child, key, path, by_key, checked)
    elif child.tag != "null":  # a group whose keys are all commented out is fine
        checked.problems.append(f"{where}: expected a group of keys, found {TAG_NAMES[child.tag]} ({_describe(child)})")


def _take(child: DocumentNode, setting: Setting, where: str, path: str, checked: Checked) -> None:
    text = child.text
    if child.tag not in setting.kind.accepts:
        checked.problems.append(
            f"{where}: expected {setting.kind.name}, found {TAG_NAMES[child.tag]} ({_describe(child)})"
        )
        return
    if child.tag == "list":
        separator = setting.kind.separator
        if strange := [item for item in child.items if item.tag not in ("int", "str") or separator in item.text]:
            checked.problems.append(f"{where}: expected {setting.kind.name}, found {_describe(strange[0])}")
            return
        text = separator.join(item.text for item in child.items)
    try:
        checked.values[setting.key] = setting.kind.parse(text, where)
        checked.origins[setting.key] = f"file {path}:{child.line}" if child.line else f"file {path}"
    except ConfigError as error:
        checked.problems += error.problems


def _position(path: str, node: DocumentNode) -> str:
    return f"file {path} line {node.line}" if node.line else f"file {path}"


def _describe(node: DocumentNode) -> str:
    if node.tag in ("map", "list"):
        return TAG_NAMES[node.tag]
    return repr(node.text if len(node.text) <= 80 else node.text[:77] + "...")


def _suggestion(key: str, by_key: Mapping[str, Setting]) -> str:
    known = [*by_key, *{setting.section for setting in by_key.values() if setting.section}]
    close = closest(key, known)
    if not close:
        # The right key in the wrong group, such as a top-level `max_streams`.
        last = key.rpartition(".")[2]
        close = next((other for other in known if other.rpartition(".")[2] == last), "")
    return f", did you mean {close}?" if close else ""
