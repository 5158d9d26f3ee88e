"""Which changes of the node others may ask for."""

import json
from typing import Any

import pytest

from interpose.core.model.jsonpatch import PatchOperation
from interpose.kube.agent.node_keys import Writable
from interpose.kube.agent.node_patches import (
    MAX_OPERATIONS,
    JsonPatch,
    PatchRefusedError,
    UnmetError,
    capacity_patch,
    has_writes,
    needs_node,
    node_patch,
    read_steps,
)
from tests.support.kube.node_api import plain_node

LABEL = "/metadata/labels/cmk.intel.com~1cmk-node"
NOTE = "/metadata/annotations/interpose~1published"
CMK = {"key": "cmk", "value": "true", "effect": "NoSchedule"}
THEIRS = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def patch_of(*operations: tuple[str, ...], node: dict[str, Any] | None = None, **more: Any) -> JsonPatch:
    """What would be sent for these operations."""
    steps = read_steps([PatchOperation(*one) for one in operations], **more)
    return node_patch(steps, node if node is not None else {}, **more)


def node_with(*taints: dict[str, str]) -> dict[str, Any]:
    """A node that has these."""
    return {**plain_node(), "spec": {"taints": list(taints)}}


@pytest.mark.parametrize(
    ("operation", "sent"),
    [
        (("add", LABEL, '"true"'), {"op": "add", "path": LABEL, "value": "true"}),
        (("add", LABEL, "true"), {"op": "add", "path": LABEL, "value": "true"}),
        (("add", LABEL, "12"), {"op": "add", "path": LABEL, "value": "12"}),
        (("add", LABEL, ' "true" '), {"op": "add", "path": LABEL, "value": "true"}),
        (("add", LABEL, ""), {"op": "add", "path": LABEL, "value": ""}),
        (("replace", LABEL, "null"), {"op": "replace", "path": LABEL, "value": "null"}),
        (("remove", LABEL), {"op": "remove", "path": LABEL}),
        (("remove", LABEL, '"x"'), {"op": "remove", "path": LABEL}),
        (("test", LABEL, '"true"'), {"op": "test", "path": LABEL, "value": "true"}),
        (("add", NOTE, '"{\\"a\\":1}"'), {"op": "add", "path": NOTE, "value": '{"a":1}'}),
        (("add", NOTE, '{"a": 1}'), {"op": "add", "path": NOTE, "value": '{"a": 1}'}),
        (
            ("test", "/metadata/labels/kubernetes.io~1hostname", '"n1"'),
            {"op": "test", "path": "/metadata/labels/kubernetes.io~1hostname", "value": "n1"},
        ),
        (("test", "/metadata/labels", "{}"), {"op": "test", "path": "/metadata/labels", "value": {}}),
    ],
)
def test_labels_and_annotations(operation: tuple[str, ...], sent: dict[str, Any]) -> None:
    """A value is JSON, or the bare text that older clients send; the node need not be known."""
    assert not needs_node(read_steps([PatchOperation(*operation)]))
    assert patch_of(operation) == [sent]


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (("move", LABEL), r"operation 0 \(move '/metadata/labels/.*'\): 'move' is not one of add, replace, remove"),
        (("", LABEL), "'' is not one of"),
        (("add", "/spec/unschedulable", "true"), "may not be changed: expected /metadata/labels/KEY"),
        (("add", "/metadata/name", '"x"'), "may not be changed"),
        (("add", "/status/capacity/cpu", '"1"'), "may not be changed"),
        (("add", "", "{}"), "may not be changed"),
        (("add", f"{LABEL}/x", '"1"'), "may not be changed"),
        (("add", "/spec/taints/01", "{}"), "may not be changed"),
        (("add", "/spec/taints/0/value", '"x"'), "may not be changed"),
        (("add", "/metadata/labels/a~2b", '"x"'), "neither ~0 nor ~1"),
        (("add", "/metadata/labels/a~", '"x"'), "neither ~0 nor ~1"),
        (("add", "/metadata/labels/a~0b", '"x"'), "'a~b' is not a name"),
        (("test", "/metadata/labels/a~0b", '"x"'), "'a~b' is not a name"),
        (("add", "/metadata/labels/kubernetes.io~1os", '"x"'), "is in a domain of Kubernetes"),
        (("remove", "/metadata/annotations/node.k8s.io~1x"), "is in a domain of Kubernetes"),
        (("add", "/metadata/annotations/interpose~1config-status", "x"), "is the agent's own"),
        (("add", LABEL, "a b"), "'a b' is not a value"),
        (("add", LABEL, '"tru'), "is not JSON"),
        (("add", LABEL, '"a" "b"'), "is not JSON"),
        (("add", NOTE, "x" * (256 * 1024 + 1)), "a value of 262145 characters is longer than"),
        (("add", "/metadata/labels", '{"a": "b"}'), "can only be added as a whole, with the value {}"),
        (("replace", "/metadata/labels", "{}"), "can only be added as a whole"),
        (("remove", "/metadata/annotations"), "can only be added as a whole"),
        (("add", "/metadata/annotations", "x"), "value 'x' is not JSON"),
        (("test", "/metadata/annotations", "["), "is not JSON"),
        (("add", "/spec/taints", "["), "is not JSON"),
        (("add", "/spec/taints", "{}"), "is not a list of taints"),
        (("add", "/spec/taints/-", "[]"), "is not a taint"),
        (("add", "/spec/taints", "[" * 100_000), "is not JSON"),
        (("remove", "/spec/taints/-"), "only add can be done there"),
    ],
)
def test_what_is_refused(operation: tuple[str, ...], why: str) -> None:
    """With number, path and the rule."""
    with pytest.raises(PatchRefusedError, match=why):
        patch_of(operation)


