"""Times, durations and sizes for people."""

import pytest

from interpose.dump.output import humanize
from interpose.testing.recordings import START


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (None, ""),
        (0, "0ns"),
        (999, "999ns"),
        (1_500, "1.50µs"),
        (45_600, "45.6µs"),
        (1_250_000, "1.25ms"),
        (182_400_000, "182ms"),
        (2_310_000_000, "2.31s"),
        (63_000_000_000, "1m03s"),
        (7_500_000_000_000, "2h05m"),
    ],
)
def test_a_duration_has_three_digits(nanoseconds: int | None, text: str) -> None:
    """And the unit that needs no more."""
    assert humanize.duration(nanoseconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0B"), (1023, "1023B"), (1536, "1.5KiB"), (3 << 30, "3.0GiB")])
def test_a_size_has_the_largest_unit(count: int, text: str) -> None:
    """Up to GiB."""
    assert humanize.size(count) == text


def test_times_are_utc() -> None:
    """Whatever the machine thinks."""
    assert humanize.day(START) == "2025-11-16"
    assert humanize.time_of_day(START + 1_500_000) == "09:00:00.001"


@pytest.mark.parametrize("nanoseconds", [-1, 1 << 63, 1 << 70])
def test_any_number_is_a_time(nanoseconds: int) -> None:
    """What a broken recording says, too."""
    assert humanize.time_of_day(nanoseconds)


@pytest.mark.parametrize(
    ("width", "end", "middle"),
    [(9, "web-0:app", "web-0:app"), (6, "web-0…", "we…app"), (1, "…", "…"), (0, "", "…")],
)
def test_long_texts_are_cut(width: int, end: str, middle: str) -> None:
    """At the end, or in the middle."""
    assert humanize.cut("web-0:app", width) == end
    assert humanize.cut_middle("web-0:app", width) == middle


def test_texts_of_others_cannot_move_the_cursor() -> None:
    """What is not printable is a question mark."""
    assert humanize.plain("a\x1b[2Jb\nc") == "a?[2Jb?c"
    assert humanize.plain("ünder") == "ünder"
