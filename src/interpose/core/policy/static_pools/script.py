"""Where a script calls `cmk isolate`, by the shell's rules for words, as far as these are needed to find it.

A call is where a command can begin: at the start, behind what ends a command, behind words such as `then` and `exec`,
behind assignments and redirections. Text in quotes and comments are no calls. Everything else that reads like one is
told apart, so that nobody takes it for nothing. Cost: proportional to the text, whatever is in it.
"""

import re
from dataclasses import dataclass
from typing import Final

# A path before the name is fine.
PROGRAM: Final = re.compile(r"(?:[^\s;&|()'\"]*/)?cmk")
ISOLATE: Final = "isolate"

# A line that ends in a backslash goes on in the next one. A quote that is never closed goes on to the end.
_TOKEN: Final = re.compile(
    r"""(?P<blank>(?:[ \t\r\f\v]|\\\r?\n)++)
      | (?P<comment>\#[^\n]*+)
      | (?P<end>[;&|()\n])
      | (?P<word>(?:[^\s;&|()'"\\]|\\.?|'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.?)*+(?:"|\Z))++)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
# Behind these a command begins as well.
_BEFORE: Final = frozenset(("!", "{", "if", "then", "elif", "else", "while", "until", "do", "time", "exec"))
_ALSO_BEFORE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*|\d*[<>].*", re.ASCII | re.DOTALL)
_QUOTES: Final = re.compile(r"""\\\n|'([^']*)'?|"((?:[^"\\]|\\.)*)"?|\\(.)""", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of a script, with its quotes."""

    text: str
    start: int
    end: int

    @property
    def value(self) -> str:
        """As a program gets it."""
        return _QUOTES.sub(lambda found: found[1] or found[2] or found[3] or "", self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of `cmk isolate` in a script."""

    start: int  # of the call in the text
    words: tuple[Word, ...]  # behind it, up to the end of the command


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a script has of calls."""

    calls: tuple[Call, ...] = ()
    strange: bool = False  # there is text that reads like a call, where no command begins


def find_calls(script: str) -> Found:
    """All calls in a script."""
    if "cmk" not in script or ISOLATE not in script:
        return Found()
    calls: list[Call] = []
    strange = False
    for words in _commands(script):
        begin = next((at for at, word in enumerate(words) if not _goes_before(word.text)), len(words))
        for at, word in enumerate(words[:-1]):
            if not PROGRAM.fullmatch(word.text) or words[at + 1].text != ISOLATE:
                continue
            if at == begin:
                calls.append(Call(start=word.start, words=tuple(words[at + 2 :])))
                break
            strange = True
    return Found(calls=tuple(calls), strange=strange)


def _commands(script: str) -> list[list[Word]]:
    """The words of a script by command."""
    commands: list[list[Word]] = [[]]
    for token in _TOKEN.finditer(script):
        if token.lastgroup == "word":
            commands[-1].append(Word(text=token[0], start=token.start(), end=token.end()))
        elif token.lastgroup == "end":
            commands.append([])
    return commands


def _goes_before(word: str) -> bool:
    return word in _BEFORE or _ALSO_BEFORE.fullmatch(word) is not None
