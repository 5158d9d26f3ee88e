"""What the server says about itself: version, groups, resources, and as much OpenAPI as kubectl needs. Pure.

Schemas say only which kinds there are and that the server checks fields and tries without doing (`fieldValidation`,
`dryRun`). Old clients ask for a protobuf document and skip their own checks for kinds that are not in it: they get an
empty one.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from tests.support.apiserver.resources import KINDS, Kind, StatusOnWrite

VERSION: Final = "v1.32.0"
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")
# Not with the @ that clients ask with: Go refuses to read such a content type.
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_DECLARED = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Page(NamedTuple):
    """An answer that is not about objects."""

    body: Any
    content_type: str = "application/json"


def discover(path: str, accept: str = "", kinds: Sequence[Kind] = KINDS) -> Page | None:
    """What is at this path, None if nothing of this module. `kinds` are those that the server has."""
    path = path.rstrip("/") or "/"
    if path == "/openapi/v2":
        return Page(b"", _PROTOBUF) if "protobuf" in accept else Page(_openapi_v2(kinds))
    if make := _FIXED.get(path):
        return Page(make(kinds))
    for (group, version), some in _versions(kinds):
        prefix = f"apis/{group}/{version}" if group else f"api/{version}"
        if path == f"/{prefix}":
            return Page(_resource_list(group, version, some))
        if path == f"/openapi/v3/{prefix}":
            return Page(_openapi_v3(some))
        if group and path == f"/apis/{group}":
            return Page({"kind": "APIGroup", "apiVersion": "v1", **_group(group, kinds)})
    return None


def _versions(kinds: Sequence[Kind]) -> list[tuple[tuple[str, str], list[Kind]]]:
    def place(kind: Kind) -> tuple[str, str]:
        return kind.resource.group, kind.resource.version

    return [(key, list(some)) for key, some in groupby(sorted(kinds, key=place), key=place)]


def _version(_kinds: Sequence[Kind]) -> dict[str, str]:
    return {
        "major": "1",
        "minor": VERSION.split(".")[1],
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def _core_versions(_kinds: Sequence[Kind]) -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group(group: str, kinds: Sequence[Kind]) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for (name, version), _ in _versions(kinds)
        if name == group
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _group_list(kinds: Sequence[Kind]) -> dict[str, Any]:
    groups = sorted({kind.resource.group for kind in kinds} - {""})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group, kinds) for group in groups]}


def _resource_list(group: str, version: str, kinds: list[Kind]) -> dict[str, Any]:
    resources = []
    for kind in kinds:
        common = {"namespaced": kind.resource.namespaced, "kind": kind.resource.kind}
        whole = {"name": kind.resource.plural, "singularName": kind.singular, "verbs": _VERBS, "shortNames": kind.short}
        resources.append(whole | common)
        if kind.status is not StatusOnWrite.PLAIN:
            part = {"name": f"{kind.resource.plural}/status", "singularName": "", "verbs": _STATUS_VERBS}
            resources.append(part | common)
    said = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": said, "resources": resources}


def _openapi_index(kinds: Sequence[Kind]) -> dict[str, Any]:
    prefixes = [f"apis/{group}/{version}" if group else f"api/{version}" for (group, version), _ in _versions(kinds)]
    return {"paths": {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}"} for prefix in prefixes}}


def _identity(kind: Kind) -> dict[str, str]:
    return {"group": kind.resource.group, "version": kind.resource.version, "kind": kind.resource.kind}


def _schema_name(kind: Kind) -> str:
    return ".".join(
        filter(None, (*reversed(kind.resource.group.split(".")), kind.resource.version, kind.resource.kind))
    )


def _schemas(kinds: Sequence[Kind]) -> dict[str, Any]:
    return {
        _schema_name(kind): {
            "type": "object",
            "properties": {field: _field(field) for field in sorted(kind.known_fields)},
            "x-kubernetes-group-version-kind": [_identity(kind)],
        }
        for kind in kinds
    }


def _field(name: str) -> Mapping[str, Any]:
    return {"type": "string"} if name in ("apiVersion", "kind") else _DECLARED


def _paths(kinds: Sequence[Kind], parameters: list[dict[str, Any]]) -> dict[str, Any]:
    paths = {}
    for kind in kinds:
        namespace = "{namespace}" if kind.resource.namespaced else ""
        # The method quotes what it is given; here the brackets have to stay.
        path = kind.resource.path(namespace=namespace, name="{name}").replace("%7B", "{").replace("%7D", "}")
        patch = {
            "x-kubernetes-action": "patch",
            "x-kubernetes-group-version-kind": _identity(kind),
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        }
        paths[path] = {"patch": patch}
    return paths


def _openapi_v3(kinds: list[Kind]) -> dict[str, Any]:
    names = ("dryRun", "fieldManager", "fieldValidation", "force")
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": _paths(kinds, parameters),
        "components": {"schemas": _schemas(kinds)},
    }


def _openapi_v2(kinds: Sequence[Kind]) -> dict[str, Any]:
    parameters = [{"name": name, "in": "query", "type": "string"} for name in ("dryRun", "fieldValidation")]
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": _paths(kinds, parameters),
        "definitions": _schemas(kinds),
    }


def _ready(_kinds: Sequence[Kind]) -> bytes:
    return b"ok"


_FIXED: Final[Mapping[str, Callable[[Sequence[Kind]], Any]]] = {
    "/version": _version,
    "/api": _core_versions,
    "/apis": _group_list,
    "/openapi/v3": _openapi_index,
    "/livez": _ready,
    "/readyz": _ready,
    "/healthz": _ready,
}
