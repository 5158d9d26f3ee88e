"""JSON of people: keeps what Python's own reader loses, and says where it went wrong.

Objects keep duplicate keys, numbers stay text, NaN is refused. Any text gives a value or a ConfigError, nothing else.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from interpose.core.model.text import quoted
from interpose.errors import ConfigError


class Object(NamedTuple):
    """A JSON object with its keys in order, duplicates included, and the lines they are on where that was asked for."""

    pairs: list[tuple[str, Any]]
    lines: Sequence[int] = ()


class Whole(str):
    """The text of a whole number: turning a million digits into one is not needed to refuse them."""

    __slots__ = ()


class Fraction(str):
    """The text of a number with a fraction or an exponent."""

    __slots__ = ()


_KINDS: Mapping[type, str] = {
    Object: "a group of keys",
    list: "a list",
    str: "text",
    Whole: "a whole number",
    Fraction: "a number with a fraction",
    bool: "true or false",
    type(None): "null",
}
# What matters for where keys are, in text that is JSON: braces, and strings with the colon that makes them keys.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[{}]')


def read_object(text: str, where: str, *, lined: bool = False) -> Object:
    """The object that `text` holds; `where` begins every message. `lined`: objects know the lines of their keys."""
    if not text.strip():
        raise ConfigError(f"{where}: is empty")

    def refuse_constant(name: str) -> Any:
        raise ConfigError(f"{where}: is not valid JSON: {name} is not a number")

    lines = _lines_of_keys(text) if lined else iter(())

    def ended(pairs: list[tuple[str, Any]]) -> Object:
        return Object(pairs, next(lines, ()))

    try:
        value = json.loads(
            text, object_pairs_hook=ended, parse_int=Whole, parse_float=Fraction, parse_constant=refuse_constant
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise ConfigError(f"{where} {place}: is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigError(f"{where}: is nested too deeply") from None
    found: Object = expect(value, where, Object)
    return found


def _lines_of_keys(text: str) -> Iterator[Sequence[int]]:
    """The lines of the keys of each object, in the order in which the objects end, which is that of the reader."""
    objects: list[list[int]] = []
    line, counted = 1, 0
    for token in _TOKEN.finditer(text):
        if token.group() == "{":
            objects.append([])
        elif token.group() == "}":
            yield objects.pop()
        elif token.group(1):
            line += text.count("\n", counted, token.start())
            counted = token.start()
            objects[-1].append(line)


def expect(value: Any, where: str, kind: type) -> Any:
    """The value, if it is of this kind and not just of a related one."""
    if type(value) is not kind:
        raise ConfigError(f"{where}: expected {_KINDS[kind]}, found {describe(value)}")
    return value


@contextmanager
def about_annotation() -> Iterator[None]:
    """Every complaint inside is a ValueError that says that it is about an annotation."""
    try:
        yield
    except (ConfigError, ValueError) as error:
        raise ValueError(f"annotation {error}") from None


def describe(value: Any) -> str:
    """What a value is, in words for a message."""
    if isinstance(value, bool):
        return str(value).lower()
    kind = _KINDS[type(value)]
    return f"{kind} ({quoted(value)})" if isinstance(value, str) else kind
