"""A chart in a directory: its metadata, values and templates, and what they render to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.helm.errors import ChartError
from tests.support.helm.evaluate import Renderer
from tests.support.helm.parser import Template, parse
from tests.support.kube.plain_documents import Document, documents, value_of

NOTES: Final = "templates/NOTES.txt"
# What a cluster with nothing installed has; `Release` adds others.
_BUILT_IN: Final = frozenset(
    ("v1", "apps/v1", "batch/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What `helm install NAME --namespace NS` says, and what the cluster has."""

    name: str = "interpose"
    namespace: str = "interpose-system"
    revision: int = 1
    apis: frozenset[str] = field(default_factory=frozenset)
    kube_version: str = "v1.32.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart as it was read."""

    metadata: Mapping[str, Any]
    values: Mapping[str, Any]
    templates: Mapping[str, Template]
    files: Mapping[str, str]

    def render(self, values: Mapping[str, Any] | None = None, release: Release | None = None) -> dict[str, str]:
        """The text of each template by its path; values are laid over those of the chart."""
        release = release or Release()
        context = _context(self, merged(self.values, values or {}), release)
        renderer = Renderer(self.templates)
        return {
            path: renderer.render(path, {**context, "Template": {"Name": path, "BasePath": "templates"}})
            for path in self.templates
            if not path.rpartition("/")[2].startswith("_")
        }

    def manifests(self, values: Mapping[str, Any] | None = None, release: Release | None = None) -> list[Document]:
        """Every object that is rendered."""
        rendered = self.render(values, release)
        return [document for path, text in rendered.items() if path != NOTES for document in documents(text, path)]


def read_chart(folder: Path) -> Chart:
    """The chart of a directory."""
    templates = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((folder / "templates").rglob("*"))
        if path.is_file()
    }
    files = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "templates" not in path.relative_to(folder).parts
    }
    return Chart(
        metadata=value_of(files["Chart.yaml"], "Chart.yaml"),
        values=value_of(files["values.yaml"], "values.yaml"),
        templates={path: parse(text, path) for path, text in templates.items()},
        files=files,
    )


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Values laid over others as Helm does it: maps are joined, null takes a key away."""
    found = dict(base)
    for key, value in over.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = merged(found[key], value)
        else:
            found[key] = value
    return found


def _context(chart: Chart, values: Mapping[str, Any], release: Release) -> dict[str, Any]:
    apis = _BUILT_IN | release.apis
    return {
        "Values": values,
        "Chart": {key[:1].upper() + key[1:]: value for key, value in chart.metadata.items()},
        "Release": {
            "Name": release.name,
            "Namespace": release.namespace,
            "Revision": release.revision,
            "Service": "Helm",
            "IsInstall": release.revision == 1,
            "IsUpgrade": release.revision > 1,
        },
        "Capabilities": {
            "APIVersions": {"Has": apis.__contains__},
            "KubeVersion": {"Version": release.kube_version},
        },
        "Files": {"Get": lambda path: _file(chart, path)},
    }


def _file(chart: Chart, path: str) -> str:
    if path not in chart.files:  # Helm would give nothing, and nobody would notice
        raise ChartError(path, 1, "there is no such file in the chart")
    return chart.files[path]
