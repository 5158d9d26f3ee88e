"""How long calls took, as a drawing: one SVG file that needs nothing else.

Pure. One lane per method on one scale, on which each step is a factor; the middle and the 99th of a hundred are marked.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from interpose.dump.output.humanize import cut_middle, duration, plain
from interpose.dump.output.latency import Row, Scale, scale_of, summary

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
_LONGEST_NAME: Final = 28


def latency_svg(rows: Sequence[Row], title: str) -> str:
    """The drawing."""
    height = _TOP + _LANE * max(len(rows), 1) + 30
    return "\n".join([*_frame(rows, title, height), *_body(rows, height), "</svg>", ""])


def _frame(rows: Sequence[Row], title: str, height: int) -> Iterator[str]:
    total = summary(rows)
    shown = escape(plain(title))
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" role="img">'
    yield f"<title>{shown}</title>"
    yield f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>'
    yield _text(20, 30, cut_middle(plain(title), 110), size=16, weight="bold")
    facts = f"{total['calls']} calls of {total['methods']} methods, {total['errors']} failed"
    yield _text(20, 50, facts, size=12, fill=_FAINT)


def _body(rows: Sequence[Row], height: int) -> Iterator[str]:
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


def _lane(row: Row, scale: Scale | None, top: float) -> Iterator[str]:
    bottom = top + _BARS
    name = cut_middle(plain(row.method), _LONGEST_NAME)
    yield "<g>"
    facts = f"{row.calls} calls, {row.errors} failed, {row.unfinished} not over"
    yield f"<title>{escape(plain(row.method))}: {facts}</title>"
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


def _numbers(row: Row, y: float) -> Iterator[str]:
    yield _text(_WIDTH - _RIGHT + 60, y, str(row.calls), size=12, anchor="end", fill=_SLOW if row.errors else _INK)
    for percent, x, colour in ((50, 145, _MIDDLE), (99, 220, _SLOW), (100, 295, _INK)):
        text = "stream" if row.stream and percent == 50 else duration(row.percentile(percent)) or "-"
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
