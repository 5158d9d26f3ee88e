"""Pages of the documentation as sessions: their files, their commands, and what these are said to print.

A file is a block of code whose first line is a comment with its name; a command is a line that begins with `$ ` in a
block of its kind, and the lines up to the next one are what it prints, where `...` stands for any lines. What differs
from run to run (times, addresses, ids, sizes, blanks between columns) is the same for `fits`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_FILE: Final = re.compile(r"^```\w*\n(# ([\w.-]+\.[a-z]+)\n.*?)^```$", re.MULTILINE | re.DOTALL)
_SESSION: Final = re.compile(r"^```\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
_ANY: Final = "..."
_CHANGING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)?(ms|s|m|h|d)(\d+(ms|s|m|h))?\b"), "AGE"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "ID"),
    (re.compile(r"\b\d+(\.\d+)? ([KMG]i)?B\b"), "SIZE"),
    (re.compile(r"\b(pid|uptime seconds)(\s+)\d+(\.\d+)?\b"), r"\1 NUMBER"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is typed, and what is printed then."""

    line: str
    printed: tuple[str, ...]


def files_of(page: str) -> dict[str, str]:
    """Texts by the names of the files."""
    return {name: text for text, name in _FILE.findall(page)}


def commands_of(page: str) -> Iterator[Command]:
    """In the order of the page; a line that ends with a backslash goes on in the next one."""
    for block in _SESSION.findall(page):
        parts: list[tuple[str, list[str]]] = []
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                parts.append((line[2:], []))
            else:
                parts[-1][1].append(line)
        for typed, printed in parts:
            yield Command(line=typed, printed=tuple(printed))


def fits(printed: Sequence[str], found: Sequence[str]) -> bool:
    """Whether this is what the page says."""
    pattern = "".join("(?:.*\n)*?" if line.strip() == _ANY else re.escape(normal(line)) + "\n" for line in printed)
    return re.fullmatch(pattern, "".join(f"{normal(line)}\n" for line in found)) is not None


def normal(line: str) -> str:
    """A line without what changes."""
    for changing, word in _CHANGING:
        line = changing.sub(word, line)
    return line.strip()
