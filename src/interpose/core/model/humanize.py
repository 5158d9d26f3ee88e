"""Sizes, durations, ages and times for people. What has to be read back exactly is in `config.values` and
`core.model.quantity`."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_NS: Final = 10**9  # nanoseconds of a second
_DURATIONS: Final = (("s", 10**9), ("ms", 10**6), ("µs", 10**3))
_SIZES: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_AGES: Final = (("d", _DAY), ("h", _HOUR), ("m", _MINUTE), ("s", 1))
# What a year can be; a damaged frame can say anything.
_LAST: Final = int((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).total_seconds()) * _NS


def format_size(count: int) -> str:
    """Bytes in the largest unit up to GiB, with one digit behind the point if it is not whole: `64 GiB`, `1.5 MiB`."""
    unit, factor = next((size for size in _SIZES if count >= size[1]), ("B", 1))
    return f"{count / factor:.1f}".removesuffix(".0") + f" {unit}"


def format_short_size(count: int) -> str:
    """Bytes in the largest unit up to GiB without a blank, for narrow columns: `812B`, `1.2KiB`."""
    unit, factor = next((size for size in _SIZES if count >= size[1]), ("B", 1))
    return f"{count}B" if factor == 1 else f"{count / factor:.1f}{unit}"


def format_duration(nanoseconds: int | None) -> str:
    """Three digits and a unit: `1.25ms`, `182ms`, `2.31s`, `1m03s`, `2h05m`; empty for None."""
    if nanoseconds is None:
        return ""
    seconds = nanoseconds // _NS
    if seconds >= _HOUR:
        return f"{seconds // _HOUR}h{seconds % _HOUR // _MINUTE:02}m"
    if seconds >= _MINUTE:
        return f"{seconds // _MINUTE}m{seconds % _MINUTE:02}s"
    unit, factor = next((unit for unit in _DURATIONS if nanoseconds >= unit[1]), ("ns", 1))
    value = nanoseconds / factor
    digits = 0 if factor == 1 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}{unit}"


def format_age(seconds: float) -> str:
    """A span of time in one or two units: `5s`, `3m12s`, `2h5m`, `4d3h`."""
    count = max(int(seconds), 0)
    for (unit, long), (below, small) in pairwise(_AGES):
        if count >= long:
            rest = count % long // small
            return f"{count // long}{unit}" + (f"{rest}{below}" if rest and count < 10 * long else "")
    return f"{count}s"


def format_rough_age(seconds: float) -> str:
    """A span of time in the largest unit that fits: `5s`, `3m`, `2h`, `4d`."""
    unit, factor = next((age for age in _AGES if seconds >= age[1]), ("s", 1))
    return f"{int(seconds // factor)}{unit}"


def utc_time(nanoseconds: int) -> datetime:
    """Nanoseconds since the epoch as a time to the microsecond, not before 1970 and not behind the year 9999."""
    return _EPOCH + timedelta(microseconds=min(max(nanoseconds, 0), _LAST) // 1000)


def format_time_of_day(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as a time of day in UTC: `09:00:00.123`."""
    return utc_time(nanoseconds).strftime("%H:%M:%S.%f")[:-3]


def format_date(nanoseconds: int) -> str:
    """Nanoseconds since the epoch as a date in UTC: `2026-11-16`."""
    return utc_time(nanoseconds).strftime("%Y-%m-%d")
