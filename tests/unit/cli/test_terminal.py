"""How values look on a terminal."""

import pytest

from interpose.cli.terminal import printable


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
    assert printable(value) == text
