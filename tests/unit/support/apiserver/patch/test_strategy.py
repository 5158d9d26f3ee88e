"""What the server makes of a body."""

from typing import Any

import pytest

from interpose.kube.client.api import CONFIG_MAPS, NODE_SLOS, NODES, SECRETS, Resource
from tests.support.apiserver.patch.strategy import newcomer, successor, unknown_fields
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.resources import BY_RESOURCE, CRDS, DEPLOYMENTS, NAMESPACES, PODS

_SLO = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO"}


def _new(resource: Resource, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    return newcomer(BY_RESOURCE[resource], body, namespace=namespace, uid="u-12345", now="now")


def _next(resource: Resource, old: dict[str, Any], body: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    stored = {**old, "metadata": {**old["metadata"], "resourceVersion": "7"}}
    return successor(BY_RESOURCE[resource], stored, body, subresource=subresource)


def test_the_server_fills_in_what_is_its_own() -> None:
    """Kind, id, time; what a client said of those does not count, nor do fields nobody knows."""
    metadata = {"name": "x", "uid": "mine", "labels": {"a": "b"}, "managedFields": [1]}
    made = _new(NODES, {"metadata": metadata, "spec": {}, "odd": 1})
    assert made == {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "x", "labels": {"a": "b"}, "uid": "u-12345", "creationTimestamp": "now"},
        "spec": {},
    }


def test_a_name_is_made_of_its_beginning() -> None:
    """generateName and five characters."""
    assert _new(NODES, {"metadata": {"generateName": "x-"}})["metadata"]["name"] == "x-12345"


@pytest.mark.parametrize(
    ("resource", "kept"), [(NODES, True), (CONFIG_MAPS, False), (NODE_SLOS, False), (PODS, False), (DEPLOYMENTS, False)]
)
def test_the_status_of_a_new_object(resource: Resource, kept: bool) -> None:
    """Counts for nodes only."""
    said = {"apiVersion": resource.api_version, "kind": resource.kind}
    body = {**said, "metadata": {"name": "x"}, "status": {"mine": 1}}
    made = _new(resource, body, "d" if resource.namespaced else "")
    assert ("mine" in made.get("status", {})) is kept


@pytest.mark.parametrize(
    ("resource", "body", "code"),
    [
        (NODES, {"metadata": {"name": "x", "resourceVersion": "1"}}, 500),
        (NODES, {"metadata": {"name": "X"}}, 422),
        (NODES, {"metadata": {}}, 422),
        (NODES, {"metadata": [1]}, 400),
        (NODES, {"kind": "Pod", "metadata": {"name": "x"}}, 400),
        (CONFIG_MAPS, {"metadata": {"name": "x", "namespace": "other"}}, 400),
        (NODE_SLOS, {"metadata": {"name": "x"}}, 400),
        (NODE_SLOS, {"kind": "NodeSLO", "metadata": {"name": "x"}}, 400),
    ],
)
def test_bodies_that_are_refused(resource: Resource, body: dict[str, Any], code: int) -> None:
    """Before anything is stored."""
    with pytest.raises(RefusedError) as caught:
        _new(resource, body, "d" if resource.namespaced else "")
    assert caught.value.code == code


def test_kinds_with_a_beginning_of_their_own() -> None:
    """Namespaces are active, pods pending, definitions established; texts of secrets are encoded."""
    assert _new(NAMESPACES, {"metadata": {"name": "x"}})["status"] == {"phase": "Active"}
    assert _new(PODS, {"metadata": {"name": "x"}}, "d")["status"] == {"phase": "Pending"}
    spec = {"versions": [{"name": "v1", "storage": True}, {"name": "v2"}]}
    made = _new(CRDS, {"metadata": {"name": "x"}, "spec": spec})
    assert made["status"]["storedVersions"] == ["v1"]
    assert {condition["type"] for condition in made["status"]["conditions"]} == {"Established", "NamesAccepted"}
    secret = _new(SECRETS, {"metadata": {"name": "x"}, "stringData": {"a": "b"}}, "d")
    assert (secret["data"], secret["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in _next(SECRETS, secret, {"metadata": {}, "stringData": {"c": "d"}})


def test_an_update_keeps_what_is_the_servers() -> None:
    """Whatever the body says of it."""
    old = _new(NODES, {"metadata": {"name": "x"}, "spec": {"a": 1}})
    new = _next(NODES, old, {"metadata": {"creationTimestamp": "then", "labels": {"a": "b"}}, "spec": {"a": 2}})
    assert new["metadata"] == {**old["metadata"], "labels": {"a": "b"}, "resourceVersion": "7"}
    assert new["spec"] == {"a": 2}


def test_the_object_and_its_status_are_written_apart() -> None:
    """An update of the one does not touch the other; of a node the labels count both ways."""
    old = _new(NODES, {"metadata": {"name": "x"}, "spec": {"a": 1}, "status": {"s": 1}})
    body = {"metadata": {"labels": {"a": "b"}}, "spec": {"a": 2}, "status": {"s": 2}}
    whole, part = _next(NODES, old, body), _next(NODES, old, body, "status")
    assert (whole["spec"], whole["status"], whole["metadata"]["labels"]) == ({"a": 2}, {"s": 1}, {"a": "b"})
    assert (part["spec"], part["status"], part["metadata"]["labels"]) == ({"a": 1}, {"s": 2}, {"a": "b"})
    assert "status" not in _next(NODES, old, {"metadata": {}}, "status")


def test_through_the_status_of_other_kinds_nothing_else_is_written() -> None:
    """Not even labels."""
    old = _new(NODE_SLOS, _SLO | {"metadata": {"name": "x"}, "spec": {"a": 1}})
    body = {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}, "spec": {"a": 2}, "status": {"s": 2}}
    new = _next(NODE_SLOS, old, _SLO | body, "status")
    assert (new["spec"], new["status"], new["metadata"].get("labels")) == ({"a": 1}, {"s": 2}, None)


def test_the_generation_counts_other_contents() -> None:
    """Neither labels nor status."""
    old = _new(DEPLOYMENTS, {"metadata": {"name": "x"}, "spec": {"a": 1}}, "d")
    assert old["metadata"]["generation"] == 1
    labelled = {"metadata": {"labels": {"a": "b"}}, "spec": {"a": 1}, "status": {"s": 1}}
    assert _next(DEPLOYMENTS, old, labelled)["metadata"]["generation"] == 1
    assert _next(DEPLOYMENTS, old, {"metadata": {}, "spec": {"a": 2}})["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("resource", "metadata", "code"),
    [
        (NODES, {"resourceVersion": "6"}, 409),
        (NODES, {"uid": "other"}, 409),
        (NODES, {"name": "y"}, 400),
        (NODE_SLOS, {}, 422),
    ],
)
def test_updates_that_are_refused(resource: Resource, metadata: dict[str, str], code: int) -> None:
    """Of an older version, of another object; custom resources have to say the version."""
    said = {"apiVersion": resource.api_version, "kind": resource.kind}
    old = _new(resource, {**said, "metadata": {"name": "x"}})
    with pytest.raises(RefusedError) as caught:
        _next(resource, old, {**said, "metadata": metadata})
    assert caught.value.code == code


def test_fields_that_a_strict_reader_refuses() -> None:
    """At the top of an object."""
    assert unknown_fields(BY_RESOURCE[CONFIG_MAPS], {"data": {}, "dta": {}, "spec": {}}) == ["dta", "spec"]