def test_every_reason_is_told() -> None:
    """Not one after the other."""
    with pytest.raises(PatchRefusedError) as refused:
        patch_of(("add", LABEL, "a b"), ("add", LABEL, "fine"), ("add", "/x", "y"))
    assert "operation 0 " in str(refused.value)
    assert "operation 1 " not in str(refused.value)
    assert "operation 2 (add '/x')" in str(refused.value)


def test_the_number_of_operations_is_bounded() -> None:
    """And none at all is a mistake."""
    assert len(patch_of(*[("remove", LABEL)] * MAX_OPERATIONS)) == MAX_OPERATIONS
    with pytest.raises(PatchRefusedError, match="101 operations are more than 100"):
        patch_of(*[("remove", LABEL)] * (MAX_OPERATIONS + 1))
    with pytest.raises(PatchRefusedError, match="no operations"):
        patch_of()


def test_patterns_narrow_down() -> None:
    """For all that is written; what is only tested does not matter."""
    other = Writable(patterns=["example.com/*"])
    assert patch_of(("add", LABEL, "true"), names=Writable(patterns=["cmk.intel.com/*"]))
    assert patch_of(("test", LABEL, "true"), names=Writable(patterns=[]))
    with pytest.raises(PatchRefusedError, match="is not among what may be changed: example"):
        patch_of(("add", LABEL, "true"), names=other)
    with pytest.raises(PatchRefusedError, match=r"operation 0 \(add '/spec/taints/-'\): cmk is not among"):
        patch_of(("add", "/spec/taints/-", json.dumps(CMK)), node=plain_node(), names=other)


def test_an_empty_map_is_added_only_where_there_is_none() -> None:
    """It would remove all labels of a node that has some."""
    operations = (("add", "/metadata/labels", "{}"), ("add", LABEL, "true"))
    label = {"op": "add", "path": LABEL, "value": "true"}
    assert patch_of(*operations, node=plain_node()) == [label]
    assert patch_of(operations[0], node=plain_node()) == []
    bare = plain_node()
    del bare["metadata"]["labels"]
    assert needs_node(read_steps([PatchOperation(*operations[0])]))
    assert patch_of(*operations, node=bare) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/metadata/labels", "value": {}},
        label,
    ]


