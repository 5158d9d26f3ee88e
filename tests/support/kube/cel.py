"""A reader of the part of CEL that our admission policies use, so that tests can evaluate them. Pure.

Real in what matters for a guard: a field that is not there is an error and no empty value; `&&` and `||` do not mind an
error on one side if the other decides; numbers and booleans are never equal. Stricter than CEL: whatever is not known
here is refused. Patterns are RE2's, read as Python's.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"""
      (?P<text>"[^"\\]*")
    | (?P<number>\d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>&&|\|\||==|!=|\[\?|\.\?|[][(){}.,:?!])
    | (?P<blank>\s+)
    """,
    re.VERBOSE,
)
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_METHODS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
}
_MACROS: Final = ("all", "exists")

Names = Mapping[str, Any]
Node = Callable[[Names], Any]


class CelError(ValueError):
    """Not an expression, or one that cannot be evaluated: no such key, wrong type."""


@dataclass(frozen=True, slots=True)
class Optional:
    """What `.?name` and `[?key]` give: a value, or none."""

    values: tuple[Any, ...]


def evaluate(expression: str, names: Names) -> Any:
    """The value of an expression."""
    return compiled(expression)(names)


def compiled(expression: str) -> Node:
    """An expression, ready to be evaluated."""
    reader = _Reader(expression)
    node = reader.choice()
    reader.want("")
    return node


def equal(one: Any, other: Any) -> bool:
    """CEL's equality: as deep as it goes, and true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


class _Reader:
    """Recursive descent; each method reads one level of precedence."""

    def __init__(self, expression: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(expression):
            match = _TOKEN.match(expression, position)
            if match is None:
                raise CelError(f"cannot be read at {expression[position : position + 20]!r}")
            if match.lastgroup != "blank":
                self._tokens.append((str(match.lastgroup), match.group()))
            position = match.end()
        self._tokens.append(("end", ""))

    def _peek(self) -> str:
        return self._tokens[0][1]

    def _take(self, *texts: str) -> str:
        """The next token if it is one of these, else nothing."""
        return self._tokens.pop(0)[1] if self._peek() in texts else ""

    def want(self, text: str) -> None:
        if self._peek() != text:
            raise CelError(f"expected {text or 'the end'!r}, found {self._peek()!r}")
        self._tokens.pop(0)

    def choice(self) -> Node:
        condition = self._any()
        if not self._take("?"):
            return condition
        yes = self.choice()
        self.want(":")
        no = self.choice()
        return lambda names: yes(names) if _truth(condition(names)) else no(names)

    def _any(self) -> Node:
        parts = [self._every()]
        while self._take("||"):
            parts.append(self._every())
        return parts[0] if len(parts) == 1 else lambda names: _decide(parts, names, deciding=True)

    def _every(self) -> Node:
        parts = [self._relation()]
        while self._take("&&"):
            parts.append(self._relation())
        return parts[0] if len(parts) == 1 else lambda names: _decide(parts, names, deciding=False)

    def _relation(self) -> Node:
        left = self._negated()
        sign = self._take("==", "!=", "in")
        if not sign:
            return left
        right = self._negated()
        if sign == "in":
            return lambda names: _within(left(names), right(names))
        return lambda names: equal(left(names), right(names)) == (sign == "==")

    def _negated(self) -> Node:
        if not self._take("!"):
            return self._member()
        inner = self._negated()
        return lambda names: not _truth(inner(names))

    def _member(self) -> Node:
        node = self._primary()
        while sign := self._take(".", ".?", "[", "[?"):
            node = self._field(node, sign) if sign.startswith(".") else self._item(node, sign)
        return node

    def _item(self, base: Node, sign: str) -> Node:
        key = self.choice()
        self.want("]")
        return lambda names: _select(base(names), key(names), optional=sign == "[?")

    def _field(self, base: Node, sign: str) -> Node:
        name = self._name()
        if not self._take("("):
            return lambda names: _select(base(names), name, optional=sign == ".?")
        if name in _MACROS:
            return self._macro(base, deciding=name == "exists")
        argument = self.choice()
        self.want(")")
        if name == "orValue":
            return lambda names: _or_value(base(names), argument(names))
        if name not in _METHODS:
            raise CelError(f"{name} is not known")
        return lambda names: _METHODS[name](_text(base(names)), _text(argument(names)))

    def _macro(self, base: Node, *, deciding: bool) -> Node:
        variable = self._name()
        self.want(",")
        body = self.choice()
        self.want(")")

        def run(names: Names) -> bool:
            parts: list[Node] = [lambda _, item=item: body({**names, variable: item}) for item in _items(base(names))]  # type: ignore[misc]
            return _decide(parts, names, deciding=deciding)

        return run

    def _primary(self) -> Node:
        kind, text = self._tokens.pop(0)
        if kind == "text":
            return lambda _: text[1:-1]
        if kind == "number":
            return lambda _: int(text)
        if text == "(":
            inner = self.choice()
            self.want(")")
            return inner
        if text == "[":
            return self._list()
        if text == "{":
            self.want("}")
            return lambda _: {}
        if kind != "name":
            raise CelError(f"unexpected {text or 'end'!r}")
        if text in _WORDS:
            return lambda _: _WORDS[text]
        if self._take("("):
            return self._call(text)
        return lambda names: _select(names, text, optional=False)

    def _call(self, name: str) -> Node:
        if name != "dyn":  # it is there for type checks alone
            raise CelError(f"{name} is not known")
        inner = self.choice()
        self.want(")")
        return inner

    def _list(self) -> Node:
        items: list[Node] = []
        while self._peek() != "]":
            items.append(self.choice())
            if not self._take(","):
                break
        self.want("]")
        return lambda names: [item(names) for item in items]

    def _name(self) -> str:
        kind, text = self._tokens.pop(0)
        if kind != "name":
            raise CelError(f"expected a name, found {text!r}")
        return text


def _decide(parts: Iterable[Node], names: Names, *, deciding: bool) -> bool:
    """All or any of them: one that decides beats errors of others, before and after it."""
    trouble: CelError | None = None
    for part in parts:
        try:
            if _truth(part(names)) is deciding:
                return deciding
        except CelError as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return not deciding


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{value!r} is not true or false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise CelError(f"{value!r} is not text")
    return value


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, dict | list):
        raise CelError(f"{value!r} has no items")
    return list(value)


def _within(item: Any, value: Any) -> bool:
    return any(equal(item, one) for one in _items(value))


def _select(base: Any, key: Any, *, optional: bool) -> Any:
    chained = isinstance(base, Optional)
    if chained and not base.values:
        return base
    inner = base.values[0] if chained else base
    if isinstance(inner, list) and type(key) is int:
        found = inner[key : key + 1]
    elif isinstance(inner, Mapping):
        found = [inner[key]] if key in inner else []
    else:
        raise CelError(f"{inner!r} has no {key!r}")
    if optional or chained:
        return Optional(tuple(found))
    if not found:
        raise CelError(f"no such key: {key}")
    return found[0]


def _or_value(base: Any, other: Any) -> Any:
    if not isinstance(base, Optional):
        raise CelError("orValue is for what may be missing")
    return base.values[0] if base.values else other
