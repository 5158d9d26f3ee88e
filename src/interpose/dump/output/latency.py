"""How long calls took, method by method: the numbers, and bars on a scale on which each step is a factor.

Pure. What is kept is one number per call. Percentiles are those of calls that were made, never values in between.
Streams last as long as somebody looks: they are counted, but have no place on the scale.
"""

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from interpose.core.model.humanize import format_duration
from interpose.core.model.text import cut_middle, printable
from interpose.dump.model.call import Flow

BARS: Final = " ▁▂▃▄▅▆▇█"
ASCII_BARS: Final = " .:-=+*#@"
_PER_DECADE: Final = 10  # steps of the scale for a factor of ten, before they are made to fit
_LEAST_BARS: Final = 24
_MOST_BARS: Final = 60
_LONGEST_NAME: Final = 25
_HEADS: Final = ("CALLS", "ERRORS", "MIN", "P50", "P90", "P99", "MAX")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """One method. Durations are nanoseconds, sorted; those of streams and of calls that are not over are not there."""

    method: str
    calls: int
    errors: int
    unfinished: int
    stream: bool
    durations: Sequence[int]

    def percentile(self, percent: float) -> int | None:
        """The duration that so many percent of the calls did not exceed; None without any."""
        if not self.durations:
            return None
        return self.durations[max(math.ceil(len(self.durations) * percent / 100), 1) - 1]


class LatencyCounter:
    """Counts calls and their durations by method."""

    def __init__(self) -> None:
        self._durations: dict[str, array[int]] = {}
        self._errors: dict[str, int] = {}
        self._unfinished: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._streams: set[str] = set()

    def add(self, flow: Flow) -> None:
        name = flow.method_name
        self._calls[name] = self._calls.get(name, 0) + 1
        self._errors[name] = self._errors.get(name, 0) + flow.failed
        self._unfinished[name] = self._unfinished.get(name, 0) + (flow.end is None)
        if flow.method is not None and flow.method.server_streaming:
            self._streams.add(name)
        elif flow.duration is not None:
            self._durations.setdefault(name, array("Q")).append(flow.duration)

    def rows(self) -> list[LatencyRow]:
        """The methods, those that took most time in all first, streams last."""
        rows = [
            LatencyRow(
                method=name,
                calls=calls,
                errors=self._errors[name],
                unfinished=self._unfinished[name],
                stream=name in self._streams,
                durations=sorted(self._durations.get(name, ())),
            )
            for name, calls in self._calls.items()
        ]
        return sorted(rows, key=lambda row: (row.stream, -sum(row.durations), row.method))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Where durations lie: `steps` between `first` and `last`, which are powers of ten, in nanoseconds."""

    first: int
    last: int
    steps: int

    def step(self, nanoseconds: int) -> int:
        """The step of a duration; what is outside counts to the nearest."""
        place = math.log10(max(nanoseconds, 1)) - math.log10(self.first)
        return min(max(int(place / self._decades * self.steps), 0), self.steps - 1)

    def counts(self, durations: Sequence[int]) -> list[int]:
        """How many lie in each step."""
        counts = [0] * self.steps
        for duration in durations:
            counts[self.step(duration)] += 1
        return counts

    def marks(self) -> list[tuple[float, str]]:
        """The powers of ten: the place between 0 and 1, and the name."""
        return [(n / self._decades, _decade(self.first * 10**n)) for n in range(round(self._decades) + 1)]

    @property
    def _decades(self) -> float:
        return math.log10(self.last) - math.log10(self.first)


def _decade(nanoseconds: int) -> str:
    """`10ms`: a power of ten without digits behind the point."""
    for unit, factor in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if nanoseconds >= factor:
            return f"{nanoseconds // factor}{unit}"
    return f"{nanoseconds}ns"


def scale_of(rows: Sequence[LatencyRow], steps: int | None = None) -> Scale | None:
    """A scale for all of them, in whole powers of ten; None if nothing was measured."""
    measured = [row.durations for row in rows if row.durations]
    if not measured:
        return None
    low = math.floor(math.log10(max(min(durations[0] for durations in measured), 1)))
    high = math.ceil(math.log10(max(max(durations[-1] for durations in measured), 1) + 1))
    high = max(high, low + 1)
    return Scale(first=10**low, last=10**high, steps=steps or (high - low) * _PER_DECADE)


def latency_lines(rows: Sequence[LatencyRow], *, width: int, ascii_only: bool = False) -> list[str]:
    """A table with bars; each method's highest bar is the step where most of its calls are."""
    if not rows:
        return ["No calls."]
    table = [("METHOD", *_HEADS)] + [_cells(row) for row in rows]
    if ascii_only:
        table = [tuple(cell.replace("µ", "u").replace("…", "~") for cell in line) for line in table]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(
            cell.ljust(wide) if column == 0 else cell.rjust(wide) for column, (cell, wide) in _places(line, widths)
        )
        for line in table
    ]
    left = len(lines[0]) + 2
    scale = scale_of(rows, min(max(width - left - 1, _LEAST_BARS), _MOST_BARS))
    bars = ASCII_BARS if ascii_only else BARS
    plots = ["" if scale is None else _axis(scale, ascii_only=ascii_only)]
    for row in rows:
        plot = _bar_text(scale.counts(row.durations), bars) if scale is not None and row.durations else ""
        plots.append(f"{plot}  {_remark(row)}" if plot else _remark(row))
    return [f"{line}  {plot}".rstrip() for line, plot in zip(lines, plots, strict=True)]


