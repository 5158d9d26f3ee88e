"""What a policy wants the cluster to see of its node, and how the Node object gets there."""

import json
from copy import deepcopy
from typing import Any

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.jsonpatch import PatchOperation
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.publish.node_state import ANNOTATION, CORES, TAINT, NodeMarks, Taint, desired_marks, plan
from tests.support.apiserver.patch.json_patch import apply_json_patch
from tests.support.kube.node_api import plain_node

LABEL = "cmk.intel.com/cmk-node"
ALL = NodeMarks(capacities={CORES: 4}, labels={LABEL: "true"}, taints=(TAINT,))
NOTE = {"capacities": {CORES: 4}, "labels": {LABEL: "true"}, "taints": ["cmk=true:NoSchedule"]}
THEIRS = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
ONLINE = CpuSet.parse("0-15")


def pool(*lists: str, exclusive: bool = True) -> Pool:
    """A pool of these CPU lists."""
    return Pool(
        exclusive=exclusive, lists=tuple(PoolCpuList(cpus=CpuSet.parse(text), text=text, socket=0) for text in lists)
    )


def pools(**more: Any) -> Configuration:
    """static-pools with three exclusive lists in two pools."""
    found = {"exclusive": pool("2-3", "4-5"), "more": pool("6"), "shared": pool("8-15", exclusive=False)}
    return Configuration(policy="static-pools", options=PoolsOptions(**{"pools": found, **more}))


def carried_out(node: dict[str, Any], wanted: NodeMarks) -> dict[str, Any]:
    """The node after everything that is planned, as an agent and an API server do it."""
    todo = plan(node, wanted)
    after: dict[str, Any] = deepcopy(node)
    after["status"]["capacity"].update(todo.withdrawn)
    after = apply_json_patch(
        after,
        [
            {"op": one.op, "path": one.path, **({"value": json.loads(one.value)} if one.value else {})}
            for one in todo.operations
        ],
    )
    after["status"]["capacity"].update(todo.published)
    return after


def note_of(node: dict[str, Any]) -> Any:
    """What is noted there."""
    text = node["metadata"]["annotations"].get(ANNOTATION)
    return None if text is None else json.loads(text)


def test_static_pools_wants_its_exclusive_lists_counted() -> None:
    """Those of all exclusive pools; label and taint only if somebody says so."""
    assert desired_marks(pools(), ONLINE) == NodeMarks(capacities={CORES: 3})
    assert desired_marks(pools(label_node=True, taint_node=True), ONLINE) == NodeMarks(
        capacities={CORES: 3}, labels={LABEL: "true"}, taints=(TAINT,)
    )


def test_lists_that_are_offline_are_not_offered() -> None:
    """One CPU of a list is enough."""
    assert desired_marks(pools(), CpuSet.parse("0-2,8-15")) == NodeMarks(capacities={CORES: 1})
    assert desired_marks(pools(), CpuSet.parse("0-1,8-15")) == NodeMarks()


def test_other_policies_want_nothing() -> None:
    """And then what was published before goes."""
    assert desired_marks(Configuration(policy="static", options=StaticOptions()), ONLINE) == NodeMarks()
    assert desired_marks(Configuration(policy="none"), ONLINE) == NodeMarks()
    assert not NodeMarks()


def test_nobody_knows_while_nothing_decides() -> None:
    """A configuration that waits for its pools, or does not fit for the moment, is no reason to take anything back."""
    assert desired_marks(Configuration(policy="none", fallback_reasons=("pools may come",)), ONLINE) is None
    fallback = Configuration(policy="static", options=StaticOptions(), fallback_reasons=("the agent's does not fit",))
    assert desired_marks(fallback, ONLINE) == NodeMarks()


def test_marks_in_words() -> None:
    """For logs and problems."""
    assert str(ALL) == f"{CORES}: 4, label {LABEL}=true, taint cmk=true:NoSchedule"
    assert str(NodeMarks()) == ""


def test_a_fresh_node_gets_everything_at_once() -> None:
    """One patch with its note, and the capacity after it."""
    todo = plan(plain_node(), ALL)
    assert todo.withdrawn == {}
    assert todo.published == {CORES: "4"}
    assert todo.operations == (
        PatchOperation("add", "/metadata/labels/cmk.intel.com~1cmk-node", '"true"'),
        PatchOperation("add", "/spec/taints", '[{"key": "cmk", "value": "true", "effect": "NoSchedule"}]'),
        PatchOperation(
            "add",
            "/metadata/annotations/interpose~1published",
            json.dumps(json.dumps(NOTE, separators=(",", ":"), sort_keys=True)),
        ),
    )


def test_a_node_that_shows_everything_is_left_alone() -> None:
    """Nothing is sent twice."""
    node = carried_out(plain_node(), ALL)
    assert note_of(node) == NOTE
    assert not plan(node, ALL)


def test_a_node_without_labels_and_annotations_gets_them() -> None:
    """There is nothing to add to otherwise."""
    bare = plain_node()
    del bare["metadata"]["labels"], bare["metadata"]["annotations"]
    node = carried_out(bare, ALL)
    assert node["metadata"]["labels"] == {LABEL: "true"}
    assert note_of(node) == NOTE


def test_what_was_published_is_taken_back() -> None:
    """Down to the note; the taints of others stay. A capacity cannot go, it becomes 0."""
    before = {**plain_node(), "spec": {"taints": [THEIRS]}}
    node = carried_out(carried_out(before, ALL), NodeMarks())
    assert node["metadata"] == before["metadata"]
    assert node["spec"] == before["spec"]
    assert node["status"]["capacity"][CORES] == "0"
    assert not plan(node, NodeMarks())


