"""Expressions about containers, as affinities and types of balloons use them: a key, an operator and values.

A key names something about a container that is known before the container is made: `name`, `namespace`, `qosclass`,
`uid` (that of its pod), `labels/LABEL`, and the same about its pod behind `pod/`, which has an `id` too. Labels of a
container are the four that the kubelet gives it. `id` and `tags/TAG` of containers are valid keys, but nothing has them
before it is made: they resolve to nothing. A key with a dot and no slash is a label, as older configurations write it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from interpose.core.model.kubernetes_names import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from interpose.core.model.text import quoted
from interpose.core.policy.request import Request

_ANYTHING: Final = "*"  # as a value of Equals, NotEqual, In and NotIn
_LABELS: Final = "labels/"
_TAGS: Final = "tags/"
_POD: Final = "pod/"
_JOINT: Final = ":"
_MIN_JOINT: Final = 4  # characters; shorter ones name nothing
_NO_SEPARATOR: Final = re.compile(r"[0-9A-Za-z/.]", re.ASCII)
_TEMPLATE_PART: Final = re.compile(r"[^$]+|\$\$|\$\{([^${}]+)\}|\$([^${}]+)(?=\$|\Z)")


class Operator(StrEnum):
    """How an expression compares."""

    EQUALS = "Equals"
    NOT_EQUAL = "NotEqual"
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    NOT_EXIST = "NotExist"
    ALWAYS_TRUE = "AlwaysTrue"
    MATCHES = "Matches"
    MATCHES_NOT = "MatchesNot"
    MATCHES_ANY = "MatchesAny"
    MATCHES_NONE = "MatchesNone"


_SINGLE: Final = frozenset({Operator.EQUALS, Operator.NOT_EQUAL, Operator.MATCHES, Operator.MATCHES_NOT})
_NO_VALUES: Final = frozenset({Operator.EXISTS, Operator.NOT_EXIST, Operator.ALWAYS_TRUE})
_GLOBS: Final = frozenset({Operator.MATCHES, Operator.MATCHES_NOT, Operator.MATCHES_ANY, Operator.MATCHES_NONE})
# What an operator is the negation of; it is true where a key resolves to nothing.
_NEGATIONS: Final[Mapping[Operator, Operator]] = MappingProxyType(
    {
        Operator.NOT_EQUAL: Operator.EQUALS,
        Operator.NOT_IN: Operator.IN,
        Operator.NOT_EXIST: Operator.EXISTS,
        Operator.MATCHES_NOT: Operator.MATCHES,
        Operator.MATCHES_NONE: Operator.MATCHES_ANY,
    }
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A key, an operator and its values; `expression_problem` tells whether they go together."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, request: Request) -> bool:
        """Whether it is true of a container."""
        if self.operator is Operator.ALWAYS_TRUE:
            return True
        positive = _NEGATIONS.get(self.operator, self.operator)
        value = resolve(self.key, request)
        return (value is not None and self._holds(positive, value)) is (positive is self.operator)

    def _holds(self, operator: Operator, value: str) -> bool:
        if operator is Operator.EXISTS:
            return True
        if operator in _GLOBS:
            return any(matches_glob(pattern, value) for pattern in self.values)
        return value in self.values or _ANYTHING in self.values

    def __str__(self) -> str:
        return " ".join(filter(None, (self.key, self.operator, ", ".join(self.values))))


def expression_problem(expression: Expression) -> str:
    """What is wrong with an expression; empty if nothing is."""
    operator, values = expression.operator, expression.values
    keys, _separator = _split_key(expression.key)
    if (unknown := next((key for key in keys if not _is_key(key)), None)) is not None:
        return f"key {quoted(unknown)} is none of {', '.join(_SIMPLE)}, {_LABELS}LABEL, {_TAGS}TAG, {_POD}KEY"
    if operator in _SINGLE and len(values) != 1:
        return f"operator {operator} takes one value, found {len(values)}"
    if operator in _NO_VALUES and values:
        return f"operator {operator} takes no values, found {', '.join(map(quoted, values))}"
    if operator in _GLOBS:
        return next((problem for value in values if (problem := glob_problem(value))), "")
    return ""


def resolve(key: str, request: Request) -> str | None:
    """What a key is for a container; None if nothing. A joint key resolves if one of its parts does."""
    keys, separator = _split_key(key)
    values = [_resolve_one(part, request) for part in keys]
    return None if all(value is None for value in values) else separator.join(value or "" for value in values)


def expand_template(text: str, request: Request) -> str | None:
    """Text with `${key}` and `$key` replaced, `$$` by a dollar sign.

    None if a key resolves to nothing, or if the text is no template. A key without braces ends at the next dollar sign.
    """
    found, position = [], 0
    while position < len(text):
        part = _TEMPLATE_PART.match(text, position)
        if part is None:
            return None
        key = part[1] or part[2]
        value = resolve(key, request) if key else "$" if part[0] == "$$" else part[0]
        if value is None:
            return None
        found.append(value)
        position = part.end()
    return "".join(found)


# -- keys

_SIMPLE: Final[Mapping[str, Callable[[Request], str | None]]] = MappingProxyType(
    {
        "id": lambda _request: None,
        "uid": lambda request: request.pod_labels.get(POD_UID),
        "name": lambda request: request.key.name,
        "namespace": lambda request: request.namespace,
        "qosclass": lambda request: request.qos.value,
    }
)
_SIMPLE_OF_POD: Final[Mapping[str, Callable[[Request], str | None]]] = MappingProxyType(
    {**_SIMPLE, "id": lambda request: request.key.pod_id, "name": lambda request: request.pod}
)


def _split_key(key: str) -> tuple[list[str], str]:
    """The keys in a key, and what is between their values."""
    if len(key) < _MIN_JOINT or not key.startswith(_JOINT):
        return [key], ""
    between, joiner, rest = key[1], key[2], key[3:]
    if _NO_SEPARATOR.match(between) or _NO_SEPARATOR.match(joiner):
        between, joiner, rest = _JOINT, _JOINT, key[1:]
    return rest.split(between), joiner


def _normalized(key: str) -> str:
    key = key.lstrip("/")
    return f"{_LABELS}{key}" if "." in key and "/" not in key else key


def _is_key(key: str) -> bool:
    key = _normalized(key).removeprefix(_POD)
    return key in _SIMPLE or any(key.startswith(group) and len(key) > len(group) for group in (_LABELS, _TAGS))


def _resolve_one(key: str, request: Request) -> str | None:
    key = _normalized(key)
    of_pod = key.startswith(_POD)
    key = key.removeprefix(_POD)
    if key.startswith(_LABELS):
        labels = request.pod_labels if of_pod else _container_labels(request)
        return labels.get(key.removeprefix(_LABELS))
    read = (_SIMPLE_OF_POD if of_pod else _SIMPLE).get(key)
    return None if read is None else read(request)


def _container_labels(request: Request) -> Mapping[str, str]:
    labels = {CONTAINER_NAME: request.key.name, POD_NAME: request.pod, POD_NAMESPACE: request.namespace}
    uid = request.pod_labels.get(POD_UID)
    return labels if uid is None else {**labels, POD_UID: uid}


# -- globs, by the rules of Go's path.Match


def matches_glob(pattern: str, text: str) -> bool:
    """Whether a whole text is of a pattern: `*` and `?` do not match a slash, `[a-z]` and `[^a-z]` may.

    What is no pattern matches nothing.
    """
    try:
        regex = "".join(_regex_parts(pattern))
    except ValueError:
        return False
    return re.fullmatch(regex, text, re.DOTALL) is not None


def glob_problem(pattern: str) -> str:
    """What is wrong with a pattern; empty if nothing is."""
    try:
        for _part in _regex_parts(pattern):
            pass
    except ValueError as error:
        return f"pattern {quoted(pattern)}: {error}"
    return ""


def _regex_parts(pattern: str) -> Iterator[str]:
    """A regular expression in parts. What is behind a star is found where it is first, and not looked for again.

    That is what Go does, and keeps the time that a pattern of many stars takes in proportion to the text.
    """
    chunks = list(_split_at_stars(pattern))
    for index, (star, chunk) in enumerate(chunks):
        last = index == len(chunks) - 1
        if not star:
            yield chunk
        elif last:
            yield rf"(?>[^/]*?{chunk}\Z)" if chunk else "[^/]*"
        else:
            yield f"(?>[^/]*?{chunk})"


def _split_at_stars(pattern: str) -> Iterator[tuple[bool, str]]:
    """Chunks without stars as regular expressions, and whether a star is before each."""
    star, chunk, position = False, "", 0
    while position < len(pattern):
        char = pattern[position]
        if char == "*":
            if chunk or not star:
                yield star, chunk
            star, chunk, position = True, "", position + 1
        elif char == "[":
            regex, position = _read_class(pattern, position + 1)
            chunk += regex
        else:
            literal, position = ("", position + 1) if char == "?" else _read_char(pattern, position)
            chunk += re.escape(literal) or "[^/]"
    yield star, chunk


def _read_class(pattern: str, position: int) -> tuple[str, int]:
    """A class of characters as a regular expression, and the position behind it."""
    negated = pattern.startswith("^", position)
    position += negated
    ranges: list[str] = []
    while not (ranges and pattern.startswith("]", position)):
        if position >= len(pattern):
            raise ValueError("a class of characters has no end")
        if pattern[position] in "-]":
            raise ValueError(f"a class of characters cannot have {pattern[position]} there")
        low, position = _read_char(pattern, position)
        high = low
        if pattern.startswith("-", position):
            if pattern[position + 1 : position + 2] in ("", "-", "]"):
                raise ValueError("a range of characters has no end")
            high, position = _read_char(pattern, position + 1)
        # A range that ends before it begins has nothing in it, which a regular expression cannot say as a range.
        ranges.append(f"[{re.escape(low)}-{re.escape(high)}]" if low <= high else "(?!)")
    regex = "|".join(ranges)
    return (f"(?:(?!{regex}).)" if negated else f"(?:{regex})"), position + 1


def _read_char(pattern: str, position: int) -> tuple[str, int]:
    """A character that stands for itself, and the position behind it."""
    if pattern[position] != "\\":
        return pattern[position], position + 1
    if position + 1 == len(pattern):
        raise ValueError("nothing is behind its last backslash")
    return pattern[position + 1], position + 2
