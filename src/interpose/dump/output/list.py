"""Calls as a list: one line each, in columns whose places never change, so that a list can be written as calls come.

Pure. Invariant: on a terminal no line is wider than the terminal; elsewhere nothing is cut.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from interpose.core.model.humanize import format_date, format_duration, format_short_size, format_time_of_day, utc_time
from interpose.core.model.text import cut_end, cut_middle, printable
from interpose.dump.model.call import Flow
from interpose.dump.model.frames import MessageSide
from interpose.dump.model.grpc_codes import code_name

# Gives a text the look of a role: "dim", "good", "bad", "open", "mark".
Style = Callable[[str, str], str]
OPEN: Final = "open"
# Of calls that are only partly in a recording.
NO_BEGINNING: Final = "beginning not recorded"
NO_END: Final = "end not recorded"
_V1: Final = "runtime.v1."
_NARROW: Final = 110  # below this, sizes are left out and statuses are short
_SMALL: Final = 96  # below this, names come before remarks, and times have no milliseconds
_CHANGED: Final = "*"
_GAP: Final = 2
_MARKS: Final = 14  # columns that are left for them if names can be cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """How wide each is. `line` is 0 where lines may be as long as they need."""

    time: int = 12
    number: int = 6
    method: int = 25
    subject: int = 40
    status: int = 19
    duration: int = 7
    size: int = 8
    line: int = 0


def columns(width: int) -> Columns:
    """For a terminal of so many columns; 0 is none."""
    if width == 0:
        return Columns(time=27)
    if width < _SMALL:
        fixed = 8 + 5 + 16 + 9 + 7 + 5 * _GAP
        subject = max(8, min(30, width - fixed - _GAP - 1))
        return Columns(time=8, number=5, method=16, status=9, size=0, subject=subject, line=width)
    if width < _NARROW:
        fixed = 12 + 6 + 18 + 9 + 7 + 5 * _GAP
        return Columns(method=18, status=9, size=0, subject=max(10, min(30, width - fixed - _MARKS)), line=width)
    fixed = 12 + 6 + 25 + 12 + 7 + 8 + 6 * _GAP
    return Columns(status=12, subject=max(14, min(48, width - fixed - _MARKS)), line=width)


class CallListWriter:
    """Writes a list. On a terminal (`width` over 0) days have a line of their own; elsewhere each time has its day."""

    def __init__(self, width: int = 0, style: Style | None = None) -> None:
        self._columns = columns(width)
        self._style: Style = style or (lambda text, _role: text)
        self._day = ""

    def head(self) -> str:
        """The names of the columns."""
        wide = self._columns
        parts = [
            ("TIME (UTC)" if wide.time >= len("TIME (UTC)") else "UTC").ljust(wide.time),
            "#".rjust(wide.number),
            "METHOD".ljust(wide.method),
            "SUBJECT".ljust(wide.subject),
            "STATUS".ljust(wide.status),
            "TOOK".rjust(wide.duration),
            *(["SIZE".rjust(wide.size)] if wide.size else []),
        ]
        return self._style(self._fit("  ".join(parts).rstrip()), "dim")

    def lines(self, flow: Flow) -> list[str]:
        """A call; before it, its day if that is another."""
        lines = []
        if self._columns.line and format_date(flow.time) != self._day:
            self._day = format_date(flow.time)
            lines.append(self._style(self._day, "dim"))
        lines.append(self._line(flow))
        return lines

    def _line(self, flow: Flow) -> str:
        wide = self._columns
        status, role = status_of(flow)
        time = format_time_of_day(flow.time) if wide.line else utc_time(flow.time).isoformat(timespec="microseconds")
        time = time.removesuffix("+00:00") + "Z" * (not wide.line)
        cells = [
            (time[: wide.time], wide.time, str.ljust, "dim"),
            (str(flow.number), wide.number, str.rjust, "dim"),
            (self._name(printable(flow.name), wide.method), wide.method, str.ljust, ""),
            (self._name(printable(str(flow.subject)), wide.subject), wide.subject, str.ljust, ""),
            (cut_end(status, wide.status) if wide.line else status, wide.status, str.ljust, role),
            (format_duration(flow.duration), wide.duration, str.rjust, ""),
        ]
        if wide.size:
            known = flow.http is None or flow.messages
            cells.append((format_short_size(flow.message_bytes) if known else "", wide.size, str.rjust, "dim"))
        placed = [(place(text, width), role) for text, width, place, role in cells]
        if remark := printable(remarks(flow)):
            placed.append((remark, "mark"))
        return self._joined(placed)

    def _joined(self, cells: Sequence[tuple[str, str]]) -> str:
        """Cells beside each other, as many and as much of the last as there is room for."""
        parts = []
        room = self._columns.line or sum(len(text) + _GAP for text, _ in cells)
        for place, (text, role) in enumerate(cells):
            left = room - _GAP * (place > 0)
            # One column is enough to say that something was changed.
            shown = _CHANGED if left == 1 and text.startswith(_CHANGED) else cut_end(text, left)
            if left <= 0:
                break
            parts.append(self._style(shown, role) if role else shown)
            room = left - len(shown)
        return (" " * _GAP).join(parts).rstrip()

    def _name(self, text: str, width: int) -> str:
        return cut_middle(text, width) if self._columns.line else text

    def _fit(self, text: str) -> str:
        return cut_end(text, self._columns.line) if self._columns.line else text


def status_of(flow: Flow) -> tuple[str, str]:
    """The status in a word, and its role."""
    if flow.end is None:
        return OPEN, "open"
    return code_name(flow.end.code), "bad" if flow.failed else "good"


def remarks(flow: Flow) -> str:
    """What is out of the ordinary: who changed it, who made it, the API, how many replies, and what went wrong."""
    found = []
    if flow.changed:
        names = ", ".join(flow.end.changed_by) if flow.end else ""
        found.append(f"{_CHANGED} {names}".rstrip())
    if flow.originated:
        found.append(f"by {flow.origin}")
    if flow.continued:
        found.append(NO_BEGINNING)
    if flow.lost:
        found.append(NO_END)
    if not flow.service.startswith(_V1):
        found.append(flow.service.split(".")[1] if flow.service.startswith("runtime.") else flow.service)
    replies = len(flow.messages_of(MessageSide.REPLY)) + flow.forgotten_replies
    if replies > 1 or (flow.method is not None and flow.method.server_streaming):
        found.append("1 reply" if replies == 1 else f"{replies} replies")
    if flow.end is not None and flow.end.message:
        found.append(flow.end.message)
    return "; ".join(found)
