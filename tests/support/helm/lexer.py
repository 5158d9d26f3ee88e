"""Template text as pieces: plain text, and actions as tokens. Trimming by `{{-` and `-}}` is done here. Pure."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from tests.support.helm.errors import ChartError

_OPEN: Final = re.compile(r"\{\{(?P<trim>-(?=\s))?")
_CLOSE: Final = re.compile(r"\s*?(?P<trim>(?<=\s)-)?\}\}")
_COMMENT: Final = re.compile(r"\s*/\*.*?\*/", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""
      (?P<text>"(?:[^"\\\n]|\\.)*")
    | (?P<raw>`[^`]*`)
    | (?P<number>-?\d+(?:\.\d+)?)
    | (?P<variable>\$\w*)
    | (?P<field>\.[A-Za-z_]\w*)
    | (?P<dot>\.)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign>:=|[|(),=])
    """,
    re.VERBOSE,
)
_BLANK: Final = re.compile(r"\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One word of an action. `glued`: nothing is between it and the one before."""

    kind: str  # text, number, variable, field, dot, word, sign
    value: Any
    glued: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Text as it is."""

    text: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is between braces."""

    tokens: tuple[Token, ...]
    line: int


Piece = Plain | Action


def pieces(source: str, where: str) -> list[Piece]:
    """The pieces of a template; empty text is left out."""
    found: list[Piece] = []
    position, trim = 0, False
    while True:
        opened = _OPEN.search(source, position)
        text = source[position : opened.start() if opened else len(source)]
        line = source.count("\n", 0, position) + 1
        text = text.lstrip() if trim else text
        if opened and opened["trim"]:
            text = text.rstrip()
        if text:
            found.append(Plain(text=text, line=line))
        if opened is None:
            return found
        position, trim, action = _action(source, opened.end(), where)
        if action is not None:
            found.append(action)


def _action(source: str, start: int, where: str) -> tuple[int, bool, Action | None]:
    """Where the action that begins here ends, whether it trims what follows, and its tokens; None for a comment."""
    line = source.count("\n", 0, start) + 1
    comment = _COMMENT.match(source, start)
    position = comment.end() if comment else start
    tokens: list[Token] = []
    while True:
        if closed := _CLOSE.match(source, position):
            action = None if comment else Action(tokens=tuple(tokens), line=line)
            return closed.end(), bool(closed["trim"]), action
        if comment:
            raise ChartError(where, line, "a comment must be alone between its braces")
        begin = _BLANK.match(source, position).end()  # type: ignore[union-attr]
        match = _TOKEN.match(source, begin)
        if match is None:
            rest = source[begin : begin + 20].split("\n")[0]
            raise ChartError(where, line, f"cannot be read at {rest!r}" if rest else "an action is not closed")
        tokens.append(_token(match, glued=begin == position and bool(tokens)))
        position = match.end()


def _token(match: re.Match[str], *, glued: bool) -> Token:
    kind, text = str(match.lastgroup), match.group()
    value: Any = text
    if kind == "text":
        value = json.loads(text)
    elif kind == "raw":
        kind, value = "text", text[1:-1]
    elif kind == "number":
        value = float(text) if "." in text else int(text)
    elif kind == "field":
        value = text[1:]
    return Token(kind=kind, value=value, glued=glued)
