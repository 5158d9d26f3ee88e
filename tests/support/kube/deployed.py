"""What deploy/ holds for a cluster: the objects of a kustomization and of the chart, for tests that look at both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.kube.manifests import pod_template
from tests.support.kube.plain_documents import Document, read_documents

# Labels and annotations that say who made an object, not what it is.
_MAKERS: Final = ("app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart")


def kustomized(folder: Path) -> list[Document]:
    """The objects that a kustomization gathers, as they stand in its files: patches and images are not applied."""
    [kustomization] = read_documents(folder / "kustomization.yaml")
    found: list[Document] = []
    for name in kustomization.get("resources", ()):
        place = (folder / name).resolve()
        found += kustomized(place) if place.is_dir() else read_documents(place)
    return found


def normal(document: Document) -> Document:
    """An object without what tells its makers apart."""
    plain: Document = _without(document)
    return plain


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(item) for key, item in value.items() if key not in _MAKERS and item is not None}
    if isinstance(value, list):
        return [_without(item) for item in value]
    return value


def containers(documents: list[Document]) -> Iterator[tuple[str, Document, Document]]:
    """Every container with its name and the spec of its pod."""
    for document in documents:
        template = pod_template(document)
        if template is not None:
            for container in template["spec"]["containers"]:
                yield f"{document['kind']}/{container['name']}", container, template["spec"]
