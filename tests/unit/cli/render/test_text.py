"""Amounts, columns and text of others."""

from collections.abc import Iterable

import pytest

from interpose.cli.render.text import (
    amount,
    cpu_amount,
    flat,
    group,
    groups,
    or_dash,
    padded,
    sentence,
    strided,
    table,
    visible_width,
    words,
    wrapped,
)
from interpose.core.model.cpuset import CpuSet


@pytest.mark.parametrize(("milli", "text"), [(2000, "2"), (1500, "1500m"), (0, "-"), (None, "-"), ("x", "-")])
def test_cpus_are_written_as_kubernetes_does(milli: object, text: str) -> None:
    """Whole ones without a unit."""
    assert cpu_amount(milli) == text


def test_nouns_agree_with_their_numbers() -> None:
    """Also the odd ones."""
    assert [amount(1, "core"), amount(2, "core"), amount(2, "die", "dice")] == ["1 core", "2 cores", "2 dice"]


def test_text_of_others_cannot_move_the_cursor() -> None:
    """Nothing is a dash."""
    assert [or_dash("a\x1b[2Jb\n"), or_dash(None), or_dash(""), or_dash(0)] == ["a?[2Jb?", "-", "-", "0"]


def test_widths_do_not_count_colours() -> None:
    """Padding neither."""
    assert visible_width("\x1b[42;30mab\x1b[0m") == 2
    assert padded("\x1b[2ma\x1b[0m", 3) == "\x1b[2ma\x1b[0m  "


def test_lists_are_broken_behind_commas_only() -> None:
    """A single element that is too long stays whole."""
    assert wrapped("0-3,8-11,16-19", 9) == ["0-3,8-11,", "16-19"]
    assert wrapped("1000-2000,3", 4) == ["1000-2000,", "3"]
    assert sentence("some words here", "  ", 12) == ["  some words", "  here"]


def test_columns_are_aligned() -> None:
    """Without blanks at the end."""
    assert flat(table([("A", "B"), ("long", "x"), ("y", "")])) == ["A     B", "long  x", "y"]


def test_a_table_that_is_too_wide_breaks_lists_then_cuts_names() -> None:
    """Each row tells its lines; other columns stay as they are."""
    rows = [("NAME", "CPUS", "X"), ("a-very-long-name-of-a-container", "0-3,8-11,16-19,24-27", "end")]
    broken = table(rows, width=52, lists=[1])
    assert broken[1] == ["a-very-long-name-of-a-container  0-3,8-11,       end", " " * 33 + "16-19,24-27"]
    narrow = table(rows, width=40, lists=[1])
    assert narrow[1][0] == "a-very-…f-a-container  0-3,8-11,     end"
    assert max(map(len, flat(narrow))) <= 40
    assert table(rows, width=45)[1] == ["a-very…a-container  0-3,8-11,16-19,24-27  end"]


@pytest.mark.parametrize(
    ("cpus", "text"),
    [
        (range(0, 112, 4), "0-108:1/4"),
        ([*range(0, 40, 2), *range(60, 80, 2), 99], "0-38:1/2,60-78:1/2,99"),
        (range(0, 8, 2), "0,2,4,6"),
        ([*range(4), *range(8, 12), *range(16, 20), *range(24, 28), *range(32, 36)], "0-3,8-11,16-19,24-27,32-35"),
        ([0, 5, 6, 20, 22, 40, 41, 60, 62, 80, 82], "0,5-6,20,22,40-41,60,62,80,82"),
    ],
)
def test_long_lists_are_written_with_strides(cpus: Iterable[int], text: str) -> None:
    """If that is shorter; a kernel reads it back."""
    assert strided(CpuSet.of(cpus)) == text
    assert CpuSet.parse(text) == CpuSet.of(cpus)


def test_answers_of_another_shape_are_empty() -> None:
    """A relay of another version must not break a view."""
    assert (group("x"), groups("x"), groups([1, {"a": 1}]), words(None)) == ({}, [], [{"a": 1}], [])
    assert words(["a\n", 1]) == ["a?", "1"]
