"""A small judge of JSON Schema: the words that our own schemas use, and an error for any other.

It is for tests, which have no package for that; an editor that reads the schemas does the same.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from interpose.config.documents.yaml import Node
from tests.support.kube.open_api import TYPES

_ABOUT: Final = frozenset(("$schema", "title", "description", "default"))


def plain(node: Node) -> Any:
    """A document as JSON has it. Octal numbers are the numbers that YAML makes of them."""
    if node.tag == "map":
        return {name: plain(child) for name, child in node.entries}
    if node.tag == "list":
        return [plain(item) for item in node.items]
    makers: Mapping[str, Callable[[str], Any]] = {
        "int": lambda text: int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text),
        "float": float,
        "bool": lambda text: text.lower() in ("true", "yes", "on"),
        "null": lambda _text: None,
        "str": str,
    }
    return makers[node.tag](node.text)


def problems(value: Any, schema: Mapping[str, Any], where: str = "") -> list[str]:
    """What is wrong with a value; each problem begins with its place."""
    strange = schema.keys() - _ABOUT - _WORDS.keys() - {"patternProperties"}
    if strange:
        raise ValueError(f"{where}: this judge does not know {', '.join(sorted(strange))}")
    return [problem for word, check in _WORDS.items() if word in schema for problem in check(value, schema, where)]


def _type(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    wanted = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if not any(TYPES[one](value) for one in wanted):
        yield f"{where}: {value!r} is not of type {' or '.join(wanted)}"


def _bounds(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if TYPES["number"](value) and not schema["minimum"] <= value <= schema.get("maximum", value):
        yield f"{where}: {value} is out of range"


def _words(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if value not in schema.get("enum", [schema.get("const")]):
        yield f"{where}: {value!r} is not allowed"


def _pattern(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{where}: {value!r} does not have the form {schema['pattern']}"


def _properties(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    patterns = schema.get("patternProperties", {})
    for name, child in value.items():
        place = f"{where}.{name}" if where else name
        found = [schema["properties"][name]] if name in schema["properties"] else []
        found += [form for pattern, form in patterns.items() if re.search(pattern, name)]
        rest = schema.get("additionalProperties", True)
        if not found and rest is False:
            yield f"{place}: is not a known key"
        for form in found:
            yield from problems(child, form, place)


def _any_keys(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    rest = schema["additionalProperties"]
    if isinstance(value, dict) and isinstance(rest, Mapping):
        for name, child in value.items():
            yield from problems(child, rest, f"{where}.{name}")


def _required(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{where}: {name} is missing" for name in schema["required"] if name not in value)


def _items(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(item, schema["items"], f"{where}[{index}]")


def _any_of(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    tried = [problems(value, form, where) for form in schema["anyOf"]]
    if all(tried):
        yield from min(tried, key=len)


_WORDS: Final[Mapping[str, Callable[[Any, Mapping[str, Any], str], Iterator[str]]]] = {
    "type": _type,
    "minimum": _bounds,
    "maximum": lambda _value, _schema, _where: iter(()),  # with the minimum: one never stands alone here
    "enum": _words,
    "const": _words,
    "pattern": _pattern,
    "properties": _properties,
    "additionalProperties": _any_keys,
    "required": _required,
    "items": _items,
    "anyOf": _any_of,
}
