"""How values look on a terminal."""

import pytest

from interpose.cli.common.terminal import format_value, output_width


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        (True, "yes"),
        (False, "no"),
        (1.5, "1.5"),
        (2.0, "2"),
        (7, "7"),
        ("grün", "grün"),
        (["a", 1], '["a", 1]'),
        ("\x1b[2Jgone\n", "?[2Jgone?"),
        ({"k": "\u202e"}, '{"k": "?"}'),
    ],
)
def test_value_is_one_printable_line(value: object, text: str) -> None:
    """Nothing in it can move the cursor or forge a line."""
    assert format_value(value) == text


def test_lines_are_as_wide_as_the_terminal_and_any_width_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a pipe cuts for himself."""
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert output_width() == 72
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    assert output_width() > 100_000
