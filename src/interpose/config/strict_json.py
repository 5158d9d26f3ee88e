"""JSON of people: keeps what Python's own reader loses, and says where it went wrong.

Objects keep duplicate keys, numbers stay text, NaN is refused. Any text gives a value or a ConfigError, nothing else.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from interpose.core.model.text import quoted
from interpose.errors import ConfigError


class Object(NamedTuple):
    """A JSON object with its keys in order, duplicates included."""

    pairs: list[tuple[str, Any]]


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


def read_object(text: str, where: str) -> Object:
    """The object that `text` holds; `where` begins every message."""
    if not text.strip():
        raise ConfigError(f"{where}: is empty")

    def refuse_constant(name: str) -> Any:
        raise ConfigError(f"{where}: is not valid JSON: {name} is not a number")

    try:
        value = json.loads(
            text, object_pairs_hook=Object, parse_int=Whole, parse_float=Fraction, parse_constant=refuse_constant
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise ConfigError(f"{where} {place}: is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigError(f"{where}: is nested too deeply") from None
    found: Object = expect(value, where, Object)
    return found


def expect(value: Any, where: str, kind: type) -> Any:
    """The value, if it is of this kind and not just of a related one."""
    if type(value) is not kind:
        raise ConfigError(f"{where}: expected {_KINDS[kind]}, found {shown(value)}")
    return value


@contextmanager
def about_annotation() -> Iterator[None]:
    """Every complaint inside is a ValueError that says that it is about an annotation."""
    try:
        yield
    except (ConfigError, ValueError) as error:
        raise ValueError(f"annotation {error}") from None


def shown(value: Any) -> str:
    """What a value is, in words for a message."""
    if isinstance(value, bool):
        return str(value).lower()
    kind = _KINDS[type(value)]
    return f"{kind} ({quoted(value)})" if isinstance(value, str) else kind
