"""What changed between two messages, as lines of their YAML.

Pure, and bounded: where looking for the shortest difference would take long, everything between the first and the last
line that differ is shown as replaced.
"""

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from interpose.dump.decode.yaml import yaml_lines

CONTEXT: Final = 3
BETWEEN: Final = "@@"
# Pairs of equal lines that are compared: the work grows with them, not with the lines.
_MOST_PAIRS: Final = 200_000

# What happened, and from where to where in the lines before and after.
_Step = tuple[str, int, int, int, int]


def yaml_diff(before: Any, after: Any) -> list[str]:
    """Lines that begin with two blanks, `- ` or `+ `; `@@` stands where lines that are the same were left out.

    Empty if there is no difference.
    """
    return line_diff(yaml_lines(before), yaml_lines(after))


def line_diff(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The changed lines with their context, marked `-` and `+`."""
    if old == new:
        return []
    steps = _steps(old, new)
    lines: list[str] = []
    for place, (what, old_from, old_to, new_from, new_to) in enumerate(steps):
        if what == "equal":
            lines += _same(old[old_from:old_to], first=place == 0, last=place == len(steps) - 1)
        else:
            lines += [f"- {line}" for line in old[old_from:old_to]]
            lines += [f"+ {line}" for line in new[new_from:new_to]]
    return lines


def _same(lines: Sequence[str], *, first: bool, last: bool) -> list[str]:
    """What is shown of lines that did not change: those next to a change."""
    before = [] if first else [f"  {line}" for line in lines[:CONTEXT]]
    after = [] if last else [f"  {line}" for line in lines[-CONTEXT:]]
    if first or last:
        return before + after
    if len(lines) <= 2 * CONTEXT:
        return [f"  {line}" for line in lines]
    return [*before, BETWEEN, *after]


def _steps(old: Sequence[str], new: Sequence[str]) -> list[_Step]:
    """From old to new, beginning and end that are the same taken off before anything is compared."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    most = shorter - head
    tail = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    old_end, new_end = len(old) - tail, len(new) - tail
    steps: list[_Step] = [("equal", 0, head, 0, head)] if head else []
    if _pairs(old[head:old_end], new[head:new_end]) > _MOST_PAIRS:
        steps.append(("replace", head, old_end, head, new_end))
    else:
        matcher = difflib.SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
        steps += [(what, a + head, b + head, c + head, d + head) for what, a, b, c, d in matcher.get_opcodes()]
    if tail:
        steps.append(("equal", old_end, len(old), new_end, len(new)))
    return steps


def _pairs(old: Sequence[str], new: Sequence[str]) -> int:
    count = Counter(new)
    return sum(count[line] for line in old)
