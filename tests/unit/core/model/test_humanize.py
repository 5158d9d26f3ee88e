"""Sizes, durations, ages and times for people."""

import pytest

from interpose.core.model.humanize import (
    format_age,
    format_date,
    format_duration,
    format_rough_age,
    format_short_size,
    format_size,
    format_time_of_day,
)
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
    """A duration has three digits and the unit that needs no more."""
    assert format_duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (48 << 10, "48 KiB"),
        (3 << 19, "1.5 MiB"),
        (64 << 30, "64 GiB"),
        (2 << 40, "2048 GiB"),
    ],
)
def test_sizes_are_in_the_largest_unit_up_to_gib(count: int, text: str) -> None:
    """Sizes of machines can be compared at a glance."""
    assert format_size(count) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0B"), (1023, "1023B"), (1536, "1.5KiB"), (3 << 30, "3.0GiB")])
def test_a_short_size_has_no_blank(count: int, text: str) -> None:
    """A short size is in the largest unit up to GiB, always with one digit behind the point."""
    assert format_short_size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (192, "3m12s"),
        (3600, "1h"),
        (7500, "2h5m"),
        (900, "15m"),
        (90000, "1d1h"),
        (86400 * 400, "400d"),
    ],
)
def test_ages_have_one_or_two_units(seconds: float, text: str) -> None:
    """An age has a second unit only while that matters."""
    assert format_age(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59.9, "59s"), (60, "1m"), (7200, "2h"), (200_000, "2d")])
def test_rough_ages_have_one_unit(seconds: float, text: str) -> None:
    """A rough age is one number and one letter."""
    assert format_rough_age(seconds) == text


def test_times_are_utc() -> None:
    """Dates and times of day are in UTC, whatever the time zone of the machine."""
    assert format_date(START) == "2025-11-16"
    assert format_time_of_day(START + 1_500_000) == "09:00:00.001"


@pytest.mark.parametrize("nanoseconds", [-1, 1 << 63, 1 << 70])
def test_any_number_is_a_time(nanoseconds: int) -> None:
    """A number from a damaged recording is a time, too."""
    assert format_time_of_day(nanoseconds)
