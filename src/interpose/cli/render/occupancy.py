"""Who had which CPUs alone, along time: one line for CPUs with the same story, one column for a piece of time.

    CPU    09:00                  10:00
    0-1    ························
    2-3    ··AAAAAAAAA·············
           A  default/db/app  2-3

A column shows whoever had the CPU longest in it. Containers have letters in order of their coming.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from interpose.cli.render.owners import LETTERS, MORE
from interpose.cli.render.text import WIDTH, cut, padded, plain, strided
from interpose.core.model.cpuset import EMPTY, CpuSet

_FEWEST: Final = 20  # columns
_LABEL: Final = 24  # the widest name of CPUs
_NOBODY: Final = "·"
_ASCII_NOBODY: Final = "."
_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400


def occupancy_text(
    stays: Sequence[Mapping[str, Any]],
    cpus: CpuSet,
    began_ns: int,
    ended_ns: int,
    *,
    width: int = WIDTH,
    ascii_only: bool = False,
) -> str:
    """The picture; times are in UTC."""
    nobody = _ASCII_NOBODY if ascii_only else _NOBODY
    letters = _letters(stays)
    groups = _groups(stays, cpus)
    labels = ["CPU", *(cut(strided(group), _LABEL) for group, _ in groups)]
    left = max(map(len, labels)) + 2
    columns = max(width - left, _FEWEST)
    lines = [padded("CPU", left) + _axis(began_ns, ended_ns, columns)]
    for label, (_, mine) in zip(labels[1:], groups, strict=True):
        lines.append(padded(label, left) + _line(mine, letters, began_ns, ended_ns, columns, nobody))
    lines += [" " * left + line for line in _legend(stays, letters, width - left, ascii_only)]
    return "\n".join(lines)


def _letters(stays: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    titles = dict.fromkeys(plain(one.get("container")) for one in stays)
    return {title: LETTERS[place] if place < len(LETTERS) else MORE for place, title in enumerate(titles)}


def _groups(stays: Sequence[Mapping[str, Any]], cpus: CpuSet) -> list[tuple[CpuSet, list[Mapping[str, Any]]]]:
    """CPUs of which the very same is to be told, by their first."""
    story: dict[int, list[int]] = {cpu: [] for cpu in cpus}
    for place, one in enumerate(stays):
        for cpu in _cpus(one.get("cpus")) & cpus:
            story[cpu].append(place)
    alike: dict[tuple[int, ...], list[int]] = {}
    for cpu, places in story.items():
        alike.setdefault(tuple(places), []).append(cpu)
    return [(CpuSet.of(members), [stays[place] for place in places]) for places, members in alike.items()]


def _line(
    stays: Sequence[Mapping[str, Any]],
    letters: Mapping[str, str],
    began: int,
    ended: int,
    columns: int,
    nobody: str,
) -> str:
    longest = [0] * columns
    line = [nobody] * columns
    span = max(ended - began, 1)
    for one in stays:
        since, until = int(one.get("since_ns", began)), int(one.get("until_ns", ended))
        first, last = (min(max((time - began) * columns // span, 0), columns - 1) for time in (since, until))
        for column in range(first, last + 1):
            start, end = began + column * span // columns, began + (column + 1) * span // columns
            inside = min(until, end) - max(since, start)
            if inside > longest[column] and 2 * inside >= end - start:
                longest[column] = inside
                line[column] = letters[plain(one.get("container"))]
        if line[first] == nobody and until > since:
            line[first] = letters[plain(one.get("container"))]  # too short to be seen, but it was there
    return "".join(line)


def _axis(began: int, ended: int, columns: int) -> str:
    first, last = clock(began), clock(ended)
    return first + last.rjust(max(columns - len(first), len(last) + 1))


def clock(time_ns: int) -> str:
    """The time of day in UTC, to the second."""
    seconds = time_ns // _SECOND % _DAY
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _legend(stays: Sequence[Mapping[str, Any]], letters: Mapping[str, str], width: int, ascii_only: bool) -> list[str]:
    had: dict[str, CpuSet] = {}
    for one in stays:
        title = plain(one.get("container"))
        had[title] = had.get(title, EMPTY) | _cpus(one.get("cpus"))
    lines = []
    for title, cpus in had.items():
        line = f"{letters[title]}  {title}  {cpus}"
        lines.append(line if ascii_only else cut(line, max(width, _FEWEST)))
    return lines


def _cpus(text: object) -> CpuSet:
    try:
        return CpuSet.parse(text) if isinstance(text, str) else EMPTY
    except ValueError:
        return EMPTY
