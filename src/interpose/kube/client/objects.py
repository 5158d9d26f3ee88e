"""Reading objects of the cluster: whatever one is made of, there is an answer. Pure."""

from collections.abc import Mapping
from typing import Any

from interpose.kube.client.api import Object


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it has keys; an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}


def metadata(found: Object | None) -> Mapping[str, Any]:
    """Of an object, which need not be there."""
    return mapping(found.get("metadata")) if found is not None else {}


def version_of(found: Object | None) -> str:
    """Its resourceVersion; empty if it has none."""
    version = metadata(found).get("resourceVersion")
    return version if isinstance(version, str) else ""


def identity(found: Object) -> tuple[Any, str] | None:
    """The same for the same content: uid and version. None if that cannot be told."""
    version = version_of(found)
    return (metadata(found).get("uid"), version) if version else None
