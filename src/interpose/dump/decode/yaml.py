"""Trees of plain values as YAML, the way Go programs write it.

Block style, sorted keys, two blanks per level, the items of a list below their key. A text is quoted if YAML 1.1 or 1.2
would read it as something else, and only then; clean texts of several lines are literal blocks.

Pure, and without recursion. Invariant: what a YAML parser makes of the text is the tree again. Only what is nested
deeper than any message can be is left out, and said so.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

# Protobuf itself stops at 100 levels.
MAX_DEPTH: Final = 250
TOO_DEEP: Final = '"(nested too deeply to be shown)"'
_INDENT: Final = "  "
_NESTED: Final = (dict, list, tuple)
# A key must be found within 1024 characters; a longer one is announced.
_LONGEST_KEY: Final = 1000

# What most texts look like, so that the other questions need not be asked.
_SIMPLE: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.-]*")
_WORDS: Final = frozenset(
    form
    for word in ("y", "yes", "n", "no", "true", "false", "on", "off", "null")
    for form in (word, word.capitalize(), word.upper())
)
_OTHER_WORDS: Final = frozenset({"~", "=", "<<", "-", "?", ":"})
_NUMBER: Final = re.compile(
    r"""[-+]?(?:0b[01_]+ | 0o?[0-7_]+ | 0x[0-9a-fA-F_]+
    | [0-9][0-9_]*(?::[0-9]+)*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?
    | \.[0-9_]+(?:[eE][-+]?[0-9]+)?
    | \.(?:inf|Inf|INF|nan|NaN|NAN))""",
    re.VERBOSE,
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?")
# At its beginning such a character means something; the last three only with a blank behind them.
_BEGINNING: Final = re.compile(r"[ ,\[\]{}#&*!|>'\"%@`]|[-?:] |---|\.\.\.")
_INSIDE: Final = re.compile(r": | #")
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def yaml_text(tree: Any) -> str:
    """The tree as YAML, with a line end behind every line."""
    return "\n".join(yaml_lines(tree)) + "\n"


def yaml_lines(tree: Any) -> list[str]:
    """The tree as lines of YAML."""
    lines: list[str] = []
    if not tree or not isinstance(tree, _NESTED):
        _put(lines, "", "", tree)
        return lines
    # Lists and maps that are begun: what is left of them, their indent, and what the next line begins with.
    begun = [(_entries(tree), "", "")]
    while begun:
        entries, pad, start = begun.pop()
        for lead, value in entries:
            if lead.startswith("? "):
                lines.append(start + lead)
                lead, start = ":", pad
            if not value or not isinstance(value, _NESTED):
                _put(lines, start + lead, pad, value)
                start = pad
                continue
            begun.append((entries, pad, pad))
            if len(begun) >= MAX_DEPTH:
                lines.append(f"{start}{lead} {TOO_DEEP}")
            elif lead == "-":
                begun.append((_entries(value), pad + _INDENT, f"{start}- "))
            else:
                lines.append(start + lead)
                inner = pad + _INDENT if isinstance(value, dict) else pad
                begun.append((_entries(value), inner, inner))
            break
    return lines


def _entries(tree: Any) -> Iterator[tuple[str, Any]]:
    """What each line of a map or list begins with, and its value."""
    if isinstance(tree, dict):
        return ((_key(key), tree[key]) for key in sorted(tree))
    return (("-", value) for value in tree)


def _put(lines: list[str], lead: str, pad: str, value: Any) -> None:
    """What is written behind its key or dash: a scalar, or nothing at all in brackets."""
    if isinstance(value, str) and "\n" in value and _is_clean(value):
        lines.append(f"{lead} |" if value[-1] == "\n" else f"{lead} |-")
        lines += [f"{pad}{_INDENT}{line}" if line else "" for line in value.removesuffix("\n").split("\n")]
    else:
        lines.append(f"{lead} {scalar(value)}")
    if not lead:
        lines[0] = lines[0].removeprefix(" ")


def _key(key: str) -> str:
    text = quoted_if_needed(key)
    return f"{text}:" if len(text) <= _LONGEST_KEY else f"? {text}"


def _is_clean(text: str) -> bool:
    """Whether a text of several lines looks in a literal block as it is."""
    lines = text.removesuffix("\n").split("\n")
    # The indent of a block is that of its first line; blanks behind a line would not be seen.
    if not lines[0] or not lines[-1] or lines[0][0] in " \t":
        return False
    return all(line.replace("\t", "").isprintable() and line.rstrip(" \t") == line for line in lines)


def scalar(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, str):
        return quoted_if_needed(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    return quoted_if_needed(str(value))


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # YAML 1.1 takes an exponent for a number only behind a point.
    return text if "." in text else text.replace("e", ".0e")


def quoted_if_needed(text: str) -> str:
    """A text as a plain scalar, in single quotes if that would be read wrongly, in double quotes if it needs escapes.

    What would be read as a number, a date, true, false or null gets double quotes.
    """
    if _SIMPLE.fullmatch(text):
        return f'"{text}"' if text in _WORDS else text
    if not text:
        return '""'
    if not text.isprintable():
        return '"' + "".join(_escaped(char) for char in text) + '"'
    if text in _OTHER_WORDS or _NUMBER.fullmatch(text) or _DATE.fullmatch(text):
        return f'"{text}"'
    if _BEGINNING.match(text) or text[-1] in " :" or _INSIDE.search(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
