"""A call as one line of the list.

Pure. Whatever came over the wire is made harmless here: no character of it can move the cursor of a terminal.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interpose.core.model.humanize import format_duration, format_short_size, format_time_of_day
from interpose.core.model.text import printable
from interpose.dump.live.model import CallRow, Order
from interpose.dump.model.call import Flow
from interpose.dump.model.grpc_codes import code_name
from interpose.dump.output.list import OPEN

_OLD_VERSION: Final = "v1alpha2"
_SECONDS: Final = len("09:00:00")


class Tone(StrEnum):
    """How a line is meant."""

    PLAIN = "plain"
    ERROR = "error"
    OPEN = "open"
    CHANGED = "changed"
    QUIET = "quiet"  # made by the relay itself, or cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the list. Width 0: what the others leave. `narrow` is for terminals of up to 100 columns."""

    name: str
    width: int
    narrow: int
    right: bool = False
    order: Order | None = None


COLUMNS: Final = (
    Column(name="", width=2, narrow=2),
    Column(name="UTC", width=12, narrow=8, order=Order.TIME),
    Column(name="method", width=24, narrow=20, order=Order.METHOD),
    Column(name="subject", width=0, narrow=0, order=Order.SUBJECT),
    Column(name="status", width=19, narrow=10, order=Order.STATUS),
    Column(name="took", width=7, narrow=7, right=True, order=Order.DURATION),
    Column(name="size", width=8, narrow=8, right=True, order=Order.SIZE),
    Column(name="msgs", width=5, narrow=0, right=True),
)
WIDE: Final = 101  # columns of a terminal from which on everything has its place


def status(row: CallRow) -> str:
    """How it ended, or that it has not."""
    if row.flow.end is not None:
        return code_name(row.flow.end.code)
    return "cut off" if row.cut else OPEN


def tone(row: CallRow) -> Tone:
    """What catches the eye: a failure before a change before a call of our own."""
    if row.flow.failed:
        return Tone.ERROR
    if row.cut:
        return Tone.QUIET
    if row.flow.end is None:
        return Tone.OPEN
    if row.flow.changed:
        return Tone.CHANGED
    return Tone.QUIET if row.flow.originated else Tone.PLAIN


def marks(row: CallRow) -> str:
    """`●` marked by people; `*` changed on the way, `+` made by the relay itself, `α` the old version of the API."""
    flow = row.flow
    kind = "*" if flow.changed else "+" if flow.originated else "α" if _OLD_VERSION in flow.service else " "
    return ("●" if row.marked else " ") + kind


def elapsed(row: CallRow, now: int) -> str:
    """How long it took, or has taken until now (nanoseconds since the epoch)."""
    if row.flow.duration is not None:
        return format_duration(row.flow.duration)
    return format_duration(max(now - row.flow.time, 0)) if row.open else ""


def subject(flow: Flow) -> str:
    """Whom it is about; of a call that the relay made, who made it, too."""
    about = printable(str(flow.subject))
    return f"{about} ({printable(flow.origin)})".strip() if flow.originated else about


def cells(row: CallRow, now: int, *, wide: bool) -> tuple[str, ...]:
    """The cells of a call, one text per column."""
    flow = row.flow
    # One request and one reply are what everybody expects.
    streams = flow.method is not None and flow.method.server_streaming
    return (
        marks(row),
        format_time_of_day(flow.time)[: None if wide else _SECONDS],
        printable(flow.name),
        subject(flow),
        status(row),
        elapsed(row, now),
        "" if flow.http is not None and not row.traffic else format_short_size(row.traffic),
        str(row.messages) if streams or row.messages > 2 else "",
    )
