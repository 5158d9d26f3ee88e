"""What becomes of a body before it is stored: what the server fills in, what it ignores, what it refuses. Pure."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from interpose.kube.client.api import SECRETS, Object, Resource
from tests.support.apiserver.problems import Cause, RefusedError, bad_request, conflict, invalid
from tests.support.apiserver.resources import CRDS, NAMESPACES, PODS, Kind, StatusOnWrite
from tests.support.apiserver.validation import causes

# What a client may write into metadata; the rest is the server's.
_WRITTEN: Final = ("name", "generateName", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
_OURS: Final = ("uid", "creationTimestamp", "resourceVersion", "generation", "deletionTimestamp")


def newcomer(kind: Kind, body: Object, *, namespace: str, uid: str, now: str) -> dict[str, Any]:
    """A new object, all but its version; RefusedError if it may not be."""
    candidate = _known(kind, body)
    if (candidate["metadata"] or {}).get("resourceVersion"):
        raise RefusedError(500, "", "resourceVersion should not be set on objects to be created")
    candidate["metadata"] = _written(kind, candidate["metadata"], namespace)
    if not candidate["metadata"].get("name") and (prefix := candidate["metadata"].get("generateName")):
        candidate["metadata"]["name"] = prefix + uid.replace("-", "")[-5:]
    candidate["metadata"] |= {"uid": uid, "creationTimestamp": now}
    if kind.status is StatusOnWrite.DROPPED:
        candidate.pop("status", None)
    if kind.generation:
        candidate["metadata"]["generation"] = 1
    _DEFAULTS.get(kind.resource, _as_is)(candidate, now)
    _check(kind, candidate, None)
    return candidate


def successor(kind: Kind, old: Object, body: Object, *, subresource: str = "") -> dict[str, Any]:
    """What an object becomes by an update of it or of its status; RefusedError if it may not."""
    candidate = _known(kind, body)
    given, name = candidate["metadata"], old["metadata"]["name"]
    if (given.get("name") or name) != name:
        raise bad_request(f"the name of the object ({given['name']}) does not match the name on the URL ({name})")
    _check_version(kind, old, given)
    metadata = _written(kind, given, old["metadata"].get("namespace", "")) | {"name": name}
    metadata |= {key: old["metadata"][key] for key in _OURS if key in old["metadata"]}
    candidate["metadata"] = metadata
    if subresource == "status":
        # Of a node the labels and annotations count here too, of other kinds nothing but the status.
        kept = dict(old) if kind.status is StatusOnWrite.DROPPED else {**old, "metadata": metadata}
        kept.pop("status", None)
        candidate = kept | ({"status": candidate["status"]} if "status" in candidate else {})
    elif kind.status is not StatusOnWrite.PLAIN:
        candidate.pop("status", None)
        candidate |= {"status": old["status"]} if "status" in old else {}
    if kind.resource in _ON_UPDATE:
        _DEFAULTS[kind.resource](candidate, "")
    if kind.generation and _content(candidate) != _content(old):
        candidate["metadata"] = candidate["metadata"] | {"generation": old["metadata"].get("generation", 0) + 1}
    _check(kind, candidate, old)
    return candidate


def unknown_fields(kind: Kind, body: Object) -> list[str]:
    """What a strict reader refuses. Only the top is looked at."""
    return sorted(key for key in body if key not in kind.known_fields)


def _content(candidate: Object) -> Mapping[str, Any]:
    return {key: value for key, value in candidate.items() if key not in ("metadata", "status")}


def _known(kind: Kind, body: Object) -> dict[str, Any]:
    """A copy of our own, with the fields that the kind has, and said to be of that kind."""
    if kind.custom and not (body.get("apiVersion") and body.get("kind")):
        missing = "Kind" if not body.get("kind") else "apiVersion"
        raise bad_request(
            f'{kind.resource.kind} in version "{kind.resource.version}" cannot be handled as a {kind.resource.kind}: '
            f"unmarshalerDecoder: Object '{missing}' is missing"
        )
    said = (body.get("apiVersion") or kind.resource.api_version, body.get("kind") or kind.resource.kind)
    if said != (kind.resource.api_version, kind.resource.kind):
        raise bad_request(
            f"the API version in the data ({said[0]}, {said[1]}) does not match the expected API version "
            f"({kind.resource.api_version}, {kind.resource.kind})"
        )
    metadata = body.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise bad_request("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
    known = {key: deepcopy(value) for key, value in body.items() if key in kind.known_fields and value is not None}
    return {
        "kind": kind.resource.kind,
        "apiVersion": kind.resource.api_version,
        **known,
        "metadata": dict(metadata or {}),
    }


def _written(kind: Kind, given: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    metadata = {key: deepcopy(given[key]) for key in _WRITTEN if given.get(key)}
    if not kind.resource.namespaced:
        metadata.pop("namespace", None)
        return metadata
    if metadata.setdefault("namespace", namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return metadata


def _check_version(kind: Kind, old: Object, given: Mapping[str, Any]) -> None:
    present = old["metadata"]
    name = present["name"]
    if (uid := given.get("uid")) and uid != present["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present['uid']}"
        raise conflict(kind, name, why)
    version = given.get("resourceVersion")
    if not version and kind.custom:
        cause = Cause("metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update")
        raise invalid(kind, name, [cause])
    if version and version != present["resourceVersion"]:
        raise conflict(kind, name)


def _check(kind: Kind, candidate: Object, previous: Object | None) -> None:
    if found := causes(kind, candidate, previous):
        raise invalid(kind, candidate["metadata"].get("name") or "", found)


def _as_is(_candidate: dict[str, Any], _now: str) -> None:
    pass


def _namespace(candidate: dict[str, Any], _now: str) -> None:
    labels = candidate["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = candidate["metadata"].get("name", "")
    candidate.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    candidate["status"] = {"phase": "Active"}


def _pod(candidate: dict[str, Any], _now: str) -> None:
    candidate["status"] = {"phase": "Pending"}


def _secret(candidate: dict[str, Any], _now: str) -> None:
    for key, value in (candidate.pop("stringData", None) or {}).items():
        candidate.setdefault("data", {})[key] = b64encode(str(value).encode()).decode()
    candidate.setdefault("type", "Opaque")


def _definition(candidate: dict[str, Any], now: str) -> None:
    """Served at once: whoever waits for that sees it."""
    spec = candidate.get("spec") or {}
    candidate["status"] = {
        "acceptedNames": spec.get("names") or {},
        "conditions": [
            {"type": word, "status": "True", "reason": reason, "message": "", "lastTransitionTime": now}
            for word, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
        ],
        "storedVersions": [version.get("name") for version in spec.get("versions") or [] if version.get("storage")],
    }


_DEFAULTS: Final[Mapping[Resource, Callable[[dict[str, Any], str], None]]] = {
    NAMESPACES: _namespace,
    PODS: _pod,
    SECRETS: _secret,
    CRDS: _definition,
}
_ON_UPDATE: Final = (SECRETS,)
