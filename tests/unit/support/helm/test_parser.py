"""Trees of templates."""

import pytest

from tests.support.helm.errors import ChartError
from tests.support.helm.lexer import Plain
from tests.support.helm.parser import Access, Block, Command, Function, Literal, Output, Variable, parse


def command(source: str) -> Command:
    """The one command of a template with one action."""
    [output] = parse(source, "t").body
    assert isinstance(output, Output)
    [found] = output.pipeline.commands
    return found


def test_a_call_has_arguments() -> None:
    """Values, fields, constants."""
    found = command('{{ f .a $x.b.c "d" 1 true nil . }}')

    assert found == Command(
        Function("f"),
        (
            Access(Variable("."), ("a",)),
            Access(Variable("$x"), ("b", "c")),
            Literal("d"),
            Literal(1),
            Literal(True),
            Literal(None),
            Variable("."),
        ),
    )


def test_fields_of_what_is_in_brackets() -> None:
    """Whatever the brackets hold."""
    found = command("{{ (f .a).b }}").head

    assert isinstance(found, Access)
    assert found.names == ("b",)


def test_else_if_is_a_block_within() -> None:
    """With one end for all of them."""
    [block] = parse("{{ if .a }}1{{ else if .b }}2{{ else }}3{{ end }}", "t").body

    assert isinstance(block, Block)
    [inner] = block.otherwise
    assert isinstance(inner, Block)
    assert [one.text for one in (*block.body, *inner.body, *inner.otherwise) if isinstance(one, Plain)] == [
        "1",
        "2",
        "3",
    ]


def test_definitions_are_no_output() -> None:
    """They are known by their names."""
    template = parse('{{ define "x" }}a{{ end }}b', "t")

    assert list(template.defined) == ["x"]
    assert len(template.body) == 1


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{{ end }}", "end without a block"),
        ("{{ else }}", "else without a block"),
        ("{{ if .a }}", "a block is not ended"),
        ("{{ if .a }}{{ else }}", "a block is not ended"),
        ("{{ if .a }}{{ else }}{{ else }}{{ end }}", "a block is not ended"),
        ("{{ range }}{{ end }}", "something is missing"),
        ("{{ }}", "an empty action"),
        ("{{ .a | }}", "something is missing"),
        ("{{ (.a }}", "a bracket is not closed"),
        ("{{ .a ) }}", "unexpected"),
        ("{{ , }}", "unexpected"),
        ("{{ $a, $b := .c }}", "only range declares two variables"),
        ("{{ define x }}{{ end }}", "define needs one name in quotes"),
        ('{{ define "x" }}{{ end }}{{ define "x" }}{{ end }}', "x is defined twice"),
        ('{{ template "x" . }}', "template is not supported"),
        ("{{ break }}", "break is not supported"),
    ],
)
def test_what_is_no_template_is_refused(source: str, problem: str) -> None:
    """With file, line and reason."""
    with pytest.raises(ChartError, match=f"^t:1: {problem}"):
        parse(source, "t")