def _places(line: Sequence[str], widths: Sequence[int]) -> "enumerate[tuple[str, int]]":
    return enumerate(zip(line, widths, strict=True))


def _cells(row: LatencyRow) -> tuple[str, ...]:
    numbers = [format_duration(row.percentile(percent)) or "-" for percent in (0, 50, 90, 99, 100)]
    return (cut_middle(printable(row.method), _LONGEST_NAME), str(row.calls), str(row.errors or "-"), *numbers)


def _remark(row: LatencyRow) -> str:
    """Why calls are missing in the numbers."""
    facts = ["stream"] * row.stream + [f"{row.unfinished} not over"] * bool(row.unfinished)
    return f"({', '.join(facts)})" if facts else ""


def _bar_text(counts: Sequence[int], bars: str) -> str:
    most = max(counts) or 1
    # A single call among thousands is still to be seen.
    return "".join(bars[math.ceil(count / most * (len(bars) - 1))] for count in counts)


def _axis(scale: Scale, *, ascii_only: bool) -> str:
    """The names of powers of ten at their places, as many as there is room for."""
    line = ""
    for place, name in scale.marks():
        at = min(round(place * scale.steps), scale.steps - len(name) + 1)
        if at >= len(line) + bool(line):
            line = line.ljust(at) + name
    return line.replace("µ", "u") if ascii_only else line


def summary(rows: Sequence[LatencyRow]) -> Mapping[str, int]:
    """Counts over all methods together."""
    return {
        "methods": len(rows),
        "calls": sum(row.calls for row in rows),
        "errors": sum(row.errors for row in rows),
        "unfinished": sum(row.unfinished for row in rows),
    }


_WIDTH: Final = 1180
_LEFT: Final = 230  # where the scale begins
_RIGHT: Final = 330  # room for the numbers behind it
_TOP: Final = 84
_LANE: Final = 44
_BARS: Final = 34  # height of the highest bar
_STEPS: Final = 90
_FONT: Final = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'
_INK: Final = "#22303c"
_FAINT: Final = "#667788"
_LINE: Final = "#d5dde5"
_BAR: Final = "#5b8fd6"
_MIDDLE: Final = "#1f4f91"
_SLOW: Final = "#c2452d"
_LONGEST_LABEL: Final = 28


