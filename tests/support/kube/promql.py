"""Which metrics and labels a PromQL expression names. A scanner, no parser: it finds names nobody exports. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""
      (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<range>\[[^\]]*\])
    | (?P<name>[A-Za-z_:][\w:]*)
    | (?P<number>\d[\w.]*)
    | (?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){},])
    | (?P<comment>\#[^\n]*)
    | (?P<blank>\s+)
    """,
    re.VERBOSE,
)
_OPERATORS: Final = frozenset(("and", "or", "unless", "bool", "offset"))
_GROUPINGS: Final = frozenset(("by", "without", "on", "ignoring", "group_left", "group_right"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A metric with the labels it is selected by."""

    metric: str
    labels: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Everything an expression names."""

    uses: tuple[Use, ...]
    grouping: frozenset[str]


class ScanError(ValueError):
    """Not an expression."""


def named(expression: str) -> Named:
    """The metrics of an expression and the labels it groups by."""
    rest = [token for token in _tokens(expression) if token[0] != "range"]
    uses: list[Use] = []
    grouping: set[str] = set()
    index = 0
    while index < len(rest):
        kind, text = rest[index]
        index += 1
        following = rest[index][1] if index < len(rest) else ""
        if kind != "name" or text in _OPERATORS:
            continue
        if text in _GROUPINGS:
            labels, index = _list(rest, index, "(", ")")
            grouping |= labels
        elif following == "{":
            labels, index = _list(rest, index, "{", "}")
            uses.append(Use(metric=text, labels=frozenset(labels)))
        elif following != "(" and following not in _GROUPINGS:  # else it is a function, or `sum by (x) (...)`
            uses.append(Use(metric=text, labels=frozenset()))
    return Named(uses=tuple(uses), grouping=frozenset(grouping))


def over_time(expression: str) -> frozenset[str]:
    """The metrics of which an expression takes a range, as `increase` and `rate` do."""
    found: set[str] = set()
    metric, depth = "", 0
    for kind, text in _tokens(expression):
        if text in ("{", "}"):
            depth += 1 if text == "{" else -1
        elif depth:
            continue
        elif kind == "name":
            metric = text
        elif kind == "range":
            found.add(metric)
    return frozenset(found)


def _tokens(expression: str) -> list[tuple[str, str]]:
    found, position = [], 0
    depth: list[str] = []
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            raise ScanError(f"{expression!r}: cannot be read at {expression[position : position + 10]!r}")
        kind, text = str(match.lastgroup), match.group()
        position = match.end()
        if kind in ("blank", "comment"):
            continue
        if text in _PAIRS.values():
            depth.append(text)
        elif text in _PAIRS and (not depth or depth.pop() != _PAIRS[text]):
            raise ScanError(f"{expression!r}: a bracket too many")
        found.append((kind, text))
    if depth:
        raise ScanError(f"{expression!r}: a bracket is not closed")
    return found


_PAIRS: Final[Mapping[str, str]] = {")": "(", "}": "{"}


def _list(rest: list[tuple[str, str]], index: int, opens: str, closes: str) -> tuple[set[str], int]:
    """Names between brackets that begin here, and where they end."""
    if index >= len(rest) or rest[index][1] != opens:
        return set(), index  # group_left without labels
    labels = set()
    for place in range(index, len(rest)):
        kind, text = rest[place]
        if kind == "name":
            labels.add(text)
        if text == closes:
            return labels, place + 1
    raise ScanError("a bracket is not closed")


def metric_of(series: str, kinds: Mapping[str, str]) -> str | None:
    """The family that a series belongs to: histograms have three series each; None if there is no such family."""
    if series in kinds and kinds[series] != "histogram":
        return series
    for suffix in ("_bucket", "_sum", "_count"):
        family = series.removesuffix(suffix)
        if family != series and kinds.get(family) == "histogram":
            return family
    return None


def expressions_of(rules: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Name and expression of each rule of a rule file."""
    groups = rules["groups"]
    assert isinstance(groups, list)
    for group in groups:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]
