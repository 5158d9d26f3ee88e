"""The functions of Go templates, Sprig and Helm that charts of ours may use, with their real meaning. Pure.

Stricter than Helm in one point: a whole number of a million and more is not printed, since Helm reads numbers of values
as floats and prints 1e+06. `int` in front of it makes both agree.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from interpose.dump.decode.yaml import yaml_text
from interpose.errors import ConfigError
from tests.support.helm.errors import FunctionError
from tests.support.kube.plain_documents import Document, documents

_FLOATS: Final = 1_000_000  # from here on Go prints floats with an exponent


class Whole(int):
    """A number that is an integer to Helm as well."""


def truth(value: Any) -> bool:
    """What Go templates take for true: everything but false, nil, zero and what is empty."""
    return bool(value)


def shown(value: Any) -> str:
    """A value as it is printed. A missing one is nothing: Helm takes Go's "<no value>" away."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= _FLOATS and not isinstance(value, Whole):
        raise FunctionError(f"{value} would be printed with an exponent, use int")
    if isinstance(value, str | int | float):
        return str(value)
    raise FunctionError(f"a {type(value).__name__} is printed as Go writes it, use toYaml")


def _same(one: Any, *others: Any) -> bool:
    if not others:
        raise FunctionError("eq needs two values")
    for other in others:
        if None not in (one, other) and _basic(one) is not _basic(other):
            raise FunctionError(f"{one!r} and {other!r} cannot be compared")
    return one in others


def _basic(value: Any) -> type:
    if isinstance(value, dict | list):
        raise FunctionError("lists and maps cannot be compared")
    return int if type(value) is Whole else type(value)


def _ordered(one: Any, other: Any) -> int:
    if _basic(one) is not _basic(other) or one is None:
        raise FunctionError(f"{one!r} and {other!r} cannot be compared")
    return int(one > other) - int(one < other)


def _indent(width: int, text: str) -> str:
    pad = " " * width
    return pad + text.replace("\n", "\n" + pad)


def _yaml(value: Any) -> str:
    return "null" if value is None else yaml_text(value).removesuffix("\n")


def _from_yaml(text: str) -> Document:
    try:
        [found] = documents(text, "fromYaml")
    except (ConfigError, ValueError) as error:  # Helm would go on with a map that says Error
        raise FunctionError(f"fromYaml: {error}") from None
    return found


def _printf(form: str, *values: Any) -> str:
    rest = list(values)
    out, position = "", 0
    while (found := form.find("%", position)) >= 0:
        out += form[position:found]
        verb = form[found + 1 : found + 2]
        position = found + 2
        if verb == "%":
            out += "%"
            continue
        if not rest or verb not in _VERBS:
            raise FunctionError(f"printf {form!r}: %{verb} is not supported or has no value")
        out += _VERBS[verb](rest.pop(0))
    if rest:
        raise FunctionError(f"printf {form!r}: too many values")
    return out + form[position:]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise FunctionError(f"%s of {value!r}: Go would print %!s")
    return value


def _digits(value: Any) -> str:
    if type(value) is not Whole:  # a number of the values is a float to Helm
        raise FunctionError(f"%d of {value!r}: use int")
    return str(int(value))


_VERBS: Final[Mapping[str, Callable[[Any], str]]] = {
    "s": _text,
    "d": _digits,
    "v": shown,
    "q": lambda value: json.dumps(_text(value)),
}


def _required(message: str, value: Any) -> Any:
    if value is None or value == "":
        raise FunctionError(message)
    return value


def _fail(message: str) -> Any:
    raise FunctionError(message)


def _dict(*pairs: Any) -> dict[str, Any]:
    if len(pairs) % 2:
        raise FunctionError("dict needs pairs")
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _index(base: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(base, dict):
            base = base.get(key)
        elif isinstance(base, list) and 0 <= key < len(base):
            base = base[key]
        else:
            raise FunctionError(f"index {key!r} of {base!r}")
    return base


def _quoted(value: Any) -> str:
    return json.dumps(shown(value), ensure_ascii=False)


def _trimmed(text: str) -> str:
    return text.strip()


def _keys(value: dict[str, Any]) -> list[str]:
    return list(value)


def _joined(separator: str, items: list[Any]) -> str:
    return separator.join(shown(item) for item in items)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "append": lambda items, item: [*items, item],
    "b64enc": lambda text: base64.b64encode(text.encode()).decode(),
    "concat": lambda *lists: [item for one in lists for item in one],
    "contains": lambda part, text: part in text,
    "default": lambda other, value=None: value if truth(value) else other,
    "dict": _dict,
    "empty": lambda value: not truth(value),
    "eq": _same,
    "fail": _fail,
    "fromYaml": _from_yaml,
    "ge": lambda one, other: _ordered(one, other) >= 0,
    "gt": lambda one, other: _ordered(one, other) > 0,
    "has": lambda item, items: item in items,
    "hasKey": lambda values, key: key in values,
    "indent": _indent,
    "index": _index,
    "int": Whole,
    "join": _joined,
    "keys": _keys,
    "kindIs": lambda kind, value: _KINDS[kind](value),
    "le": lambda one, other: _ordered(one, other) <= 0,
    "len": lambda value: Whole(len(value)),
    "list": lambda *items: list(items),
    "lower": str.lower,
    "lt": lambda one, other: _ordered(one, other) < 0,
    "ne": lambda one, other: not _same(one, other),
    "nindent": lambda width, text: "\n" + _indent(width, text),
    "not": lambda value: not truth(value),
    "printf": _printf,
    "quote": _quoted,
    "replace": lambda old, new, text: text.replace(old, new),
    "required": _required,
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "sortAlpha": lambda items: sorted(shown(item) for item in items),
    "ternary": lambda yes, no, condition: yes if condition else no,
    "toJson": lambda value: json.dumps(value, sort_keys=True, separators=(",", ":")),
    "toString": shown,
    "toYaml": _yaml,
    "trim": _trimmed,
    "trimPrefix": lambda part, text: text.removeprefix(part),
    "trimSuffix": lambda part, text: text.removesuffix(part),
    "trunc": lambda width, text: text[:width] if width >= 0 else text[width:],
    "uniq": lambda items: list(dict.fromkeys(items)),
}
_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "map": lambda value: isinstance(value, dict),
    "slice": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "invalid": lambda value: value is None,
}
