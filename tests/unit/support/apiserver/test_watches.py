"""What watches tell."""

import json
from typing import Any

import pytest

from interpose.kube.client.api import CONFIG_MAPS, NODE_SLOS, NODES
from tests.support.apiserver.paths import find_target
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.resources import NAMESPACES
from tests.support.apiserver.store import Store
from tests.support.apiserver.watches import End, Watch


def _watch(store: Store, path: str = "/api/v1/nodes", **query: str) -> Watch:
    return Watch(store, find_target("GET", path, {"watch": "1"}), query)


def _told(watch: Watch) -> list[Any]:
    told: list[Any] = []
    while not watch.lines.empty():
        line = watch.lines.get_nowait()
        if isinstance(line, End):
            told.append(line)
            continue
        event = json.loads(line)
        told.append((event["type"], event["object"].get("metadata", {}).get("name")))
    return told


def test_from_a_version_on(store: Store) -> None:
    """What happened since, then what happens; other kinds do not count."""
    version = store.version
    store.put(NODES, {"metadata": {"name": "a"}})
    watch = _watch(store, resourceVersion=str(version))
    store.put(NODE_SLOS, {"metadata": {"name": "a"}})
    store.put(NODES, {"metadata": {"name": "a", "labels": {"x": "y"}}})
    store.remove(NODES, "a")
    assert _told(watch) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_from_no_version(store: Store, query: dict[str, str]) -> None:
    """What is there comes first."""
    store.put(NODES, {"metadata": {"name": "a"}})
    store.put(NODES, {"metadata": {"name": "b"}})
    watch = _watch(store, fieldSelector="metadata.name=a", **query)
    store.remove(NODES, "a")
    assert _told(watch) == [("ADDED", "a"), ("DELETED", "a")]


def test_a_version_that_is_not_reached_yet_is_waited_for(store: Store) -> None:
    """Without a word about what happens until then: a server does the same."""
    watch = _watch(store, resourceVersion=str(store.version + 1))
    store.put(NODES, {"metadata": {"name": "a"}})
    store.put(NODES, {"metadata": {"name": "b"}})
    assert _told(watch) == [("ADDED", "b")]


def test_a_version_that_is_too_old(store: Store) -> None:
    """Is told in an event, and that is the end."""
    version = store.version
    store.forget()
    watch = _watch(store, resourceVersion=str(version))
    error = json.loads(watch.lines.get_nowait())  # type: ignore[arg-type]
    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
    store.put(NODES, {"metadata": {"name": "a"}})
    assert _told(watch) == [End.CLEAN]


def test_what_leaves_a_selection_is_deleted(store: Store) -> None:
    """And added when it comes back."""
    watch = _watch(store, labelSelector="x=y")
    for labels in ({}, {"x": "y"}, {"x": "y", "z": "1"}, {}, {"x": "y"}):
        store.put(NODES, {"metadata": {"name": "a", "labels": labels}})
    store.remove(NODES, "a")
    assert [change for change, _ in _told(watch)] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]


def test_a_namespace(store: Store) -> None:
    """Others are not seen."""
    store.create(NAMESPACES, {"metadata": {"name": "other"}})
    watch = _watch(store, "/api/v1/namespaces/default/configmaps")
    everywhere = _watch(store, "/api/v1/configmaps")
    store.put(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "other"}})
    store.put(CONFIG_MAPS, {"metadata": {"name": "b", "namespace": "default"}})
    assert _told(watch) == [("ADDED", "b")]
    assert _told(everywhere) == [("ADDED", "a"), ("ADDED", "b")]


def test_bookmarks_come_to_those_who_asked(store: Store) -> None:
    """With the version of the whole server."""
    asked, other = _watch(store, allowWatchBookmarks="true"), _watch(store)
    asked.bookmark()
    other.bookmark()
    event = json.loads(asked.lines.get_nowait())  # type: ignore[arg-type]
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", str(store.version))
    assert _told(other) == []


def test_after_the_end_nothing_comes(store: Store) -> None:
    """The store no longer knows the watch."""
    before = len(store.listeners)
    watch = _watch(store)
    watch.end(End.CUT)
    watch.close()
    store.put(NODES, {"metadata": {"name": "a"}})
    assert _told(watch) == [End.CUT]
    assert len(store.listeners) == before


@pytest.mark.parametrize("query", [{"sendInitialEvents": "true"}, {"resourceVersion": "x"}, {"fieldSelector": "a=b"}])
def test_what_a_watch_cannot_do(store: Store, query: dict[str, str]) -> None:
    """Is refused, and nothing stays behind."""
    before = len(store.listeners)
    with pytest.raises(RefusedError):
        _watch(store, **query)
    assert len(store.listeners) == before
