"""Times, durations, sizes and texts of others as people read them. Pure.

Invariant: what comes out is one line that cannot move a cursor.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from interpose.dump.model.call import Flow
from interpose.dump.model.frames import MessageSide

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = 60 * 10**9
_HOUR: Final = 60 * _MINUTE
_DURATIONS: Final = (("s", 10**9), ("ms", 10**6), ("µs", 10**3))
_SIZES: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
# What a year can be; a damaged frame can say anything.
_LAST: Final = int((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).total_seconds()) * 10**9


def plain(text: str) -> str:
    """A text on one line that cannot move a cursor."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)


def cut(text: str, width: int) -> str:
    """A text with its end left out if it is too long."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…" * (width > 0)


def cut_middle(text: str, width: int) -> str:
    """A text with its middle left out if it is too long: names differ least there."""
    if len(text) <= width:
        return text
    tail = max(width - 1, 0) * 2 // 3
    return f"{text[: max(width - 1 - tail, 0)]}…{text[len(text) - tail :]}"


def moment(nanoseconds: int) -> datetime:
    """A time since the epoch, in UTC, to the microsecond; at the end of time if it is behind that."""
    return _EPOCH + timedelta(microseconds=min(max(nanoseconds, 0), _LAST) // 1000)


def time_of_day(nanoseconds: int) -> str:
    """`09:00:00.123`."""
    return moment(nanoseconds).strftime("%H:%M:%S.%f")[:-3]


def day(nanoseconds: int) -> str:
    """`2026-11-16`."""
    return moment(nanoseconds).strftime("%Y-%m-%d")


def duration(nanoseconds: int | None) -> str:
    """Three digits and a unit: `1.25ms`, `182ms`, `2.31s`, `1m03s`, `2h05m`; empty for none."""
    if nanoseconds is None:
        return ""
    if nanoseconds >= _HOUR:
        return f"{nanoseconds // _HOUR}h{nanoseconds % _HOUR // _MINUTE:02}m"
    if nanoseconds >= _MINUTE:
        return f"{nanoseconds // _MINUTE}m{nanoseconds % _MINUTE // 10**9:02}s"
    unit, factor = next((one for one in _DURATIONS if nanoseconds >= one[1]), ("ns", 1))
    value = nanoseconds / factor
    digits = 0 if factor == 1 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}{unit}"


def size(count: int) -> str:
    """Bytes in the largest unit that fits: `812B`, `1.2KiB`."""
    unit, factor = next((one for one in _SIZES if count >= one[1]), ("B", 1))
    return f"{count}B" if factor == 1 else f"{count / factor:.1f}{unit}"


def passed(flow: Flow) -> int:
    """Bytes of the messages between caller and us, also of those that were let go of."""
    return sum(one.size for one in flow.of(MessageSide.REQUEST, MessageSide.REPLY)) + flow.forgotten_size
