"""Requests about objects that have one answer: everything but watches.

Writes of pods pass through admission, which may wait for webhooks; everything else is done at once.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from interpose.kube.client.api import Object
from tests.support.apiserver.listing import Lists
from tests.support.apiserver.patch.patches import apply_patch
from tests.support.apiserver.patch.proto_body import CONTENT_TYPE, read_protobuf
from tests.support.apiserver.patch.strategy import unknown_fields
from tests.support.apiserver.paths import Target
from tests.support.apiserver.problems import RefusedError, bad_request, unsupported_media
from tests.support.apiserver.store import Store

# Operation, target, user, object as it would be, object as it is, whether it is only tried; returns what to store.
Admission: TypeAlias = Callable[[str, Target, str, Object, Object | None, bool], Awaitable[Object]]
Answer: TypeAlias = tuple[int, Mapping[str, Any]]
Query: TypeAlias = Mapping[str, str]

_JSON: Final = "application/json"
_BODIES: Final = (_JSON, CONTENT_TYPE)
_TRIES = 5  # of a patch whose object changes meanwhile


class Operations:
    """What can be done with the objects of a store."""

    def __init__(self, store: Store, admit: Admission) -> None:
        self._store = store
        self._admit = admit
        self._lists = Lists(store)

    async def answer(self, target: Target, query: Query, *, content_type: str, body: Any, user: str) -> Answer:
        """Code and body; RefusedError if it is not done."""
        match target.verb:
            case "get":
                return 200, self._get(target)
            case "list":
                return 200, self._lists.answer(target, query)
            case "create":
                return 201, await self._create(target, query, content_type, body, user)
            case "update":
                return 200, await self._update(target, query, content_type, body, user)
            case "patch":
                return 200, await self._patch(target, query, content_type, body, user)
            case "delete":
                return 200, self._delete(target, query, body)
            case _:
                return 200, self._delete_all(target, query)

    def _get(self, target: Target) -> Object:
        return self._store.get(target.kind.resource, target.name, namespace=target.namespace)

    async def _create(self, target: Target, query: Query, content_type: str, body: Any, user: str) -> Object:
        given = _object(target, query, content_type, body)
        admitted = await self._admit("CREATE", target, user, given, None, _dry(query))
        return self._store.create(target.kind.resource, admitted, namespace=target.namespace, dry_run=_dry(query))

    async def _update(self, target: Target, query: Query, content_type: str, body: Any, user: str) -> Object:
        given = _object(target, query, content_type, body)
        return await self._replace(target, query, user, given, self._get(target))

    async def _replace(self, target: Target, query: Query, user: str, given: Object, old: Object) -> Object:
        admitted = await self._admit("UPDATE", target, user, given, old, _dry(query))
        return self._store.replace(
            target.kind.resource,
            target.name,
            admitted,
            namespace=target.namespace,
            subresource=target.subresource,
            dry_run=_dry(query),
        )

    async def _patch(self, target: Target, query: Query, content_type: str, body: Any, user: str) -> Object:
        for left in reversed(range(_TRIES)):
            old = self._get(target)
            patched = apply_patch(target.kind, content_type, old, body)
            if query.get("fieldValidation") == "Strict":
                _check_strictly(target, patched)
            try:
                return await self._replace(target, query, user, patched, old)
            except RefusedError as refusal:
                # The patch itself says nothing about a version, so it fits the newer object as well.
                own = _version(patched) == _version(old) != _version(self._get(target))
                if refusal.reason != "Conflict" or not left or not own:
                    raise
        raise AssertionError("the last try returns or raises")

    def _delete(self, target: Target, query: Query, body: Any) -> Mapping[str, Any]:
        options = body if isinstance(body, Mapping) else {}
        dry_run = _dry(query) or options.get("dryRun") == ["All"]
        gone = self._store.remove(
            target.kind.resource,
            target.name,
            namespace=target.namespace,
            preconditions=options.get("preconditions"),
            dry_run=dry_run,
        )
        if gone["metadata"].get("deletionTimestamp"):
            return gone
        details = {"name": target.name, "kind": target.kind.resource.plural, "uid": gone["metadata"]["uid"]}
        if target.kind.resource.group:
            details["group"] = target.kind.resource.group
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def _delete_all(self, target: Target, query: Query) -> Mapping[str, Any]:
        listed = self._lists.answer(target, query)
        for item in listed["items"]:
            name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
            self._store.remove(target.kind.resource, name, namespace=namespace, dry_run=_dry(query))
        return listed


def parse_body(content_type: str, raw: bytes) -> Any:
    """The body, or None if there is none or its content type is not known: whoever needs one refuses that."""
    if content_type == CONTENT_TYPE:
        return read_protobuf(raw)
    if not raw or "json" not in content_type:
        return None
    try:
        return json.loads(raw)
    except ValueError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None


def _dry(query: Query) -> bool:
    wanted = query.get("dryRun", "")
    if wanted not in ("", "All"):
        raise RefusedError(422, "Invalid", f'dryRun: Unsupported value: "{wanted}": supported values: "All"')
    return wanted == "All"


def _object(target: Target, query: Query, content_type: str, body: Any) -> Object:
    if content_type not in _BODIES:
        raise unsupported_media(_BODIES)
    if not isinstance(body, Mapping):
        raise bad_request("the body of the request is not an object")
    if query.get("fieldValidation") == "Strict":
        _check_strictly(target, body)
    return body


def _check_strictly(target: Target, body: Object) -> None:
    if unknown := unknown_fields(target.kind, body):
        kind = target.kind.resource
        found = ", ".join(f'unknown field "{key}"' for key in unknown)
        raise bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {found}"
        )


def _version(candidate: Object) -> Any:
    return candidate["metadata"].get("resourceVersion") if isinstance(candidate.get("metadata"), Mapping) else None