def test_taking_back_begins_with_the_capacity() -> None:
    """If it is interrupted the note is still there, and somebody takes back the rest later."""
    todo = plan(carried_out(plain_node(), ALL), NodeMarks())
    assert todo.withdrawn == {CORES: "0"}
    assert todo.published == {}
    assert [operation.op for operation in todo.operations] == ["test", "remove", "test", "add", "test", "remove"]


def test_what_somebody_else_has_set_is_not_ours() -> None:
    """A real CMK may have done so: it stays when our policy goes."""
    theirs = plain_node(labels={LABEL: "true"})
    theirs["status"]["capacity"][CORES] = "4"
    theirs["spec"]["taints"] = [{**TAINT._asdict()}]
    assert not plan(theirs, ALL)
    assert not plan(theirs, NodeMarks())


def test_what_somebody_else_has_set_differently_becomes_ours() -> None:
    """What the policy wants counts; what was there is tested for, so that it is not another one by then."""
    theirs = plain_node(labels={LABEL: "false"})
    theirs["status"]["capacity"][CORES] = "2"
    theirs["spec"]["taints"] = [THEIRS, {**TAINT._asdict(), "value": "old"}]
    todo = plan(theirs, ALL)
    assert PatchOperation("test", "/metadata/labels/cmk.intel.com~1cmk-node", '"false"') in todo.operations
    assert PatchOperation("test", "/spec/taints", json.dumps(theirs["spec"]["taints"])) in todo.operations
    node = carried_out(theirs, ALL)
    assert node["spec"]["taints"] == [THEIRS, TAINT._asdict()]
    assert node["metadata"]["labels"][LABEL] == "true"
    assert node["status"]["capacity"][CORES] == "4"
    assert note_of(node) == NOTE


def test_another_number_of_lists() -> None:
    """Only that is changed."""
    node = carried_out(plain_node(), ALL)
    more = NodeMarks(capacities={CORES: 6}, labels=ALL.labels, taints=ALL.taints)
    todo = plan(node, more)
    assert todo.published == {CORES: "6"}
    assert [operation.path for operation in todo.operations] == ["/metadata/annotations/interpose~1published"] * 2
    assert note_of(carried_out(node, more))["capacities"] == {CORES: 6}


def test_a_capacity_that_was_noted_and_never_published_is_published() -> None:
    """Whoever was interrupted in between."""
    node = carried_out(plain_node(), ALL)
    del node["status"]["capacity"][CORES]
    assert plan(node, ALL).published == {CORES: "4"}
    assert plan(node, ALL).operations == ()
    assert plan(node, NodeMarks()).withdrawn == {}


@pytest.mark.parametrize(
    ("found", "needed"), [("4", False), ("4000m", False), ("0.004k", False), ("x", True), ("5", True)]
)
def test_quantities_are_compared_as_numbers(found: str, needed: bool) -> None:
    """An API server may write them in another way."""
    node = carried_out(plain_node(), ALL)
    node["status"]["capacity"][CORES] = found
    assert bool(plan(node, ALL)) is needed


def test_what_others_have_changed_meanwhile_is_theirs() -> None:
    """A label with another value, and a taint, are left; only the note goes."""
    node = carried_out(plain_node(), ALL)
    node["metadata"]["labels"][LABEL] = "mine"
    node["spec"]["taints"] = [{**TAINT._asdict(), "value": "mine"}]
    after = carried_out(node, NodeMarks())
    assert after["metadata"]["labels"][LABEL] == "mine"
    assert after["spec"]["taints"] == node["spec"]["taints"]
    assert note_of(after) is None


def test_what_others_have_removed_comes_back() -> None:
    """As long as it is wanted."""
    node = carried_out(plain_node(), ALL)
    del node["metadata"]["labels"][LABEL]
    node["spec"]["taints"] = []
    after = carried_out(node, ALL)
    assert after["metadata"]["labels"][LABEL] == "true"
    assert after["spec"]["taints"] == [TAINT._asdict()]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "3",
        "[" * 100_000,
        '{"labels": 1}',
        '{"taints": 1}',
        '{"capacities": {"a": "b"}}',
        '{"taints": ["x"]}',
    ],
)
def test_a_note_that_cannot_be_read_is_no_note(text: str) -> None:
    """Nothing is taken back for it, and it goes away or is written anew."""
    node = plain_node(annotations={ANNOTATION: text}, labels={LABEL: "true"})
    node["spec"]["taints"] = [TAINT._asdict()]
    after = carried_out(node, NodeMarks())
    assert after["metadata"]["labels"] == {LABEL: "true"}
    assert after["spec"] == node["spec"]
    assert note_of(after) is None
    assert note_of(carried_out(after, ALL)) == {"capacities": {CORES: 4}}


def test_taints_in_a_note() -> None:
    """Also those without a value."""
    node = plain_node(annotations={ANNOTATION: '{"taints":["a.b/c=:NoExecute"]}'})
    node["spec"]["taints"] = [{"key": "a.b/c", "effect": "NoExecute"}]
    assert carried_out(node, NodeMarks())["spec"]["taints"] == []
    assert Taint("a.b/c", "", "NoExecute")


@pytest.mark.parametrize(
    "node",
    [
        {"metadata": 1},
        {"metadata": {"labels": ["x"]}},
        {"spec": {"taints": [{}]}},
        {"status": {"capacity": {CORES: []}}},
    ],
)
def test_what_is_no_node(node: dict[str, Any]) -> None:
    """An agent may answer anything."""
    with pytest.raises(ValueError, match="not a Node object"):
        plan(node, ALL)


def test_an_empty_object_is_a_node_to_begin_with() -> None:
    """Each part may be missing."""
    assert plan({}, NodeMarks()).operations == ()
