"""Text of others never spoils a message."""

from interpose.model.text import quoted


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
