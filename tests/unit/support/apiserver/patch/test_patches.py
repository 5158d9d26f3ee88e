"""Merge patches, and which patches a kind takes."""

from typing import Any

import pytest

from interpose.kube.client.api import NODE_SLOS, NODES, PatchKind
from tests.support.apiserver.patch.patches import apply_patch, merge, strategic_merge
from tests.support.apiserver.problems import RefusedError
from tests.support.apiserver.resources import BY_RESOURCE

_NODE, _SLO = BY_RESOURCE[NODES], BY_RESOURCE[NODE_SLOS]


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
        ({"a": 1}, {"a": None, "b": None}, {}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
        ({"a": 1}, [1], [1]),
    ],
)
def test_merge(document: Any, patch: Any, expected: Any) -> None:
    """RFC 7386."""
    assert merge(document, patch) == expected


def test_conditions_merge_by_type() -> None:
    """Others stay, in their places; a new one comes last."""
    document = {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "Disk", "status": "False"}]}
    patch = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "New", "status": "True"}]}
    assert strategic_merge(document, patch)["conditions"] == [
        {"type": "Ready", "status": "False", "reason": "r"},
        {"type": "Disk", "status": "False"},
        {"type": "New", "status": "True"},
    ]


def test_taints_are_replaced_whole() -> None:
    """Kubernetes declares no key for them."""
    document = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    assert strategic_merge(document, {"taints": [{"key": "b", "effect": "NoExecute"}]})["taints"] == [
        {"key": "b", "effect": "NoExecute"}
    ]


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"c": 2}, "d": None}, {"a": {"b": 1, "c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}),
        ({"a": 1, "b": 2}, {"$retainKeys": ["a"], "a": 3}, {"a": 3}),
        (
            {"env": [{"name": "x"}, {"name": "y"}]},
            {"env": [{"name": "x", "$patch": "delete"}]},
            {"env": [{"name": "y"}]},
        ),
        ({"env": [{"name": "x"}]}, {"env": [{"$patch": "replace"}, {"name": "z"}]}, {"env": [{"name": "z"}]}),
        ({"finalizers": ["a"]}, {"finalizers": ["a", "b"]}, {"finalizers": ["a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        (
            {"ports": [{"port": 1, "name": "x"}]},
            {"ports": [{"port": 1, "name": "y"}]},
            {"ports": [{"port": 1, "name": "y"}]},
        ),
        (
            {"env": [{"name": "x"}, {"name": "y"}]},
            {"env": [{"name": "z"}], "$setElementOrder/env": [{"name": "z"}, {"name": "y"}]},
            {"env": [{"name": "z"}, {"name": "y"}, {"name": "x"}]},
        ),
        ({"finalizers": ["a", "b"]}, {"$setElementOrder/finalizers": ["b", "a"]}, {"finalizers": ["b", "a"]}),
        ({"env": ["odd"]}, {"env": ["odder"]}, {"env": ["odder"]}),
        ({}, {"env": [{"name": "x", "value": None}]}, {"env": [{"name": "x"}]}),
        ({}, {"$setElementOrder/env": []}, {}),
    ],
)
def test_strategic_merge(document: Any, patch: Any, expected: Any) -> None:
    """Directives, keys, and lists of words."""
    assert strategic_merge(document, patch) == expected


def test_an_item_without_its_key() -> None:
    """Cannot be merged."""
    with pytest.raises(RefusedError, match="merge key: name"):
        strategic_merge({"env": [{"name": "x"}]}, {"env": [{"value": "y"}]})


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (PatchKind.JSON, [{"op": "add", "path": "/spec", "value": 1}]),
        (PatchKind.MERGE, {"spec": 1}),
        (PatchKind.STRATEGIC, {"spec": 1}),
    ],
)
def test_each_content_type_has_its_patch(content_type: PatchKind, patch: Any) -> None:
    """Three of them for built-in kinds."""
    assert apply_patch(_NODE, content_type, {"kind": "Node"}, patch) == {"kind": "Node", "spec": 1}


@pytest.mark.parametrize(
    ("kind", "content_type", "patch", "code"),
    [
        (_SLO, PatchKind.STRATEGIC, {}, 415),
        (_NODE, "application/json", {}, 415),
        (_NODE, "application/apply-patch+yaml", {}, 415),
        (_NODE, PatchKind.MERGE, [], 400),
        (_NODE, PatchKind.JSON, {}, 400),
        (_NODE, PatchKind.JSON, [{"op": "replace", "path": "", "value": 1}], 400),
    ],
)
def test_what_is_refused(kind: Any, content_type: str, patch: Any, code: int) -> None:
    """Types that a kind does not take, bodies of another form, patches that leave no object."""
    with pytest.raises(RefusedError) as caught:
        apply_patch(kind, content_type, {}, patch)
    assert caught.value.code == code
