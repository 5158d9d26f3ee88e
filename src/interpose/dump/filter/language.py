"""The filter language: which calls somebody wants to see.

`~m Create & !(~ns kube-system | ~s error)`, or in words `method=Create & !(namespace=kube-system | status=error)`. What
can be asked is the table of `filterterms`; this is the grammar around it. Pure.

Invariant: `str` of a filter is a text that parses to an equal filter.

    or   = and *( "|" and )
    and  = not *( ["&"] not )
    not  = "!" not / "(" or ")" / question / word

`|` and `&` end a word on its own, but may stand inside of an argument (`~m Create|Start` is one regular expression)
unless a blank or another question follows.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from interpose.core.model.text import printable, quoted
from interpose.dump.filter.terms import (
    BY_LETTER,
    BY_WORD,
    END_TERMS,
    SUBJECT_TERMS,
    FilterTerm,
    ParsedArgument,
    Test,
    Texts,
    parse_bare,
    term_list,
)
from interpose.dump.model.call import Flow
from interpose.errors import ConfigError

_LONGEST: Final = 10_000  # characters
_DEEPEST: Final = 50  # nested groups and negations
_SHOWN: Final = 60  # characters of a text before and behind a mistake

_WORD_START: Final = "|".join(map(re.escape, sorted(BY_WORD, key=len, reverse=True)))
_SPELLED: Final = re.compile(rf"({_WORD_START})(!=|=|(?=\s*[<>]))", re.IGNORECASE)
_FLAG: Final = re.compile(
    rf"({'|'.join(word for word, term in BY_WORD.items() if term.optional)})(?=[\s()&|]|$)", re.IGNORECASE
)
_LETTERS: Final = re.compile(r"~([A-Za-z]*)")
_BARE: Final = re.compile(r"[^\s()&|'\"]+")
# Inside of an argument these go on unless a question or nothing comes behind.
_JOINT: Final = re.compile(rf"[&|](?=\s|$|[~!)]|(?:{_WORD_START})(?:!=|[=<>]))", re.IGNORECASE)
_ALMOST: Final = re.compile(r"\w*(?:!=|[=<>])")  # a question, but none we know
_BLANKS: Final = re.compile(r"\s*")
_PLAIN: Final = re.compile(r"[\w.*+^$/:,-]+|[<>]=?[0-9]+[a-z]+")


class Filter:
    """Says of a call whether somebody wants to see it."""

    __slots__ = ()

    def matches(self, flow: Flow, texts: Texts) -> bool:
        """Whether it is wanted; `texts` is asked only if the filter looks into messages."""
        raise NotImplementedError

    def letters(self) -> frozenset[str]:
        """Letters of the terms the filter consists of."""
        raise NotImplementedError

    def needs_end(self) -> bool:
        """Whether only the end of a call, or its reply, tells if it is wanted."""
        return bool(self.letters() & END_TERMS)

    def needs_subject(self) -> bool:
        """Whether it asks whom a call is about."""
        return bool(self.letters() & SUBJECT_TERMS)


@dataclass(frozen=True, slots=True)
class Term(Filter):
    """One question. An empty letter is a word on its own."""

    letter: str
    argument: str
    test: Test = field(compare=False, repr=False)

    def matches(self, flow: Flow, texts: Texts) -> bool:
        return self.test(flow, texts)

    def letters(self) -> frozenset[str]:
        return frozenset({self.letter})

    def __str__(self) -> str:
        plain = _PLAIN.fullmatch(self.argument) and self.argument.lower() not in BY_WORD
        shown = self.argument if self.letter and plain else _in_quotes(self.argument)
        if not self.letter:
            return shown
        return f"~{self.letter} {shown}" if self.argument or not BY_LETTER[self.letter].optional else f"~{self.letter}"


@dataclass(frozen=True, slots=True)
class Not(Filter):
    """A filter that matches the calls another does not."""

    part: Filter

    def matches(self, flow: Flow, texts: Texts) -> bool:
        return not self.part.matches(flow, texts)

    def letters(self) -> frozenset[str]:
        return self.part.letters()

    def __str__(self) -> str:
        return f"!{_grouped(self.part)}"


@dataclass(frozen=True, slots=True)
class AllOf(Filter):
    """What matches each of them; without parts, everything."""

    parts: tuple[Filter, ...] = ()

    def matches(self, flow: Flow, texts: Texts) -> bool:
        return all(part.matches(flow, texts) for part in self.parts)

    def letters(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.letters() for part in self.parts))

    def __str__(self) -> str:
        return " & ".join(map(_grouped, self.parts))


@dataclass(frozen=True, slots=True)
class AnyOf(Filter):
    """What matches one of them at least."""

    parts: tuple[Filter, ...]

    def matches(self, flow: Flow, texts: Texts) -> bool:
        return any(part.matches(flow, texts) for part in self.parts)

    def letters(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.letters() for part in self.parts))

    def __str__(self) -> str:
        return " | ".join(map(_grouped, self.parts))


MATCH_ALL: Final = AllOf()


def parse_filter(text: str, *, now: int | None = None) -> Filter:
    """A filter; everything if the text is empty. ConfigError with the place of the mistake.

    `now` (nanoseconds since the epoch) is what `~since -10m` counts from.
    """
    return _Parser(text, now).whole()


def make_term(letter: str, argument: str, where: str, *, now: int | None = None) -> Filter:
    """One question whose argument comes from somewhere else, as a flag."""
    try:
        read = BY_LETTER[letter].parse(argument, now)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    return Term(letter, read.text, read.test)


def all_of(parts: Iterable[Filter]) -> Filter:
    """What matches each; parts that match everything anyway are left out."""
    return _joined(AllOf, [part for part in parts if part != MATCH_ALL])


def any_of(parts: Iterable[Filter]) -> Filter:
    """What matches one; everything if there are none."""
    return _joined(AnyOf, list(parts))


def _joined(kind: type[AllOf] | type[AnyOf], parts: list[Filter]) -> Filter:
    """Groups of the same kind become one, so that a filter has one form."""
    flat: list[Filter] = []
    for part in parts:
        flat += part.parts if isinstance(part, kind) else [part]
    return (flat[0] if len(flat) == 1 else kind(tuple(flat))) if flat else MATCH_ALL


def _grouped(part: Filter) -> str:
    return f"({part})" if isinstance(part, AllOf | AnyOf) else str(part)


def _in_quotes(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _Parser:
    """One text, from left to right."""

    def __init__(self, text: str, now: int | None) -> None:
        self._text = text
        self._now = now
        self._at = 0
        self._depth = 0

    def whole(self) -> Filter:
        """The whole text is one filter."""
        if len(self._text) > _LONGEST:
            raise self._error(_LONGEST, f"a filter has at most {_LONGEST} characters")
        if not self._next():
            return MATCH_ALL
        found = self._either()
        if self._next():
            raise self._error(self._at, "there is no ( for this )")
        return found

    def _either(self) -> Filter:
        parts = [self._all()]
        while self._next() == "|":
            self._at += 1
            parts.append(self._all())
        return _joined(AnyOf, parts)

    def _all(self) -> Filter:
        parts = [self._one()]
        while (char := self._next()) and char not in "|)":
            self._at += char == "&"
            parts.append(self._one())
        return _joined(AllOf, parts)

    def _one(self) -> Filter:
        start, char = self._at, self._next()
        if char in "!(" and char:
            return self._nested(char)
        if not char or char in "&|)":
            raise self._error(
                self._at if char else start, f"something to look for is missing here: a word, or {term_list()}"
            )
        if char == "~":
            return self._letter()
        if match := _SPELLED.match(self._text, self._at):
            return self._spelled(match)
        if match := _FLAG.match(self._text, self._at):
            return self._term(BY_WORD[match[1].lower()], self._at, match.end(), "")
        start = self._at
        word = self._quoted() if char in "'\"" else self._match(_BARE)
        if not word:
            raise self._error(start, "this word is empty")
        if char not in "'\"" and _ALMOST.match(word):
            raise self._error(
                start, f"{quoted(word)} is not a question; possible are {', '.join(BY_WORD)}, or put it into quotes"
            )
        return Term("", word, parse_bare(word, self._now).test)

    def _nested(self, char: str) -> Filter:
        start = self._at
        self._at += 1
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(start, f"more than {_DEEPEST} groups inside of each other")
        if char == "!":
            found: Filter = Not(self._one())
        else:
            found = self._either()
            if self._next() != ")":
                raise self._error(start, "the ) of this group is missing")
            self._at += 1
        self._depth -= 1
        return found

    def _letter(self) -> Filter:
        start = self._at
        letters = self._match(_LETTERS)[1:]
        asked = BY_LETTER.get(letters.lower())
        if asked is None:
            raise self._error(start, f"there is no ~{letters}; possible are {term_list()}")
        if asked.optional and not self._has_argument():
            return self._term(asked, start, self._at, "")
        self._next()
        at = self._at
        argument = self._argument(asked)
        if not argument:
            raise self._error(at, f"~{letters} wants {asked.argument}: {asked.meaning}")
        return self._term(asked, at, self._at, argument)

    def _spelled(self, match: re.Match[str]) -> Filter:
        asked = BY_WORD[match[1].lower()]
        if asked.compares and match[2]:
            raise self._error(match.start(2), f"{match[1]} is compared with < or >, as in {match[1]}{asked.argument}")
        if not asked.compares and not match[2]:
            raise self._error(match.end(), f"{match[1]} has no order; write {match[1]}={asked.argument}")
        self._at = match.end()
        at = self._skip() if asked.compares else self._at
        argument = self._argument(asked)
        if not argument:
            raise self._error(at, f"{match[1]}{match[2]} wants {asked.argument}: {asked.meaning}")
        found = self._term(asked, at, self._at, argument)
        return Not(found) if match[2] == "!=" else found

    def _has_argument(self) -> bool:
        """Whether a word comes that is not a question of its own."""
        at = self._skip()
        char = self._text[at : at + 1]
        if not char or char in "&|()!~":
            return False
        return not (_SPELLED.match(self._text, at) or _FLAG.match(self._text, at))

    def _term(self, asked: FilterTerm, at: int, behind: int, argument: str) -> Filter:
        self._at = behind
        try:
            read: ParsedArgument = asked.parse(argument, self._now)
        except ValueError as error:
            raise self._error(at, str(error)) from None
        return Term(asked.letter, read.text, read.test)

    # -- characters

    def _skip(self) -> int:
        match = _BLANKS.match(self._text, self._at)
        return match.end() if match else self._at

    def _next(self) -> str:
        """Go to the next character that is no blank; empty at the end."""
        self._at = self._skip()
        return self._text[self._at : self._at + 1]

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        found = match[0] if match else ""
        self._at += len(found)
        return found

    def _argument(self, asked: FilterTerm) -> str:
        """What belongs to a question; < and > may have blanks around them."""
        if not asked.compares:
            return self._piece()
        self._next()
        sign = self._piece()
        if sign.strip("<>="):
            return sign
        self._next()
        return sign + self._piece()

    def _piece(self) -> str:
        """A text in quotes, or everything up to a blank; parentheses in it come in pairs."""
        if self._text[self._at : self._at + 1] in ("&", "|"):
            return ""
        if self._text[self._at : self._at + 1] in ("'", '"'):
            return self._quoted()
        start, opened = self._at, 0
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "\\":
                self._at = min(self._at + 2, len(self._text))
                continue
            if char.isspace() or (not opened and (char == ")" or _JOINT.match(self._text, self._at))):
                break
            opened += (char == "(") - (char == ")")
            self._at += 1
        if opened:
            raise self._error(start, "a ) is missing in this; put it into quotes if it has blanks")
        return self._text[start : self._at]

    def _quoted(self) -> str:
        start, mark = self._at, self._text[self._at]
        found: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            char, behind = self._text[self._at], self._text[self._at + 1 : self._at + 2]
            if char == mark:
                self._at += 1
                return "".join(found)
            escaped = char == "\\" and behind in ("\\", mark)
            found.append(behind if escaped else char)
            self._at += 2 if escaped else 1
        raise self._error(start, "this quote is never closed")

    def _error(self, at: int, why: str) -> ConfigError:
        first = max(0, at - _SHOWN)
        shown = printable(self._text[first : at + _SHOWN])
        return ConfigError(f"filter: {why}\n  {shown}\n  {' ' * (at - first)}^")
