"""Objects, versions and history."""

import pytest

from interpose.kube.client.api import CONFIG_MAPS, NODE_SLOS, NODES, WatchChange
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.resources import NAMESPACES
from tests.support.apiserver.store import Happening, Store

_SLO = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO"}


def test_every_change_has_a_higher_version(store: Store) -> None:
    """One counter for all kinds."""
    node = store.create(NODES, {"metadata": {"name": "n"}})
    slo = store.create(NODE_SLOS, {**_SLO, "metadata": {"name": "n"}})
    newer = store.replace(NODES, "n", {"metadata": {"labels": {"a": "b"}}})
    versions = [int(item["metadata"]["resourceVersion"]) for item in (node, slo, newer)]
    assert versions == sorted(set(versions))
    assert versions[-1] == store.version


def test_a_write_that_changes_nothing_is_no_change(store: Store) -> None:
    """The version stays, nobody is told."""
    node = store.create(NODES, {"metadata": {"name": "n"}})
    told: list[Happening] = []
    store.listeners.append(told.append)
    assert store.replace(NODES, "n", {"metadata": {}}) is node
    assert store.put(NODES, {"metadata": {"name": "n"}}) is node
    assert (told, store.version) == ([], int(node["metadata"]["resourceVersion"]))


def test_what_is_handed_out_does_not_change(store: Store) -> None:
    """Neither with the body that was given nor with later writes."""
    body = {"metadata": {"name": "m"}, "data": {"a": "b"}}
    first = store.create(CONFIG_MAPS, body, namespace="default")
    body["data"]["a"] = "c"
    store.replace(CONFIG_MAPS, "m", {"metadata": {}, "data": {"a": "d"}}, namespace="default")
    assert first["data"] == {"a": "b"}


def test_names_are_taken_once(store: Store) -> None:
    """In each namespace; after a deletion the name is free and the id another."""
    first = store.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace="default")
    with pytest.raises(RefusedError, match="already exists"):
        store.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace="default")
    store.create(NAMESPACES, {"metadata": {"name": "other"}})
    store.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace="other")
    assert len(store.list(CONFIG_MAPS)) == 2
    store.remove(CONFIG_MAPS, "m", namespace="default")
    again = store.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace="default")
    assert again["metadata"]["uid"] != first["metadata"]["uid"]


def test_a_namespace_has_to_be_there(store: Store) -> None:
    """And what is in it goes with it."""
    with pytest.raises(RefusedError, match='namespaces "other" not found'):
        store.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace="other")
    store.create(CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace="default")
    store.remove(NAMESPACES, "default", dry_run=True)
    assert store.list(CONFIG_MAPS, namespace="default") != []
    store.remove(NAMESPACES, "default")
    assert store.list(CONFIG_MAPS) == []


def test_listeners_hear_of_each_change(store: Store) -> None:
    """With how it was before; a deletion has a version of its own."""
    told: list[Happening] = []
    store.listeners.append(told.append)
    store.create(NODES, {"metadata": {"name": "n"}})
    store.replace(NODES, "n", {"metadata": {"labels": {"a": "b"}}})
    store.remove(NODES, "n")
    assert [happening.change for happening in told] == [WatchChange.ADDED, WatchChange.MODIFIED, WatchChange.DELETED]
    assert [happening.previous is None for happening in told] == [True, False, False]
    assert told[2].object["metadata"]["resourceVersion"] == str(told[2].version)
    assert told[2].object["metadata"]["labels"] == {"a": "b"}


def test_dry_runs_change_nothing(store: Store) -> None:
    """They answer what would be."""
    version = store.version
    assert store.create(NODES, {"metadata": {"name": "n"}}, dry_run=True)["metadata"]["name"] == "n"
    assert (store.list(NODES), store.version) == ([], version)
    store.create(NODES, {"metadata": {"name": "n"}})
    store.replace(NODES, "n", {"metadata": {"labels": {"a": "b"}}}, dry_run=True)
    store.remove(NODES, "n", dry_run=True)
    assert "labels" not in store.get(NODES, "n")["metadata"]


def test_finalizers_hold_an_object(store: Store) -> None:
    """Marked for deletion, gone when the last finalizer is."""
    store.create(NODES, {"metadata": {"name": "n", "finalizers": ["a"]}})
    marked = store.remove(NODES, "n")
    assert "deletionTimestamp" in marked["metadata"]
    assert store.remove(NODES, "n") is marked
    store.replace(NODES, "n", {"metadata": {"labels": {"a": "b"}, "finalizers": ["a"]}})
    store.replace(NODES, "n", {"metadata": {}})
    assert store.list(NODES) == []


def test_a_deletion_may_name_what_it_means(store: Store) -> None:
    """Another id or version: nothing is deleted."""
    node = store.create(NODES, {"metadata": {"name": "n"}})
    with pytest.raises(RefusedError) as caught:
        store.remove(NODES, "n", preconditions={"uid": "other"})
    assert caught.value.reason == "Conflict"
    store.remove(NODES, "n", preconditions={"uid": node["metadata"]["uid"]})
    with pytest.raises(RefusedError, match="not found"):
        store.remove(NODES, "n")


def test_the_past_is_there_by_version_and_kind(store: Store) -> None:
    """From right after a version on."""
    start = store.version
    store.create(NODES, {"metadata": {"name": "n"}})
    store.create(NODE_SLOS, {**_SLO, "metadata": {"name": "n"}})
    store.remove(NODES, "n")
    assert [past.change for past in store.since(NODES, start)] == [WatchChange.ADDED, WatchChange.DELETED]
    assert [past.change for past in store.since(NODES, start + 1)] == [WatchChange.DELETED]
    assert store.since(NODES, store.version) == []


def test_the_past_is_forgotten(store: Store) -> None:
    """The oldest first, or all at once."""
    start = store.version
    for number in range(21):
        store.put(NODES, {"metadata": {"name": "n", "labels": {"a": str(number)}}})
    with pytest.raises(RefusedError) as caught:
        store.since(NODES, start)
    assert caught.value.code == 410
    assert len(store.since(NODES, store.compacted)) == 20
    seen = store.version
    store.forget()
    with pytest.raises(RefusedError):
        store.since(NODES, seen)
    assert store.since(NODES, store.version) == []


def test_a_test_may_put_what_it_wants(store: Store) -> None:
    """Status and all, in `default` if it names no namespace."""
    store.put(NODE_SLOS, {"metadata": {"name": "n"}, "status": {"a": 1}})
    changed = store.put(NODE_SLOS, {"metadata": {"name": "n"}, "status": {"a": 2}})
    assert changed["status"] == {"a": 2}
    store.put(CONFIG_MAPS, {"metadata": {"name": "m"}})
    assert store.get(CONFIG_MAPS, "m", namespace="default")["metadata"]["namespace"] == "default"