def latency_svg(rows: Sequence[LatencyRow], title: str) -> str:
    """The latencies of methods as an SVG drawing."""
    height = _TOP + _LANE * max(len(rows), 1) + 30
    return "\n".join([*_frame(rows, title, height), *_body(rows, height), "</svg>", ""])


def _frame(rows: Sequence[LatencyRow], title: str, height: int) -> Iterator[str]:
    total = summary(rows)
    shown = escape(printable(title))
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img">'
    yield f"<title>{shown}</title>"
    yield f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>'
    yield _text(20, 30, cut_middle(printable(title), 110), size=16, weight="bold")
    facts = f"{total['calls']} calls of {total['methods']} methods, {total['errors']} failed"
    yield _text(20, 50, facts, size=12, fill=_FAINT)


def _body(rows: Sequence[LatencyRow], height: int) -> Iterator[str]:
    scale = scale_of(rows, _STEPS)
    if scale is not None:
        for place, name in scale.marks():
            x = _x(place)
            yield f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{height - 24}" stroke="{_LINE}"/>'
            yield _text(x, _TOP - 12, name, size=11, fill=_FAINT, anchor="middle")
    for head, x, colour in (("calls", 60, _FAINT), ("p50", 145, _MIDDLE), ("p99", 220, _SLOW), ("max", 295, _FAINT)):
        yield _text(_WIDTH - _RIGHT + x, _TOP - 12, head, size=11, fill=colour, anchor="end")
    for index, row in enumerate(rows):
        yield from _lane(row, scale, _TOP + index * _LANE)


def _lane(row: LatencyRow, scale: Scale | None, top: float) -> Iterator[str]:
    bottom = top + _BARS
    name = cut_middle(printable(row.method), _LONGEST_LABEL)
    yield "<g>"
    facts = f"{row.calls} calls, {row.errors} failed, {row.unfinished} not over"
    yield f"<title>{escape(printable(row.method))}: {facts}</title>"
    yield _text(20, bottom - 10, name, size=13)
    yield f'<line x1="{_LEFT}" y1="{bottom}" x2="{_WIDTH - _RIGHT}" y2="{bottom}" stroke="{_LINE}"/>'
    if scale is not None and row.durations:
        yield from _bars(scale.counts(row.durations), bottom)
        for percent, colour in ((50, _MIDDLE), (99, _SLOW)):
            x = _x((scale.step(row.percentile(percent) or 0) + 0.5) / scale.steps)
            yield f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" stroke-width="2"/>'
    yield from _numbers(row, bottom - 10)
    yield "</g>"


def _bars(counts: Sequence[int], bottom: float) -> Iterator[str]:
    most = max(counts)
    wide = _x(1 / len(counts)) - _x(0)
    for index, count in enumerate(counts):
        if count:
            high = max(count / most * _BARS, 2)
            x = _x(index / len(counts))
            place = f'x="{x:.1f}" y="{bottom - high:.1f}" width="{wide - 0.6:.1f}" height="{high:.1f}"'
            yield f'<rect {place} fill="{_BAR}"/>'


def _numbers(row: LatencyRow, y: float) -> Iterator[str]:
    yield _text(_WIDTH - _RIGHT + 60, y, str(row.calls), size=12, anchor="end", fill=_SLOW if row.errors else _INK)
    for percent, x, colour in ((50, 145, _MIDDLE), (99, 220, _SLOW), (100, 295, _INK)):
        text = "stream" if row.stream and percent == 50 else format_duration(row.percentile(percent)) or "-"
        yield _text(_WIDTH - _RIGHT + x, y, text, size=12, anchor="end", fill=colour)


def _x(place: float) -> float:
    return _LEFT + place * (_WIDTH - _LEFT - _RIGHT)


def _text(
    x: float, y: float, text: str, *, size: int, fill: str = _INK, anchor: str = "start", weight: str = "normal"
) -> str:
    # A file must be readable with any encoding, and names can hold what none can write.
    shown = escape(text).encode("ascii", "xmlcharrefreplace").decode()
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" {_FONT} fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{shown}</text>'
    )
