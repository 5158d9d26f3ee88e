"""Field and label selectors of requests and of webhooks. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from tests.support.apiserver.problems import bad_request
from tests.support.apiserver.resources import Kind

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]

_SET_TERM = re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s!=,()]*)")
_PRESENCE = re.compile(r"(?P<not>!?)\s*(?P<key>[^\s!=,()]+)")


def field_test(kind: Kind, text: str) -> Test:
    """Of `metadata.name=x,status.phase!=Failed`. Fields that the kind has no index for are refused."""
    terms: list[tuple[tuple[str, ...], bool, str]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _EQUALITY.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        key = match["key"]
        if key not in (
            "metadata.name",
            *(["metadata.namespace"] if kind.resource.namespaced else []),
            *kind.selectable,
        ):
            raise bad_request(f'field label not supported: "{key}"')
        terms.append((tuple(key.split(".")), match["how"] != "!=", match["value"]))
    return lambda candidate: all((_value_at(candidate, path) == value) is equal for path, equal, value in terms)


def selected_name(text: str) -> str:
    """The name that a field selector asks for, or nothing: what access by name goes by."""
    for part in text.split(","):
        if (match := _EQUALITY.fullmatch(part.strip())) and match["key"] == "metadata.name" and match["how"] != "!=":
            return match["value"]
    return ""


def label_test(text: str) -> Test:
    """Of `a=b,c!=d,e in (f,g),h,!i`."""
    tests = [_label_term(part, text) for part in _split(text)]
    return lambda candidate: all(test(_labels(candidate)) for test in tests)


def selector_test(selector: Mapping[str, Any] | None) -> Test:
    """Of a LabelSelector as objects have it: matchLabels and matchExpressions. None matches everything."""
    given = selector or {}
    tests = [_in(key, (value,)) for key, value in (given.get("matchLabels") or {}).items()]
    tests += [
        _OPERATORS[term["operator"]](term["key"], tuple(term.get("values") or ()))
        for term in given.get("matchExpressions") or []
    ]
    return lambda candidate: all(test(_labels(candidate)) for test in tests)


def _labels(candidate: Mapping[str, Any]) -> Mapping[str, Any]:
    return (candidate.get("metadata") or {}).get("labels") or {}


def _in(key: str, values: tuple[str, ...]) -> Test:
    return lambda labels: labels.get(key) in values


def _not_in(key: str, values: tuple[str, ...]) -> Test:
    return lambda labels: labels.get(key) not in values


def _exists(key: str, _values: tuple[str, ...] = ()) -> Test:
    return lambda labels: key in labels


def _absent(key: str, _values: tuple[str, ...] = ()) -> Test:
    return lambda labels: key not in labels


_OPERATORS: Mapping[str, Callable[[str, tuple[str, ...]], Test]] = {
    "In": _in,
    "NotIn": _not_in,
    "Exists": _exists,
    "DoesNotExist": _absent,
    "in": _in,
    "notin": _not_in,
}


def _split(text: str) -> Iterator[str]:
    """At commas that are not inside of brackets."""
    for part in re.findall(r"(?:\([^)]*\)|[^,(])+", text):
        if part.strip():
            yield part.strip()


def _label_term(part: str, text: str) -> Test:
    if match := _SET_TERM.fullmatch(part):
        values = tuple(value.strip() for value in match["values"].split(","))
        return _OPERATORS[match["how"]](match["key"], values)
    if match := _EQUALITY.fullmatch(part):
        return (_not_in if match["how"] == "!=" else _in)(match["key"], (match["value"],))
    if match := _PRESENCE.fullmatch(part):
        return _absent(match["key"]) if match["not"] else _exists(match["key"])
    raise bad_request(f"unable to parse requirement: found '{part}' in '{text}'")


def _value_at(candidate: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """As a selector compares: what is not there is empty."""
    found: Any = candidate
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, Mapping):  # `source` of an event stands for its component
        found = found.get("component")
    return "" if found is None else str(found)
