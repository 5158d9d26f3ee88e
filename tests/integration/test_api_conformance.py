"""What the agent relies on, of any API server.

By default against our test API server; with INTERPOSE_TEST_KUBECONFIG=FILE against a real cluster, which shows that
ours is like it. Faults that no real cluster has on demand are in test_apiserver.py.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interpose.kube.client.api import BALLOONS_POLICIES, CONFIG_MAPS, NODE_SLOS, NODES, ApiError, PatchKind, WatchChange
from tests.support.kube.clusters import VARIABLE, Cluster, open_cluster, why_not


@pytest.fixture(scope="session")
def real_cluster() -> str:
    """The kubeconfig of a real cluster, or nothing. Read early: tests have no variables of ours."""
    return os.environ.get(VARIABLE, "")


@pytest.fixture
async def cluster(real_cluster: str, scratch: Path) -> AsyncIterator[Cluster]:
    """One with a namespace and a node of this test alone."""
    if real_cluster and (reason := why_not(real_cluster)):
        pytest.skip(reason)
    async with open_cluster(scratch, real_cluster) as opened:
        yield opened


def _map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_a_list_of_one_name(cluster: Cluster) -> None:
    """Has the object or not, and a version either way."""
    where = {"namespace": cluster.namespace, "name": "m"}
    absent = await cluster.api.list(CONFIG_MAPS, **where)
    await cluster.api.create(CONFIG_MAPS, _map("m", a="b"), namespace=cluster.namespace)
    await cluster.api.create(CONFIG_MAPS, _map("other"), namespace=cluster.namespace)
    present = await cluster.api.list(CONFIG_MAPS, **where)
    assert absent.items == ()
    assert int(absent.version) < int(present.version)
    assert [item["data"] for item in present.items] == [{"a": "b"}]


async def test_a_watch_goes_on_where_a_list_ended(cluster: Cluster) -> None:
    """Nothing between the two is missed; other names are not told."""
    where = {"namespace": cluster.namespace, "name": "m"}
    listed = await cluster.api.list(CONFIG_MAPS, **where)
    made = await cluster.api.create(CONFIG_MAPS, _map("m", a="1"), namespace=cluster.namespace)
    await cluster.api.create(CONFIG_MAPS, _map("other"), namespace=cluster.namespace)
    await cluster.api.replace(CONFIG_MAPS, "m", {**made, "data": {"a": "2"}}, namespace=cluster.namespace)
    await cluster.delete(CONFIG_MAPS, "m", namespace=cluster.namespace)
    events = await cluster.events_of(CONFIG_MAPS, listed.version, 3, **where)
    assert [event.change for event in events] == [WatchChange.ADDED, WatchChange.MODIFIED, WatchChange.DELETED]
    assert [event.object["data"] for event in events] == [{"a": "1"}, {"a": "2"}, {"a": "2"}]


async def test_a_deletion_has_a_version_of_its_own(cluster: Cluster) -> None:
    """A watch that goes on from it does not hear of it again."""
    where = {"namespace": cluster.namespace, "name": "m"}
    made = await cluster.api.create(CONFIG_MAPS, _map("m"), namespace=cluster.namespace)
    await cluster.delete(CONFIG_MAPS, "m", namespace=cluster.namespace)
    (deleted,) = await cluster.events_of(CONFIG_MAPS, made["metadata"]["resourceVersion"], 1, **where)
    version = deleted.object["metadata"]["resourceVersion"]
    assert int(version) > int(made["metadata"]["resourceVersion"])
    await cluster.api.create(CONFIG_MAPS, _map("m"), namespace=cluster.namespace)
    (next_one,) = await cluster.events_of(CONFIG_MAPS, version, 1, **where)
    assert next_one.change is WatchChange.ADDED
    assert next_one.object["metadata"]["uid"] != made["metadata"]["uid"]


async def test_a_version_from_long_ago_is_expired(cluster: Cluster) -> None:
    """Whichever way the server says it, the client tells that it has to list again."""
    await cluster.api.create(CONFIG_MAPS, _map("m"), namespace=cluster.namespace)
    try:
        await cluster.events_of(CONFIG_MAPS, "1", 1, namespace=cluster.namespace)
    except ApiError as error:
        told = error.expired
    else:
        if cluster.server is None:
            pytest.skip("this cluster is so young that it remembers everything")
        told = False
    assert told


async def test_a_name_is_taken(cluster: Cluster) -> None:
    """409 AlreadyExists."""
    await cluster.api.create(CONFIG_MAPS, _map("m"), namespace=cluster.namespace)
    with pytest.raises(ApiError) as caught:
        await cluster.api.create(CONFIG_MAPS, _map("m"), namespace=cluster.namespace)
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")


async def test_somebody_else_was_faster(cluster: Cluster) -> None:
    """409 Conflict, for an older version in an update and in a merge patch."""
    made = await cluster.api.create(CONFIG_MAPS, _map("m", a="1"), namespace=cluster.namespace)
    await cluster.api.replace(CONFIG_MAPS, "m", {**made, "data": {"a": "2"}}, namespace=cluster.namespace)
    with pytest.raises(ApiError) as updated:
        await cluster.api.replace(CONFIG_MAPS, "m", {**made, "data": {"a": "3"}}, namespace=cluster.namespace)
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(ApiError) as patched:
        await cluster.api.patch(CONFIG_MAPS, "m", patch, kind=PatchKind.MERGE, namespace=cluster.namespace)
    assert [(error.value.code, error.value.reason) for error in (updated, patched)] == [(409, "Conflict")] * 2


async def test_what_is_not_there(cluster: Cluster) -> None:
    """404 NotFound, for reading and patching."""
    for ask in (
        cluster.api.get(CONFIG_MAPS, "none", namespace=cluster.namespace),
        cluster.api.patch(CONFIG_MAPS, "none", {}, kind=PatchKind.MERGE, namespace=cluster.namespace),
    ):
        with pytest.raises(ApiError) as caught:
            await ask
        assert (caught.value.code, caught.value.reason) == (404, "NotFound")


@pytest.mark.parametrize("kind", [PatchKind.MERGE, PatchKind.STRATEGIC])
async def test_annotations_are_merged(cluster: Cluster, kind: PatchKind) -> None:
    """Others stay; null removes; what changes nothing is no change."""
    patch = {"metadata": {"annotations": {"interpose/a": "1", "interpose/b": "2"}}}
    await cluster.api.patch(NODES, cluster.node, patch, kind=kind)
    node = await cluster.api.patch(NODES, cluster.node, {"metadata": {"annotations": {"interpose/a": None}}}, kind=kind)
    kept = {key: value for key, value in node["metadata"]["annotations"].items() if key.startswith("interpose/")}
    assert kept == {"interpose/b": "2"}
    assert node["metadata"]["labels"]["interpose/test"] == "true"


async def test_a_write_that_changes_nothing(cluster: Cluster) -> None:
    """Leaves the version as it is."""
    made = await cluster.api.create(CONFIG_MAPS, _map("m", a="1"), namespace=cluster.namespace)
    again = await cluster.api.patch(
        CONFIG_MAPS, "m", {"data": {"a": "1"}}, kind=PatchKind.MERGE, namespace=cluster.namespace
    )
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_conditions_merge_by_type(cluster: Cluster) -> None:
    """Through nodes/status with a strategic merge patch; those of others stay."""
    for word, status in (("OneOfOthers", "True"), ("InterposeTest", "False"), ("InterposeTest", "True")):
        condition = {"type": word, "status": status, "reason": "Test", "message": status}
        patch = {"status": {"conditions": [condition]}}
        node = await cluster.api.patch(NODES, cluster.node, patch, kind=PatchKind.STRATEGIC, subresource="status")
    ours = {item["type"]: item["status"] for item in node["status"]["conditions"]}
    assert {"OneOfOthers": "True", "InterposeTest": "True"}.items() <= ours.items()


async def test_capacity_is_part_of_the_status(cluster: Cluster) -> None:
    """A patch of the node itself does not set it, one of its status does and leaves the spec alone."""
    patch: dict[str, Any] = {
        "status": {"capacity": {"cmk.intel.com/exclusive-cores": "3"}},
        "spec": {"unschedulable": True},
    }
    node = await cluster.api.patch(NODES, cluster.node, patch, kind=PatchKind.STRATEGIC, subresource="status")
    assert node["status"]["capacity"]["cmk.intel.com/exclusive-cores"] == "3"
    assert "unschedulable" not in node.get("spec", {})
    patch["status"]["capacity"]["cmk.intel.com/exclusive-cores"] = "4"
    node = await cluster.api.patch(NODES, cluster.node, patch, kind=PatchKind.STRATEGIC)
    assert node["status"]["capacity"]["cmk.intel.com/exclusive-cores"] == "3"
    assert node["spec"]["unschedulable"] is True


async def test_a_json_patch_counts_whole_or_not_at_all(cluster: Cluster) -> None:
    """A test that fails is 422, and what came before it is not done."""
    patch = [
        {"op": "add", "path": "/metadata/labels/interpose~1x", "value": "y"},
        {"op": "test", "path": "/metadata/labels/interpose~1test", "value": "false"},
    ]
    with pytest.raises(ApiError) as caught:
        await cluster.api.patch(NODES, cluster.node, patch, kind=PatchKind.JSON)
    assert caught.value.code == 422
    node = await cluster.api.get(NODES, cluster.node)
    assert "interpose/x" not in node["metadata"]["labels"]
    patch[1]["value"] = "true"
    node = await cluster.api.patch(NODES, cluster.node, patch, kind=PatchKind.JSON)
    assert node["metadata"]["labels"]["interpose/x"] == "y"


async def test_taints_are_replaced_whole(cluster: Cluster) -> None:
    """By a strategic merge patch too: whoever adds one has to read the others first."""
    for key in ("interpose/a", "interpose/b"):
        taint = {"key": key, "value": "x", "effect": "PreferNoSchedule"}
        node = await cluster.api.patch(NODES, cluster.node, {"spec": {"taints": [taint]}}, kind=PatchKind.STRATEGIC)
        assert {"interpose/a", "interpose/b"} & {taint["key"] for taint in node["spec"]["taints"]} == {key}


@pytest.mark.parametrize(
    ("taint", "what"),
    [({"key": "a", "effect": "Never"}, "effect"), ({"key": "a b", "effect": "NoSchedule"}, "key")],
)
async def test_what_is_invalid(cluster: Cluster, taint: dict[str, str], what: str) -> None:
    """422 with the field."""
    with pytest.raises(ApiError, match=what) as caught:
        await cluster.api.patch(NODES, cluster.node, {"spec": {"taints": [taint]}}, kind=PatchKind.STRATEGIC)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


async def test_names_are_checked(cluster: Cluster) -> None:
    """422 for what is not a DNS name."""
    with pytest.raises(ApiError) as caught:
        await cluster.api.create(CONFIG_MAPS, _map("Not_A_Name"), namespace=cluster.namespace)
    assert caught.value.code == 422


async def test_events_about_a_node_are_in_default(cluster: Cluster) -> None:
    """And are refused anywhere else."""
    resource, body, namespace = cluster.event_about_node(cluster.name("test"))
    made = await cluster.create(resource, body, namespace=namespace)
    assert made["involvedObject"]["name"] == cluster.node
    with pytest.raises(ApiError) as caught:
        await cluster.api.create(resource, body, namespace=cluster.namespace)
    assert caught.value.code == 422


async def test_a_custom_resource(cluster: Cluster) -> None:
    """Has a generation that counts its spec, and takes no strategic merge patch."""
    try:
        named = {"apiVersion": NODE_SLOS.api_version, "kind": NODE_SLOS.kind, "metadata": {"name": cluster.node}}
        made = await cluster.create(NODE_SLOS, {**named, "spec": {}})
    except ApiError as error:
        if error.code == 404:
            pytest.skip("this cluster does not know NodeSLOs: apply deploy/crds first")
        raise
    patch = {"spec": {"cpuBurstStrategy": {"policy": "none"}}}
    changed = await cluster.api.patch(NODE_SLOS, cluster.node, patch, kind=PatchKind.MERGE)
    assert changed["metadata"]["generation"] == made["metadata"]["generation"] + 1
    with pytest.raises(ApiError) as caught:
        await cluster.api.patch(NODE_SLOS, cluster.node, patch, kind=PatchKind.STRATEGIC)
    assert caught.value.code == 415


async def test_nodes_write_their_entries_into_one_status(cluster: Cluster) -> None:
    """A merge patch of one leaves those of others, and null takes one away; none counts as a generation."""
    name = cluster.name("status")
    body = {
        "apiVersion": BALLOONS_POLICIES.api_version,
        "kind": BALLOONS_POLICIES.kind,
        "metadata": {"name": name, "namespace": cluster.namespace},
        "spec": {"reservedResources": {"cpu": "750m"}},
    }
    try:
        made = await cluster.create(BALLOONS_POLICIES, body, namespace=cluster.namespace)
    except ApiError as error:
        if error.code == 404:
            pytest.skip("this cluster does not know BalloonsPolicies: apply deploy/crds/policies first")
        raise
    entries: dict[str, Any] = {node: {"status": "Success", "generation": 1, "errors": ""} for node in ("n1", "n2")}
    found: Any = {}
    for change in (*({node: entry} for node, entry in entries.items()), {"n1": None}):
        found = await cluster.api.patch(
            BALLOONS_POLICIES,
            name,
            {"status": {"nodes": change}},
            kind=PatchKind.MERGE,
            namespace=cluster.namespace,
            subresource="status",
        )
    assert found["status"]["nodes"] == {"n2": entries["n2"]}
    assert found["metadata"]["generation"] == made["metadata"]["generation"]


async def test_a_custom_resource_has_to_say_what_it_is(cluster: Cluster) -> None:
    """400 without apiVersion and kind, which built-in kinds may leave out."""
    with pytest.raises(ApiError) as caught:
        await cluster.create(NODE_SLOS, {"metadata": {"name": cluster.node}})
    if caught.value.code == 404:
        pytest.skip("this cluster does not know NodeSLOs: apply deploy/crds first")
    assert caught.value.code == 400
