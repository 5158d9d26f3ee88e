"""Text of others never spoils a message, and misspelt words are recognised."""

import pytest

from interpose.core.model.text import (
    closest,
    closest_flag,
    cut_end,
    cut_middle,
    did_you_mean,
    escaped,
    one_edit_apart,
    printable,
    quoted,
)


def test_printable_text_cannot_move_the_cursor() -> None:
    """What is not printable is a question mark, everything else stays."""
    assert printable("a\x1b[2Jb\nc") == "a?[2Jb?c"
    assert printable("ünder") == "ünder"


def test_escaped_text_stays_on_its_line() -> None:
    """Text that is printable stays; other text is in escape sequences."""
    assert escaped("ünder") == "ünder"
    assert escaped("a\nb\ud800") == "a\\nb\\ud800"


@pytest.mark.parametrize(
    ("width", "end", "middle"),
    [(9, "web-0:app", "web-0:app"), (6, "web-0…", "we…app"), (2, "w…", "w…"), (1, "…", "…"), (0, "", "…")],
)
def test_long_texts_are_cut(width: int, end: str, middle: str) -> None:
    """A text is cut at its end or in its middle; a short one stays whole."""
    assert cut_end("web-0:app", width) == end
    assert cut_middle("web-0:app", width) == middle
    assert cut_middle("namespace/pod/container", 12) == "name…ntainer"


def test_short_text_is_shown_whole() -> None:
    """In quotes, so that blanks at its ends are seen."""
    assert quoted("0-3 ") == "'0-3 '"
    assert quoted("x" * 80) == f"'{'x' * 80}'"


def test_long_text_is_cut() -> None:
    """Whoever wrote it knows how it goes on."""
    assert quoted("x" * 81) == f"'{'x' * 77}...'"


def test_text_stays_on_its_line() -> None:
    """A line break or an escape sequence would be somebody else's message."""
    assert quoted("a\nb\x1b[2J") == "'a\\nb\\x1b[2J'"


KEYS = ("failure-policy", "priority", "timeout")


def test_the_closest_word_is_named() -> None:
    """Whatever its case; in the spelling that would be right."""
    assert did_you_mean("Failure-Polcy", KEYS) == ", did you mean failure-policy?"
    assert closest("timout", KEYS) == "timeout"
    assert closest("timout", KEYS, 0.99) == ""


def test_nobody_guesses_at_length() -> None:
    """A word that is like none, or as long as a page."""
    assert did_you_mean("comment", KEYS) == ""
    assert closest("priority" * 9, KEYS) == ""


FLAGS = ("pid-file", "config", "dump-file", "remote-runtime-service-endpoint", "remote-image-service-endpoint")


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        ("pidfile", "pid-file"),
        ("Dump-Fiel", "dump-file"),
        ("runtime-endpoint", "remote-runtime-service-endpoint"),
        ("image-service-endpoint", "remote-image-service-endpoint"),
        ("options-file", ""),
        ("polcy", ""),
        ("", ""),
    ],
)
def test_flags_that_end_alike_are_not_meant(flag: str, meant: str) -> None:
    """One that is misspelt is, and one of which words are missing."""
    assert closest_flag(flag, FLAGS) == meant


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("policy", "polcy", True),
        ("policy", "pollicy", True),
        ("policy", "folicy", True),
        ("policy", "policx", True),
        ("policy", "opolicy", True),
        ("policy", "polic", True),
        ("policy", "ploicy", True),
        ("policy", "poliyc", True),
        ("a", "", True),
        ("a", "b", True),
        ("policy", "policy", False),
        ("", "", False),
        ("policy", "plocy", False),
        ("policy", "pciloy", False),
        ("policy", "poli", False),
        ("", "ab", False),
        ("policy", "pollicyy", False),
        ("abcd", "badc", False),
    ],
)
def test_one_edit(one: str, other: str, apart: bool) -> None:
    """Missing, too many, wrong or swapped: once, in either direction."""
    assert one_edit_apart(one, other) is apart
    assert one_edit_apart(other, one) is apart
