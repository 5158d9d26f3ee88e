"""Selectors of requests and webhooks."""

from typing import Any

import pytest

from interpose.kube.client.api import CONFIG_MAPS, EVENTS, NODES
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.resources import BY_RESOURCE, PODS
from tests.support.apiserver.selectors import field_test, label_test, selected_name, selector_test

_POD = {"metadata": {"name": "x", "namespace": "d"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("metadata.name=x", True),
        ("metadata.name==x", True),
        ("metadata.name=y", False),
        ("metadata.name!=y", True),
        ("metadata.namespace=d,spec.nodeName=n1", True),
        ("spec.nodeName=n1,status.phase!=Running", False),
        ("spec.serviceAccountName=", True),
    ],
)
def test_field_selectors(text: str, matches: bool) -> None:
    """All terms have to hold; what is not there is empty."""
    assert field_test(BY_RESOURCE[PODS], text)(_POD) is matches


@pytest.mark.parametrize(
    ("resource", "text"), [(CONFIG_MAPS, "data.a=b"), (NODES, "metadata.namespace=d"), (PODS, "x")]
)
def test_a_field_nobody_can_select_by_is_refused(resource: Any, text: str) -> None:
    """Kubernetes has an index for few fields only."""
    with pytest.raises(RefusedError) as caught:
        field_test(BY_RESOURCE[resource], text)
    assert caught.value.code == 400


def test_fields_that_are_no_texts() -> None:
    """Flags are true and false; the source of an event is its component."""
    assert field_test(BY_RESOURCE[NODES], "spec.unschedulable=true")({"spec": {"unschedulable": True}})
    assert field_test(BY_RESOURCE[NODES], "spec.unschedulable=false")({"spec": {"unschedulable": False}})
    assert field_test(BY_RESOURCE[EVENTS], "source=agent")({"source": {"component": "agent"}})


@pytest.mark.parametrize(
    ("text", "name"),
    [("", ""), ("metadata.name=x", "x"), ("metadata.name!=x", ""), ("spec.a=b,metadata.name=y", "y")],
)
def test_the_name_a_selector_asks_for(text: str, name: str) -> None:
    """Rules of access by name go by it."""
    assert selected_name(text) == name


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b=2", True),
        ("a!=1", False),
        ("c!=1", True),
        ("a in (1, 3),b notin (3)", True),
        ("a in (3)", False),
        ("a", True),
        ("!a", False),
        ("!c,b", True),
    ],
)
def test_label_selectors(text: str, matches: bool) -> None:
    """Equality, sets, and whether a label is there."""
    assert label_test(text)({"metadata": {"labels": {"a": "1", "b": "2"}}}) is matches


def test_a_label_selector_that_is_none() -> None:
    """Refused with what it was."""
    with pytest.raises(RefusedError, match="a = = b"):
        label_test("a = = b")


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        (None, True),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_selectors_of_objects(selector: dict[str, Any] | None, matches: bool) -> None:
    """matchLabels and matchExpressions together; none is everything."""
    assert selector_test(selector)({"metadata": {"labels": {"a": "1"}}}) is matches
    assert selector_test({"matchLabels": {"a": "1"}})({}) is False
