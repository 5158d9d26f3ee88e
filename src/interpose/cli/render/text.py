"""What all views share: amounts in words, columns that fit the line, and foreign text made printable.

A line is never wider than asked for unless a single value is. Widths count what is seen: colours do not.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any, Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.text import cut_middle, printable

WIDTH: Final = 100  # of tables, where nobody says how wide the terminal is
_COLOUR: Final = re.compile("\x1b\\[[0-9;]*m")
_LONG_LIST: Final = 24
_LEAST_CUT: Final = 16  # columns a name keeps at least when lines are too long
_LEAST_WRAPPED: Final = 12


def or_dash(value: object) -> str:
    """A value as printable text on one line; a dash for None and for empty text."""
    return "-" if value is None or value == "" else printable(str(value))


def amount(count: int, thing: str, things: str = "") -> str:
    """A number and its noun: 1 core, 2 cores."""
    return f"{count} {thing if count == 1 else things or thing + 's'}"


def cpu_amount(milli: object) -> str:
    """Thousandths of a CPU as Kubernetes writes them: 2, 500m, and a dash for none."""
    if not isinstance(milli, int) or milli == 0:
        return "-"
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def strided(cpus: CpuSet) -> str:
    """CPUs in the kernel's form, with strides if that is much shorter: 0-108:1/4 is every 4th from 0 to 108."""
    text, numbers = str(cpus), list(cpus)
    if len(text) <= _LONG_LIST:
        return text
    step = numbers[1] - numbers[0]
    runs = [[numbers[0]]]
    for last, number in pairwise(numbers):
        if number - last == step:
            runs[-1].append(number)
        else:
            runs.append([number])
    short = ",".join(f"{run[0]}-{run[-1]}:1/{step}" if len(run) > 1 else str(run[0]) for run in runs)
    return short if step > 1 and len(short) < len(text) else text


def visible_width(text: str) -> int:
    """How wide a text is."""
    return len(_COLOUR.sub("", text))


def padded(text: str, width: int) -> str:
    """A text with blanks behind it."""
    return text + " " * (width - visible_width(text))


def wrapped(text: str, width: int, mark: str = ",") -> list[str]:
    """A text in lines, broken behind marks only."""
    lines = [""]
    pieces = text.split(mark)
    for index, piece in enumerate(pieces):
        part = piece + mark * (index < len(pieces) - 1)
        if lines[-1] and len((lines[-1] + part).rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def sentence(text: str, indent: str, width: int = WIDTH) -> list[str]:
    """Prose, indented and broken between words."""
    return [indent + line for line in wrapped(text, width - len(indent), " ")]


def table(
    rows: Sequence[Sequence[str]],
    *,
    width: int = WIDTH,
    indent: str = "",
    name: int = 0,
    lists: Sequence[int] = (),
) -> list[list[str]]:
    """Aligned columns; each row is the lines it needs. The first row is the header.

    If a line would be too long, lists of numbers in the columns `lists` go on in the next line, then the column `name`
    is cut.
    """
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    too_long = len(indent) + sum(widths) + 2 * (len(widths) - 1) - width
    while too_long > 0 and any(widths[column] > _LEAST_WRAPPED for column in lists):
        widths[max(lists, key=widths.__getitem__)] -= 1
        too_long -= 1
    if too_long > 0:
        widths[name] = max(min(widths[name], _LEAST_CUT), widths[name] - too_long)
    return [_row(row, widths, indent, name, lists) for row in rows]


def _row(row: Sequence[str], widths: Sequence[int], indent: str, name: int, lists: Sequence[int]) -> list[str]:
    cells = [
        wrapped(cell, widths[index]) if index in lists else [cut_middle(cell, widths[index]) if index == name else cell]
        for index, cell in enumerate(row)
    ]
    return [
        (indent + "  ".join(padded(cell, width) for cell, width in zip(line, widths, strict=True))).rstrip()
        for line in zip_longest(*cells, fillvalue="")
    ]


def flat(rows: Iterable[Iterable[str]]) -> list[str]:
    """All lines of a table."""
    return [line for row in rows for line in row]


# -- answers of a relay, which may be of another version


def group(value: object) -> Mapping[str, Any]:
    """A group of keys; an empty one if it is something else."""
    return value if isinstance(value, Mapping) else {}


def groups(value: object) -> list[Mapping[str, Any]]:
    """A list of groups; what is none is left out."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def words(value: object) -> list[str]:
    """A list of values as printable texts; empty if it is no list."""
    return [or_dash(item) for item in value] if isinstance(value, list) else []
