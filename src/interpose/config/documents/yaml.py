"""Read a settings file into plain nodes that remember their line, whatever the format.

Nothing is interpreted here: scalars keep their text (YAML would turn 0660 into 432 and 1:30 into 90), duplicate keys
stay visible, and the checker decides. Aliases are refused, so a small file cannot unfold into a large one.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from interpose.errors import ConfigError

if TYPE_CHECKING:
    from yaml.events import Event
    from yaml.nodes import Node as YamlNode

# A settings file with every key and a page of comments is below 20 KiB.
MAX_FILE_BYTES = 1 << 20
# Real files are three levels deep; the bound keeps a hostile one from exhausting the stack.
MAX_DEPTH = 32

_YAML_TAGS = {f"tag:yaml.org,2002:{tag}": tag for tag in ("str", "int", "float", "bool", "null", "map", "seq")} | {
    "tag:yaml.org,2002:timestamp": "str"  # JSON has no such type: a date without quotes is the text it is
}
_SCALARS: Mapping[type, str] = MappingProxyType({str: "str", int: "int", float: "float"})
# What a tag is in the words of messages.
TAG_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "map": "a group of keys",
        "list": "a list",
        "str": "text",
        "int": "a number",
        "float": "a number with a fraction",
        "bool": "true or false",
        "null": "nothing",
    }
)
# Open files of our own process, which may be pipes. They are read to their end.
_OWN_FILES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
# More than any manifest has.
_MAX_DOCUMENTS = 1000
# At the beginning of a line, whatever it is in: YAML allows it nowhere else.
_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_NO_CONTENT = re.compile(r"(?:[ \t]*(?:#.*)?\n|\.\.\.[ \t]*\n)*[ \t]*(?:#.*)?\Z")
# A text in JSON; with a colon after it, it is a key.
_JSON_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?')


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentNode:
    """One value of a document. `tag`: map, list, str, int, float, bool, null."""

    tag: str
    text: str = ""
    line: int | None = None
    entries: "tuple[tuple[str, DocumentNode], ...]" = ()
    items: "tuple[DocumentNode, ...]" = ()


def read_document(path: str, limit: int = MAX_FILE_BYTES) -> DocumentNode:
    """Read and parse a .yaml, .yml or .json file; any trouble is a ConfigError that names the file."""
    return parse_file(lambda: read_text(path, limit), path)


def parse_file(text: Callable[[], str], path: str) -> DocumentNode:
    """The document of a file; `text` is called only if the name is right."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".yaml", ".yml", ".json"):
        raise ConfigError(f"file {path}: the name must end in .yaml, .yml or .json")
    return parse_document(text(), f"file {path}", json_only=suffix == ".json")


def parse_document(text: str, where: str, *, json_only: bool = False) -> DocumentNode:
    """A document in YAML, of which JSON is a part; any trouble is a ConfigError that begins with `where`."""
    if not text.strip():
        raise ConfigError(f"{where}: is empty")
    try:
        return _parse_json(text, where) if json_only else _parse_yaml(text, where)
    except RecursionError:
        raise ConfigError(f"{where}: is nested too deeply") from None


