"""Requests with one answer."""

from typing import Any

import pytest

from interpose.kube.client.api import CONFIG_MAPS, NODE_SLOS, NODES, Object, PatchKind
from tests.support.apiserver.operations import Operations, parse_body
from tests.support.apiserver.paths import Target, find_target
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.store import Store

_JSON = "application/json"


class _Door:
    """Admission that lets everything in, and may do something meanwhile."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[tuple[str, bool]] = []
        self.meddle: list[dict[str, str]] = []

    async def admit(
        self, operation: str, target: Target, user: str, given: Object, old: Object | None, dry_run: bool
    ) -> Object:
        """Somebody else writes while webhooks are asked."""
        self.asked.append((operation, dry_run))
        if self.meddle:
            self.store.put(NODES, {"metadata": {"name": "n", "labels": self.meddle.pop()}})
        return given


@pytest.fixture
def door(store: Store) -> _Door:
    """Of the operations."""
    store.put(NODES, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}})
    return _Door(store)


@pytest.fixture
def operations(store: Store, door: _Door) -> Operations:
    """On a store with one node."""
    return Operations(store, door.admit)


async def _ask(
    operations: Operations, method: str, path: str, body: Any = None, *, content_type: str = _JSON, **query: str
) -> tuple[int, Any]:
    target = find_target(method, path, query)
    try:
        return await operations.answer(target, query, content_type=content_type, body=body, user="me")
    except RefusedError as refused:
        return refused.code, refused.body()


async def test_the_life_of_an_object(operations: Operations) -> None:
    """Created, read, listed, replaced, patched, deleted."""
    path = "/api/v1/namespaces/default/configmaps"
    code, made = await _ask(operations, "POST", path, {"metadata": {"name": "m"}, "data": {"a": "b"}})
    assert (code, made["data"]) == (201, {"a": "b"})
    assert await _ask(operations, "GET", f"{path}/m") == (200, made)
    assert (await _ask(operations, "GET", path))[1]["items"] == [made]
    code, newer = await _ask(operations, "PUT", f"{path}/m", {**made, "data": {"a": "c"}})
    assert (code, newer["data"]) == (200, {"a": "c"})
    code, newest = await _ask(operations, "PATCH", f"{path}/m", {"data": {"d": "e"}}, content_type=PatchKind.MERGE)
    assert (code, newest["data"]) == (200, {"a": "c", "d": "e"})
    code, status = await _ask(operations, "DELETE", f"{path}/m")
    assert (code, status["status"], status["details"]["uid"]) == (200, "Success", made["metadata"]["uid"])
    assert (await _ask(operations, "GET", f"{path}/m"))[0] == 404


async def test_an_older_version_does_not_replace(operations: Operations, store: Store) -> None:
    """409, for updates and for patches that name a version."""
    old = store.get(NODES, "n")
    store.put(NODES, {"metadata": {"name": "n", "labels": {"a": "b"}}})
    assert (await _ask(operations, "PUT", "/api/v1/nodes/n", old))[0] == 409
    patch = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"], "labels": {"x": "y"}}}
    code, status = await _ask(operations, "PATCH", "/api/v1/nodes/n", patch, content_type=PatchKind.MERGE)
    assert (code, status["reason"]) == (409, "Conflict")


async def test_a_patch_without_a_version_is_tried_again(operations: Operations, store: Store, door: _Door) -> None:
    """When somebody else was faster."""
    door.meddle = [{"a": "1"}, {"a": "2"}]
    patch = {"metadata": {"labels": {"x": "y"}}}
    code, node = await _ask(operations, "PATCH", "/api/v1/nodes/n", patch, content_type=PatchKind.STRATEGIC)
    assert (code, node["metadata"]["labels"]) == (200, {"a": "1", "x": "y"})
    door.meddle = [{"a": str(number)} for number in range(9)]
    assert (await _ask(operations, "PATCH", "/api/v1/nodes/n", patch, content_type=PatchKind.STRATEGIC))[0] == 409


async def test_the_status_has_a_path_of_its_own(operations: Operations) -> None:
    """For patches and updates."""
    patch = {"status": {"capacity": {"cpu": "3"}}}
    _, node = await _ask(operations, "PATCH", "/api/v1/nodes/n", patch, content_type=PatchKind.STRATEGIC)
    assert node["status"]["capacity"] == {"cpu": "2"}
    _, node = await _ask(operations, "PATCH", "/api/v1/nodes/n/status", patch, content_type=PatchKind.STRATEGIC)
    assert node["status"]["capacity"] == {"cpu": "3"}


async def test_dry_runs(operations: Operations, store: Store, door: _Door) -> None:
    """Of all writes; webhooks are told."""
    version = store.version
    await _ask(operations, "POST", "/api/v1/nodes", {"metadata": {"name": "m"}}, dryRun="All")
    await _ask(operations, "PUT", "/api/v1/nodes/n", {"spec": {"a": 1}}, dryRun="All")
    await _ask(operations, "DELETE", "/api/v1/nodes/n", dryRun="All")
    await _ask(operations, "DELETE", "/api/v1/nodes/n", {"dryRun": ["All"]})
    assert (store.version, door.asked) == (version, [("CREATE", True), ("UPDATE", True)])
    assert (await _ask(operations, "DELETE", "/api/v1/nodes/n", dryRun="Some"))[0] == 422


async def test_all_of_a_kind_can_be_deleted(operations: Operations, store: Store) -> None:
    """As far as selectors choose them."""
    for name in ("a", "b"):
        store.put(CONFIG_MAPS, {"metadata": {"name": name, "labels": {"name": name}}})
    await _ask(operations, "DELETE", "/api/v1/namespaces/default/configmaps", labelSelector="name=a")
    assert [item["metadata"]["name"] for item in store.list(CONFIG_MAPS)] == ["b"]


async def test_what_is_marked_for_deletion_is_answered(operations: Operations, store: Store) -> None:
    """Instead of a status; of a group the status names it."""
    store.put(NODE_SLOS, {"metadata": {"name": "n", "finalizers": ["a/b"]}})
    path = "/apis/slo.koordinator.sh/v1alpha1/nodeslos/n"
    assert "deletionTimestamp" in (await _ask(operations, "DELETE", path))[1]["metadata"]
    store.put(NODE_SLOS, {"metadata": {"name": "m"}})
    assert (await _ask(operations, "DELETE", path[:-1] + "m"))[1]["details"]["group"] == "slo.koordinator.sh"


async def test_a_strict_reader(operations: Operations) -> None:
    """Refuses fields nobody knows; others drop them."""
    body = {"metadata": {"name": "m"}, "dta": {}}
    path = "/api/v1/namespaces/default/configmaps"
    code, status = await _ask(operations, "POST", path, body, fieldValidation="Strict")
    assert (code, 'unknown field "dta"' in status["message"]) == (400, True)
    assert (await _ask(operations, "POST", path, body, fieldValidation="Ignore"))[0] == 201
    patch: dict[str, Any] = {"dta": {}}
    query = {"content_type": PatchKind.MERGE, "fieldValidation": "Strict"}
    assert (await _ask(operations, "PATCH", f"{path}/m", patch, **query))[0] == 400


@pytest.mark.parametrize(("content_type", "body", "code"), [("application/yaml", {}, 415), (_JSON, [], 400)])
async def test_bodies_that_are_no_objects(operations: Operations, content_type: str, body: Any, code: int) -> None:
    """By type or by form."""
    assert (await _ask(operations, "POST", "/api/v1/nodes", body, content_type=content_type))[0] == code


async def test_a_patch_that_breaks_the_metadata(operations: Operations) -> None:
    """Is refused as any other such object."""
    patch = [{"op": "replace", "path": "/metadata", "value": 1}]
    assert (await _ask(operations, "PATCH", "/api/v1/nodes/n", patch, content_type=PatchKind.JSON))[0] == 400


def test_parsing_bodies() -> None:
    """JSON of any kind of patch; nothing is None; what is broken is 400."""
    assert parse_body(PatchKind.MERGE, b'{"a": 1}') == {"a": 1}
    assert parse_body(_JSON, b"") is None
    assert parse_body("text/plain", b"x") is None
    with pytest.raises(RefusedError):
        parse_body(_JSON, b"{")