def test_taints_are_sent_as_a_list_that_must_be_the_one_that_was_read() -> None:
    """Whichever operations were asked for."""
    taint = ("add", "/spec/taints/-", json.dumps(CMK))
    assert needs_node(read_steps([PatchOperation(*taint)]))
    assert patch_of(taint, ("add", LABEL, "true"), node=node_with(THEIRS)) == [
        {"op": "add", "path": LABEL, "value": "true"},
        {"op": "test", "path": "/spec/taints", "value": [THEIRS]},
        {"op": "add", "path": "/spec/taints", "value": [THEIRS, CMK]},
    ]
    assert patch_of(taint, node=plain_node()) == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/spec/taints", "value": [CMK]},
    ]


def test_taints_that_stay_are_not_sent() -> None:
    """A test alone is a question to the API server."""
    patch = patch_of(("test", "/spec/taints", json.dumps([CMK])), node=node_with(CMK))
    assert patch == [{"op": "test", "path": "/spec/taints", "value": [CMK]}]
    assert not has_writes(patch)
    assert has_writes(patch_of(("remove", "/spec/taints/0"), node=node_with(CMK)))


def test_a_node_that_is_not_as_tested() -> None:
    """This is not the caller's mistake, and it may try again."""
    with pytest.raises(UnmetError, match=r"operation 1 \(test '/spec/taints'\): /spec/taints is not as tested"):
        patch_of(("remove", LABEL), ("test", "/spec/taints", "[]"), node=node_with(CMK))


def test_taints_of_kubernetes_are_protected() -> None:
    """With the number of the operation."""
    with pytest.raises(PatchRefusedError, match=r"operation 0 \(remove '/spec/taints/0'\): taint node\.kubernetes\.io"):
        patch_of(("remove", "/spec/taints/0"), node=node_with(THEIRS))


def test_capacities() -> None:
    """Whole numbers, in one form."""
    assert capacity_patch({"cmk.intel.com/exclusive-cores": "4", "a.b/c": "1k", "a.b/d": "0"}) == {
        "status": {"capacity": {"a.b/c": "1000", "a.b/d": "0", "cmk.intel.com/exclusive-cores": "4"}}
    }


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("cpu", "4", "capacity 'cpu': is a resource of Kubernetes"),
        ("pods", "4", "is a resource of Kubernetes"),
        ("hugepages-2Mi", "4", "is a resource of Kubernetes"),
        ("ephemeral-storage", "4", "is a resource of Kubernetes"),
        ("cores", "4", "is not an extended resource"),
        ("example/cores", "4", "is not an extended resource"),
        ("example/cores.x", "4", "is not an extended resource"),
        ("example.com", "4", "is not an extended resource"),
        ("kubernetes.io/x", "4", "is in a domain of Kubernetes"),
        ("example.com/a b", "4", "is not a name"),
        ("example.com/x", "four", "'four' is not a quantity"),
        ("example.com/x", "-1", "'-1' is below zero"),
        ("example.com/x", "1500m", "'1500m' is not a whole number"),
        ("example.com/x", "", "is not a quantity"),
    ],
)
def test_capacities_that_are_refused(name: str, text: str, why: str) -> None:
    """The kubelet publishes its own."""
    with pytest.raises(PatchRefusedError, match=why):
        capacity_patch({name: text})


def test_capacities_are_bounded_and_narrowed_down() -> None:
    """As operations are."""
    with pytest.raises(PatchRefusedError, match="no capacities"):
        capacity_patch({})
    with pytest.raises(PatchRefusedError, match="101 capacities are more than 100"):
        capacity_patch({f"a.b/x{n}": "1" for n in range(101)})
    with pytest.raises(PatchRefusedError, match="is not among what may be changed"):
        capacity_patch({"a.b/c": "1"}, names=Writable(patterns=["cmk*"]))