def split_documents(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Each document of a text by its title; lines before it are blank, so that line numbers are those of the file."""
    starts = [0, *(match.start() for match in _SEPARATOR.finditer(text))]
    if len(starts) > _MAX_DOCUMENTS:
        raise ConfigError(f"{where}: has more than {_MAX_DOCUMENTS} documents")
    found: list[tuple[int, str]] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        document = _SEPARATOR.sub("   ", text[start:end])
        if not _NO_CONTENT.match(document):
            found.append((text.count("\n", 0, start), document))
    # The blank lines are put in one document at a time: together they can be a thousand times the text.
    for number, (lines, document) in enumerate(found, 1):
        yield (f"{where} document {number}" if len(found) > 1 else where), "\n" * lines + document


def read_text(path: str, limit: int) -> str:
    """What a file holds; any trouble is a ConfigError that names it.

    A named pipe is refused: reading it would block until a writer comes.
    """
    ours = path.startswith(_OWN_FILES)
    try:
        with open(path, "rb", opener=None if ours else _open_at_once) as file:
            if not ours and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"file {path}: cannot be read: it is a named pipe")
            data = file.read(limit + 1) or b""
    except OSError as error:
        raise ConfigError(f"file {path}: cannot be read: {error.strerror}") from None
    return decoded(data, path, limit)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def decoded(data: bytes, path: str, limit: int) -> str:
    """The text of a file; `data` is all of it, or more than the limit."""
    if len(data) > limit:
        raise ConfigError(f"file {path}: is larger than {limit} bytes, the most that is read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"file {path}: is not UTF-8 text (byte {error.start})") from None


def _parse_yaml(text: str, where: str) -> DocumentNode:
    import yaml  # 3 MB that a relay without a file never pays

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_depth(yaml.parse(text, Loader=loader), where)
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{where}{line}: is not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: is not valid YAML: {' '.join(str(error).split())}") from None
    if root is None:
        raise ConfigError(f"{where}: holds only comments")
    return _from_yaml(root, where, set(), 0)


def _check_depth(events: "Iterable[Event]", where: str) -> None:
    """To be known before the tree is made: the C library makes it by recursion, and dies of it."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > MAX_DEPTH + 2:  # the stream and the document are two of them
            raise ConfigError(f"{where} line {_line_of(event)}: is nested too deeply")


def _line_of(event: "Event") -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _from_yaml(node: "YamlNode", where: str, seen: set[int], depth: int, key: "YamlNode | None" = None) -> DocumentNode:
    """The line of a value is that of its key: a block begins below it."""
    line = node.start_mark.line + 1
    if id(node) in seen:
        # The mark of an alias is that of its anchor, so the line says what was repeated.
        raise ConfigError(f"{where} line {line}: anchors with aliases are not supported, repeat the value")
    seen.add(id(node))
    tag = _YAML_TAGS.get(node.tag)
    if tag is None or depth > MAX_DEPTH:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        reason = "is nested too deeply" if tag else f"values of type {kind} are not supported, quote it if it is text"
        raise ConfigError(f"{where} line {line}: {reason}")
    line = line if key is None else key.start_mark.line + 1
    if tag == "map":
        entries = tuple(
            (str(name.value), _from_yaml(value, where, seen, depth + 1, name)) for name, value in node.value
        )
        return DocumentNode(tag="map", line=line, entries=entries)
    if tag == "seq":
        items = tuple(_from_yaml(item, where, seen, depth + 1) for item in node.value)
        return DocumentNode(tag="list", line=line, items=items)
    return DocumentNode(tag=tag, text=str(node.value), line=line)


class _Pairs(NamedTuple):
    """A JSON object with its duplicate keys."""

    pairs: list[tuple[str, Any]]


def _parse_json(text: str, where: str) -> DocumentNode:
    try:
        # Numbers stay text: only the checker knows what they are meant to be.
        raw = json.loads(text, object_pairs_hook=_Pairs, parse_int=_Integer, parse_float=_Decimal)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where} line {error.lineno}: is not valid JSON: {error.msg}") from None
    return _from_json(raw, iter(_key_lines(text)), 1, 0)


class _Integer(str):
    """The text of a JSON whole number."""

    __slots__ = ()


class _Decimal(str):
    """The text of a JSON number with a fraction or exponent."""

    __slots__ = ()


def _key_lines(text: str) -> list[int]:
    """The line of each key of valid JSON, in the order in which they stand there; one walk for all of them."""
    lines, line, position = [], 1, 0
    for found in _JSON_TEXT.finditer(text):
        if found.group(1):
            line += text.count("\n", position, found.start())
            position = found.start()
            lines.append(line)
    return lines


def _from_json(raw: Any, lines: Iterator[int], line: int, depth: int) -> DocumentNode:
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(raw, _Pairs):
        return DocumentNode(tag="map", line=line, entries=tuple(_json_entries(raw, lines, depth)))
    if isinstance(raw, list):
        return DocumentNode(
            tag="list", line=line, items=tuple(_from_json(item, lines, line, depth + 1) for item in raw)
        )
    if raw is None:
        return DocumentNode(tag="null", text="null", line=line)
    if isinstance(raw, bool):
        return DocumentNode(tag="bool", text=str(raw).lower(), line=line)
    if isinstance(raw, _Integer):
        return DocumentNode(tag="int", text=str(raw), line=line)
    if isinstance(raw, str) and not isinstance(raw, _Decimal):
        return DocumentNode(tag="str", text=raw, line=line)
    return DocumentNode(tag="float", text=str(raw), line=line)


def _json_entries(raw: _Pairs, lines: Iterator[int], depth: int) -> Iterator[tuple[str, DocumentNode]]:
    for key, value in raw.pairs:
        yield key, _from_json(value, lines, next(lines), depth + 1)


def make_document_node(value: Any, depth: int = 0) -> DocumentNode:
    """A JSON value as a node of a document; RecursionError if it is nested too deeply."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, Mapping):
        return DocumentNode(
            tag="map", entries=tuple((str(key), make_document_node(child, depth + 1)) for key, child in value.items())
        )
    if isinstance(value, list | tuple):
        return DocumentNode(tag="list", items=tuple(make_document_node(child, depth + 1) for child in value))
    if value is None:
        return DocumentNode(tag="null", text="null")
    if isinstance(value, bool):
        return DocumentNode(tag="bool", text=str(value).lower())
    return DocumentNode(tag=_SCALARS[type(value)], text=str(value))
