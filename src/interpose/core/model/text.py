"""Foreign text inside messages of ours, text cut to a width, and suggestions for misspelt words.

Invariant: `printable`, `escaped` and `quoted` return one line that cannot move a cursor.
"""

from collections.abc import Iterable
from itertools import takewhile
from typing import Final

_SHOWN: Final = 80
_MAX_GUESSED: Final = 64  # characters; no word of ours is longer, and looking for what is alike takes its time
_ALIKE: Final = 0.6  # what difflib calls close
_MISSPELT: Final = 0.75  # flags are many, and end alike: --options-file is not --pid-file


def printable(text: str) -> str:
    """Text on one line with a question mark for each character that is not printable."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def escaped(text: str) -> str:
    """Text on one line, in escape sequences of Python if a character of it is not printable."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def quoted(text: str) -> str:
    """Text in quotes, on one line and not longer than a line."""
    return repr(str(text) if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def cut_end(text: str, width: int) -> str:
    """Text with its end left out if it is longer than `width`."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…" * (width > 0)


def cut_middle(text: str, width: int) -> str:
    """Text with its middle left out if it is longer than `width`: names differ least there."""
    if len(text) <= width:
        return text
    tail = max(width - 1, 0) * 2 // 3
    return f"{text[: max(width - 1 - tail, 0)]}…{text[len(text) - tail :]}"


def closest(word: str, known: Iterable[str], alike: float = _ALIKE) -> str:
    """The known word that is most like this one, whatever its case; empty if none is much like it."""
    if len(word) > _MAX_GUESSED:
        return ""
    import difflib  # only a mistake needs it

    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=alike)
    return by_folded[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word; empty if there is no similar word."""
    close = closest(word, known)
    return f", did you mean {close}?" if close else ""


def closest_flag(flag: str, known: Iterable[str]) -> str:
    """The same for flags: a misspelt one, or one of which words were left out; empty if there is none."""
    flags = tuple(known)
    if close := closest(flag, flags, _MISSPELT):
        return close
    words = set(flag.casefold().split("-"))
    return closest(flag, (name for name in flags if words < set(name.casefold().split("-"))))


def one_edit_apart(one: str, other: str) -> bool:
    """Whether a character that is missing, too many, wrong, or swapped with the next makes one word of the other."""
    head = sum(1 for _ in takewhile(bool, map(str.__eq__, one, other)))
    mine, theirs = one[head:], other[head:]
    swapped = mine[:2] == theirs[:2][::-1] and mine[2:] == theirs[2:]
    return mine != theirs and (swapped or mine == theirs[1:] or mine[1:] in (theirs, theirs[1:]))
