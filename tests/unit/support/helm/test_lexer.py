"""Pieces of templates."""

import pytest

from tests.support.helm.errors import ChartError
from tests.support.helm.lexer import Action, Plain, pieces


def texts(source: str) -> list[object]:
    """Text as it is, actions as lists of their values."""
    return [
        piece.text if isinstance(piece, Plain) else [token.value for token in piece.tokens]
        for piece in pieces(source, "t")
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("a {{ .b }} c", ["a ", ["b"], " c"]),
        ("a \n {{- .b -}} \n c", ["a", ["b"], "c"]),
        ("a {{/* }} */}} c", ["a ", " c"]),
        ("a {{- /* x */ -}} c", ["a", "c"]),
        ('{{ "}}" }}', [["}}"]]),
        ("{{ `a\nb` }}", [["a\nb"]]),
        ('{{ "a\\"\\n" }}', [['a"\n']]),
        ("{{ -3 }}{{ 1.5 }}{{-3 }}", [[-3], [1.5], [-3]]),
        ("{{ $x := .a | f (g $.b) }}", [["$x", ":=", "a", "|", "f", "(", "g", "$", "b", ")"]]),
        ("{{ if\n  .a\n}}", [["if", "a"]]),
    ],
)
def test_a_template_is_cut_into_pieces(source: str, found: list[object]) -> None:
    """Trimmed where it says so, comments left out."""
    assert texts(source) == found


def test_lines_are_known() -> None:
    """Of text and of actions."""
    assert [piece.line for piece in pieces("a\n{{ .b }}\n{{ .c }}", "t")] == [1, 2, 2, 3]


def test_what_is_glued_is_told_from_what_is_not() -> None:
    """`$x.y` is a field of `$x`, `$x .y` are two values."""
    [glued, apart] = pieces("{{ $x.y }}{{ $x .y }}", "t")

    assert isinstance(glued, Action)
    assert isinstance(apart, Action)
    assert [token.glued for token in glued.tokens] == [False, True]
    assert [token.glued for token in apart.tokens] == [False, False]


@pytest.mark.parametrize("source", ["a\n{{ .b", "a\n{{ ! }}", 'a\n{{ "b }}', "a\n{{ /* x */ .b }}"])
def test_what_cannot_be_read_has_a_place(source: str) -> None:
    """File and line."""
    with pytest.raises(ChartError, match=r"^t:2: "):
        pieces(source, "t")
