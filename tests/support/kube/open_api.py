"""Values held against schemas: of custom resources (OpenAPI v3, structural), of a chart's values (JSON Schema).

Only the keywords that our files use are known; another one is an error, so nothing is taken for checked that was not.
Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from interpose.core.model.text import quoted

Schema = Mapping[str, Any]

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_EITHER: Final = "x-kubernetes-int-or-string"
# What says nothing about a value by itself.
_WORDS: Final = frozenset(
    ("$schema", "$id", "title", "description", "default", "format", "examples", _OPEN, _EITHER, "nullable", "required")
)
# The types that both kinds of schemas name.
TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "null": lambda value: value is None,
}


class UnknownKeywordError(Exception):
    """A schema says something that is not understood here."""


def problems(schema: Schema, value: Any, path: str = "") -> list[str]:
    """What a value has that its schema does not allow, each with its path."""
    return list(_check(schema, value, path))


def _check(schema: Schema, value: Any, path: str) -> Iterator[str]:
    unknown = schema.keys() - _WORDS - _KEYWORDS.keys()
    if unknown:
        raise UnknownKeywordError(f"{path}: {', '.join(sorted(unknown))}")
    if value is None and schema.get("nullable"):
        return
    for keyword, check in _KEYWORDS.items():
        if keyword in schema:
            yield from check(schema, value, path)
    if isinstance(value, dict):
        yield from (f"{path}.{key}: is missing" for key in schema.get("required", ()) if key not in value)


def _type(schema: Schema, value: Any, path: str) -> Iterator[str]:
    allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(TYPES[name](value) for name in allowed):
        yield f"{path}: {value!r} is not of the type {' or '.join(allowed)}"


def _properties(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        inner = schema["properties"].get(key)
        if inner is not None:
            yield from _check(inner, item, f"{path}.{key}")
        elif "additionalProperties" not in schema and not schema.get(_OPEN):
            yield f"{path}.{key}: is not known"


def _others(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for key in value.keys() - schema.get("properties", {}).keys():
        if schema["additionalProperties"] is False:
            yield f"{path}.{key}: is not known"
        elif schema["additionalProperties"] is not True:
            yield from _check(schema["additionalProperties"], value[key], f"{path}.{key}")


def _items(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check(schema["items"], item, f"{path}[{index}]")


def _enum(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {', '.join(map(repr, schema['enum']))}"


def _bound(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if TYPES["number"](value) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path}: {value} is not from {schema.get('minimum', '')} to {schema.get('maximum', '')}"


def _length(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {quoted(value)} is too short or too long"


def _pattern(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{path}: {quoted(value)} does not look like {schema['pattern']}"


def _any_of(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if all(problems(one, value, path) for one in schema["anyOf"]):
        yield f"{path}: {value!r} is none of what is allowed"


_KEYWORDS: Final[Mapping[str, Callable[[Schema, Any, str], Iterator[str]]]] = {
    "type": _type,
    "properties": _properties,
    "additionalProperties": _others,
    "items": _items,
    "enum": _enum,
    "minimum": _bound,
    "maximum": _bound,
    "minLength": _length,
    "maxLength": _length,
    "pattern": _pattern,
    "anyOf": _any_of,
}


def not_structural(schema: Schema, path: str = "") -> list[str]:
    """Why API servers would not take a schema for a structural one; they refuse definitions whose schema is not."""
    return list(_structure(schema, path))


def _structure(schema: Schema, path: str) -> Iterator[str]:
    either = schema.get(_EITHER)
    if either:
        if "type" in schema or schema.get("anyOf") != [{"type": "integer"}, {"type": "string"}]:
            yield f"{path}: int-or-string goes with anyOf of both and without a type"
    elif not isinstance(schema.get("type"), str):
        yield f"{path}: has no type"
    elif "anyOf" in schema:
        yield f"{path}: anyOf is for int-or-string only"
    if schema.get("additionalProperties") is False:
        yield f"{path}: additionalProperties may not be false"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}: properties and additionalProperties exclude each other"
    if schema.get("type") == "array" and "items" not in schema:
        yield f"{path}: an array has no items"
    for name in set(schema.get("required", ())) - schema.get("properties", {}).keys():
        yield f"{path}: {name} is required but not described"
    for name, inner in schema.get("properties", {}).items():
        if path == "" and name == "metadata" and inner != {"type": "object"}:
            yield f"{path}.metadata: may not be described"
        yield from _structure(inner, f"{path}.{name}")
    if "items" in schema:
        yield from _structure(schema["items"], f"{path}[]")
