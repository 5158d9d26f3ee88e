"""Charts of a directory."""

from pathlib import Path

import pytest

from tests.support.helm.chart import Release, merged, read_chart
from tests.support.helm.errors import ChartError

TEMPLATE = """\
{{- if .Values.on }}
kind: {{ .Values.kind }}
metadata: {name: {{ include "name" . }}, namespace: {{ .Release.Namespace }}}
version: {{ .Chart.AppVersion }}
has: {{ .Capabilities.APIVersions.Has "x/v1" }}
text: {{ .Files.Get "files/a.txt" | trim }}
from: {{ .Template.Name }}
{{- end }}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small chart."""
    for name, text in {
        "Chart.yaml": "name: c\nappVersion: '1'\n",
        "values.yaml": "on: true\nkind: {a: 1}\n",
        "files/a.txt": "hi\n",
        "templates/_helpers.tpl": '{{ define "name" }}{{ .Release.Name }}{{ end }}',
        "templates/a.yaml": TEMPLATE,
        "templates/NOTES.txt": "no: yaml: at all",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_chart_renders_to_objects(folder: Path) -> None:
    """Helpers print nothing, notes are no manifest, values are laid over those of the chart."""
    release = Release(name="r", namespace="n", apis=frozenset(("x/v1",)))

    assert read_chart(folder).manifests({"kind": "K"}, release) == [
        {
            "kind": "K",
            "metadata": {"name": "r", "namespace": "n"},
            "version": 1,
            "has": True,
            "text": "hi",
            "from": "templates/a.yaml",
        }
    ]


def test_what_is_switched_off_is_not_there(folder: Path) -> None:
    """A template may render to nothing."""
    chart = read_chart(folder)

    assert chart.manifests({"on": False}) == []


def test_a_file_that_is_missing_is_an_error(folder: Path) -> None:
    """Helm would go on with nothing."""
    (folder / "files/a.txt").unlink()

    with pytest.raises(ChartError, match=r"files/a\.txt"):
        read_chart(folder).render({"kind": "K"})


def test_values_are_laid_over_others() -> None:
    """Maps are joined, lists replaced, null takes away."""
    base = {"a": {"b": 1, "c": 2}, "l": [1], "d": 1, "e": {"f": 1}}

    assert merged(base, {"a": {"b": 3}, "l": [2], "d": None, "e": 5, "x": None}) == {
        "a": {"b": 3, "c": 2},
        "l": [2],
        "e": 5,
    }
