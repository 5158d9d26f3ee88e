"""Templates become text."""

from typing import Any

import pytest

from tests.support.helm.errors import ChartError
from tests.support.helm.evaluate import Renderer
from tests.support.helm.parser import parse


def rendered(source: str, context: Any = None) -> str:
    return Renderer({"t": parse(source, "t")}).render("t", context)


@pytest.mark.parametrize(
    ("source", "context", "text"),
    [
        ("{{ .a.b }}", {"a": {"b": 1}}, "1"),
        ("{{ .a }}|{{ .b }}", {"a": None}, "|"),
        ("{{ if .a }}1{{ else if .b }}2{{ else }}3{{ end }}", {"b": True}, "2"),
        ("{{ if .a }}1{{ else if .b }}2{{ else }}3{{ end }}", {}, "3"),
        ("{{ if and .a .b }}1{{ end }}{{ if or .a .b }}2{{ end }}", {"a": True}, "2"),
        ("{{ or .a .b }}", {"a": "", "b": "x"}, "x"),
        ("{{ .a | and true }}", {"a": "x"}, "x"),
        ("{{ with .a }}{{ .b }}{{ $.c }}{{ else }}no{{ end }}", {"a": {"b": 1}, "c": 2}, "12"),
        ("{{ with .a }}{{ .b }}{{ else }}no{{ end }}", {"a": {}}, "no"),
        ("{{ with $x := .a }}{{ $x }}{{ end }}", {"a": 1}, "1"),
        ("{{ range .a }}{{ . }},{{ end }}", {"a": ["x", "y"]}, "x,y,"),
        ("{{ range $i, $v := .a }}{{ $i }}{{ $v }},{{ end }}", {"a": ["x", "y"]}, "0x,1y,"),
        ("{{ range $k, $v := .a }}{{ $k }}{{ $v }},{{ end }}", {"a": {"y": 2, "x": 1}}, "x1,y2,"),
        ("{{ range $v := .a }}{{ $v }}{{ else }}none{{ end }}", {"a": []}, "none"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", {}, "2"),
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}", {}, "1"),
        ('{{ .a | default "d" | quote }}', {}, '"d"'),
        ("{{ (index .a 0).b }}", {"a": [{"b": "c"}]}, "c"),
        ('{{ .f "x" }}', {"f": lambda text: text * 2}, "xx"),
        ("{{ list | toYaml }}{{ list (list) 1 | toYaml }}", {}, "[]- []\n- 1"),
        ('{{ define "d" }}[{{ . }}]{{ end }}{{ include "d" .a | indent 1 }}', {"a": "x"}, " [x]"),
        ("{{ if true }}{{ . }}{{ end }}", "x", "x"),
    ],
)
def test_what_a_template_says(source: str, context: Any, text: str) -> None:
    """Each construct by itself."""
    assert rendered(source, context) == text


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("\n{{ .a.b }}", "a.b: None has no field b"),
        ("\n{{ $x }}", r"\$x is not declared"),
        ("\n{{ $x = 1 }}", r"\$x is not declared"),
        ("\n{{ frobnicate 1 }}", "the function frobnicate is not known here"),
        ('\n{{ include "x" . }}', "x is not defined"),
        ("\n{{ range 5 }}{{ end }}", "range over 5"),
        ("\n{{ 1 2 }}", "1 is no function"),
        ("\n{{ lower 1 }}", "lower with"),
        ("\n{{ trunc }}", "trunc with"),
        ('\n{{ fail "no" }}', "no"),
        ("\n{{ . }}", "use toYaml"),
    ],
)
def test_what_goes_wrong_has_a_place(source: str, problem: str) -> None:
    """File, line and reason."""
    with pytest.raises(ChartError, match=f"^t:2: .*{problem}"):
        rendered(source, {})


def test_a_definition_that_includes_itself_ends() -> None:
    """With an error."""
    with pytest.raises(ChartError, match="for ever"):
        rendered('{{ define "d" }}{{ include "d" . }}{{ end }}{{ include "d" . }}')


def test_a_name_is_defined_in_one_file() -> None:
    """Helm would take the last one, whichever that is."""
    one = parse('{{ define "d" }}{{ end }}', "t")

    with pytest.raises(ChartError, match="d is defined in a too"):
        Renderer({"a": one, "b": one})
