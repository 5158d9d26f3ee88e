"""What an API server's bytes mean: objects, errors, and the lines of a watch. Pure.

A ValueError says that the bytes are none of an API server.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from interpose.kube.client.api import ApiError, Listed, Object, Resource, WatchChange, WatchEvent
from interpose.net.http.errors import shortened

# Of a text that is none of an API server, this much goes into the message.
_CHANGES: Final = {change.value: change for change in WatchChange}


class Lines:
    """Bytes in, whole lines out, wherever the bytes were cut."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now; empty ones are left out. ValueError for one that does not end."""
        if b"\n" not in data:
            self._rest += data
            lines = []
        else:
            *lines, rest = (bytes(self._rest) + data).split(b"\n")
            self._rest = bytearray(rest)
        if not lines and len(self._rest) > self._limit:  # whole lines first: they count
            raise ValueError(f"a line of the watch is longer than {self._limit} bytes")
        return [line for line in lines if line.strip()]

    @property
    def cut(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._rest.strip())


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; ValueError if it is something else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError(f"the answer is not JSON: {_hint(body)}") from None
    if not isinstance(found, dict):
        raise ValueError(f"the answer is not a JSON object: {_hint(body)}")
    return found


def read_one(body: bytes, resource: Resource) -> dict[str, Any]:
    """An object of this kind."""
    found = read_object(body)
    if not _is(found, resource.kind, resource.api_version) or not isinstance(found.get("metadata"), dict):
        raise ValueError(f"the answer is not a valid {resource.kind}: {_hint(body)}")
    return found


def read_list(body: bytes, resource: Resource) -> tuple[Listed, str]:
    """The objects of one page, and the word that gets the next one; empty after the last.

    A list says what it is. Whatever else has no objects in it must not pass for an empty one.
    """
    found = read_object(body)
    metadata = found.get("metadata")
    items = found.get("items")
    if (
        not _is(found, f"{resource.kind}List", resource.api_version)
        or not isinstance(metadata, dict)
        or not isinstance(items, list | None)
    ):
        raise ValueError(f"the answer is not a list of {resource.plural}: {_hint(body)}")
    objects = [_with_kind(item, resource) for item in items or ()]
    return Listed(tuple(objects), str(metadata.get("resourceVersion", ""))), str(metadata.get("continue") or "")


def read_versions(body: bytes) -> frozenset[str]:
    """Which versions of which groups a server has, as objects spell them; those of the core are not among them."""
    groups = _entries(body, "APIGroupList", "groups")
    versions = [version for group in groups for version in group.get("versions") or () if isinstance(version, dict)]
    return frozenset(str(version.get("groupVersion")) for version in versions)


def read_plurals(body: bytes) -> frozenset[str]:
    """Which kinds a version of a group has, by the word for many of them."""
    return frozenset(str(resource.get("name")) for resource in _entries(body, "APIResourceList", "resources"))


def _entries(body: bytes, kind: str, key: str) -> list[dict[str, Any]]:
    found = read_object(body)
    entries = found.get(key)
    if not _is(found, kind, "v1") or not isinstance(entries, list):
        raise ValueError(f"the answer is not a valid {kind}: {_hint(body)}")
    return [entry for entry in entries if isinstance(entry, dict)]


def _is(found: Mapping[str, Any], kind: str, api_version: str) -> bool:
    return found.get("kind") == kind and found.get("apiVersion") == api_version


def _with_kind(item: Any, resource: Resource) -> Object:
    """Inside lists objects do not say what they are."""
    if not isinstance(item, dict):
        raise ValueError(f"the list of {resource.plural} has something else than objects in it")
    return {"apiVersion": resource.api_version, "kind": resource.kind} | item


def read_event(line: bytes) -> WatchEvent:
    """One line of a watch; ERROR is raised as the ApiError it tells."""
    event = read_object(line)
    kind, found = str(event.get("type")), event.get("object")
    if not isinstance(found, dict):
        raise ValueError(f"a line of the watch has no object: {_hint(line)}")
    if kind == "ERROR":
        raise status_error(found, code=500)
    if kind not in _CHANGES:
        raise ValueError(f"a line of the watch is of the unknown type {kind[:40]!r}")
    return WatchEvent(_CHANGES[kind], found)


def read_error(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """What an answer with an error code says, whoever gave it."""
    retry_after = _seconds(headers.get("retry-after", ""))
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and found.get("kind") == "Status":
        return status_error(found, code=code, retry_after=retry_after)
    return ApiError(code, "", shortened(body) or "the server gave no reason", retry_after=retry_after)


def status_error(status: Mapping[str, Any], *, code: int, retry_after: float | None = None) -> ApiError:
    """A Status as an error; the header counts more than the body for when to come again."""
    status_code = status.get("code")
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after is None:
        retry_after = _seconds(str(details.get("retryAfterSeconds") or ""))
    return ApiError(
        status_code if type(status_code) is int and status_code > 0 else code,
        str(status.get("reason") or ""),
        shortened(str(status.get("message") or "the server gave no reason").encode(), 2048),
        retry_after=retry_after,
        name=str(details.get("name") or ""),
    )


def _hint(body: bytes) -> str:
    """What a text is that is not what it should be. Half of an object may be half of a secret: that is not shown."""
    if body.lstrip()[:1] in (b"{", b"["):
        return f"{len(body)} bytes that begin as JSON does"
    return shortened(body) or "it is empty"


def _seconds(text: str) -> float | None:
    """Retry-After in seconds; API servers do not use its other form, a date."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
