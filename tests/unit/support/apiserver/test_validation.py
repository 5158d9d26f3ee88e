"""What may be stored."""

from typing import Any

import pytest

from interpose.kube.client.api import CONFIG_MAPS, EVENTS, NODES
from tests.support.apiserver.resources import BY_RESOURCE, NameRule
from tests.support.apiserver.validation import causes, name_problem


@pytest.mark.parametrize(
    ("rule", "name", "good"),
    [
        (NameRule.SUBDOMAIN, "a.b-c", True),
        (NameRule.SUBDOMAIN, "A", False),
        (NameRule.SUBDOMAIN, "a_b", False),
        (NameRule.SUBDOMAIN, "-a", False),
        (NameRule.SUBDOMAIN, "a..b", False),
        (NameRule.SUBDOMAIN, "a" * 254, False),
        (NameRule.LABEL, "a-b", True),
        (NameRule.LABEL, "a.b", False),
        (NameRule.LABEL, "a" * 64, False),
        (NameRule.SEGMENT, "system:node", True),
        (NameRule.SEGMENT, "a/b", False),
        (NameRule.SEGMENT, "..", False),
    ],
)
def test_names(rule: NameRule, name: str, good: bool) -> None:
    """By the rule of their kind."""
    assert (name_problem(rule, name) == "") is good


def _fields(resource: Any, body: dict[str, Any], previous: dict[str, Any] | None = None) -> list[str]:
    body = {**body, "metadata": {"name": "x", **body.get("metadata", {})}}
    return [cause.field for cause in causes(BY_RESOURCE[resource], body, previous)]


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({"labels": {"a/b": "c", "d": ""}, "annotations": {"A/b": "any thing"}}, []),
        ({"name": ""}, ["metadata.name"]),
        ({"name": "X"}, ["metadata.name"]),
        ({"labels": {"a b": "c"}}, ["metadata.labels"]),
        ({"labels": {"_/a": "c"}}, ["metadata.labels"]),
        ({"labels": {"a": "b c"}}, ["metadata.labels"]),
        ({"labels": {"a": "b" * 64}}, ["metadata.labels"]),
        ({"labels": {"a": 1}}, ["metadata.labels"]),
        ({"annotations": {"a b": ""}}, ["metadata.annotations"]),
        ({"annotations": {"a": "x" * (256 << 10)}}, ["metadata.annotations"]),
    ],
)
def test_metadata(metadata: dict[str, Any], fields: list[str]) -> None:
    """Names, labels and annotations of every kind."""
    assert _fields(NODES, {"metadata": metadata}) == fields


@pytest.mark.parametrize(
    ("body", "previous", "fields"),
    [
        ({"data": {"policy.static": "x"}}, None, []),
        ({"data": {"a/b": "x"}}, None, ["data[a/b]"]),
        ({"binaryData": {"..": "x"}}, None, ["binaryData[..]"]),
        ({"data": {"a": "x" * ((1 << 20) + 1)}}, None, ["[]"]),
        ({"data": {"a": "b"}, "immutable": True}, {"data": {"a": "c"}, "immutable": True}, ["data"]),
    ],
)
def test_config_maps(body: dict[str, Any], previous: dict[str, Any] | None, fields: list[str]) -> None:
    """Keys, the size, and those that must not change."""
    assert _fields(CONFIG_MAPS, body, previous) == fields


@pytest.mark.parametrize(
    ("namespace", "involved", "fields"),
    [
        ("default", "", []),
        ("kube-system", "", ["involvedObject.namespace"]),
        ("kube-system", "kube-system", []),
        ("default", "kube-system", ["involvedObject.namespace"]),
    ],
)
def test_events(namespace: str, involved: str, fields: list[str]) -> None:
    """Are where the object is; of those without a namespace, in `default`."""
    body = {"metadata": {"namespace": namespace}, "involvedObject": {"namespace": involved}}
    assert _fields(EVENTS, body) == fields


@pytest.mark.parametrize(
    ("taints", "fields"),
    [
        ([{"key": "a/b", "value": "c", "effect": "NoSchedule"}, {"key": "a/b", "effect": "NoExecute"}], []),
        ([{"effect": "NoSchedule"}], ["metadata.taints[0].key"]),
        ([{"key": "a", "value": "b c", "effect": "NoSchedule"}], ["metadata.taints[0].value"]),
        ([{"key": "a"}], ["metadata.taints[0].effect"]),
        ([{"key": "a", "effect": "Never"}], ["metadata.taints[0].effect"]),
        ([{"key": "a", "effect": "NoExecute"}] * 2, ["metadata.taints[1]"]),
    ],
)
def test_taints(taints: list[dict[str, str]], fields: list[str]) -> None:
    """Of nodes: complete, known, and once each."""
    assert _fields(NODES, {"spec": {"taints": taints}}) == fields


@pytest.mark.parametrize(
    ("name", "amount", "good"),
    [
        ("cpu", "1500m", True),
        ("memory", "1.5Gi", True),
        ("memory", "1e3", True),
        ("cpu", "abc", False),
        ("cmk.intel.com/exclusive-cores", "3", True),
        ("cmk.intel.com/exclusive-cores", "1500m", False),
        ("attachable.kubernetes.io/x", "1500m", True),
    ],
)
def test_amounts(name: str, amount: str, good: bool) -> None:
    """Of what a node has: quantities, and whole pieces of what others count."""
    expected = [] if good else [f"status.capacity.{name}"]
    assert _fields(NODES, {"status": {"capacity": {name: amount}}}) == expected
