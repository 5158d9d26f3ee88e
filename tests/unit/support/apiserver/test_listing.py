"""Lists and their portions."""

import pytest

from interpose.kube.client.api import NODES
from tests.support.apiserver.listing import Lists
from tests.support.apiserver.paths import find_target
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.store import Store

_NODES = find_target("GET", "/api/v1/nodes", {})


@pytest.fixture
def lists(store: Store) -> Lists:
    """Of five nodes."""
    for number in range(5):
        store.put(NODES, {"metadata": {"name": f"n{number}", "labels": {"odd": str(number % 2)}}})
    return Lists(store)


def _names(answer: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


def test_a_list_has_the_version_of_its_moment(store: Store, lists: Lists) -> None:
    """From which a watch goes on."""
    answer = lists.answer(_NODES, {})
    assert (answer["kind"], answer["apiVersion"]) == ("NodeList", "v1")
    assert answer["metadata"] == {"resourceVersion": str(store.version)}
    assert _names(answer) == ["n0", "n1", "n2", "n3", "n4"]


def test_selectors(lists: Lists) -> None:
    """By fields and labels."""
    assert _names(lists.answer(_NODES, {"labelSelector": "odd=1"})) == ["n1", "n3"]
    assert _names(lists.answer(_NODES, {"fieldSelector": "metadata.name=n3", "labelSelector": "odd=1"})) == ["n3"]


def test_portions_are_those_of_one_moment(store: Store, lists: Lists) -> None:
    """Whatever changes between them."""
    first = lists.answer(_NODES, {"limit": "2"})
    assert first["metadata"]["remainingItemCount"] == 3
    store.remove(NODES, "n4")
    second = lists.answer(_NODES, {"limit": "2", "continue": first["metadata"]["continue"]})
    third = lists.answer(_NODES, {"limit": "2", "continue": second["metadata"]["continue"]})
    assert _names(first) + _names(second) + _names(third) == ["n0", "n1", "n2", "n3", "n4"]
    assert first["metadata"]["resourceVersion"] == third["metadata"]["resourceVersion"]
    assert "continue" not in third["metadata"]


def test_portions_that_are_too_old(store: Store, lists: Lists) -> None:
    """Are 410; those nobody knows 400."""
    token = lists.answer(_NODES, {"limit": "2"})["metadata"]["continue"]
    store.forget()
    for given, code in ((token, 410), ("x", 400)):
        with pytest.raises(RefusedError) as caught:
            lists.answer(_NODES, {"continue": given})
        assert caught.value.code == code


def test_a_version_that_is_not_there_yet(store: Store, lists: Lists) -> None:
    """Is not answered; an old one is, with what is there now."""
    with pytest.raises(RefusedError) as caught:
        lists.answer(_NODES, {"resourceVersion": str(store.version + 1)})
    assert caught.value.code == 504
    assert len(lists.answer(_NODES, {"resourceVersion": "0"})["items"]) == 5
