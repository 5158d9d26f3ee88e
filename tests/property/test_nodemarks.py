"""Marks on a node, whatever is on it: they get there, they stay, and only ours go."""

import json
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.jsonpatch import PatchOperation
from interpose.kube.agent.node_patches import capacity_patch, node_patch, read_steps
from interpose.resmgr.publish.node_state import ANNOTATION, NodeMarks, Taint, plan
from tests.support.apiserver.patch.json_patch import apply_json_patch
from tests.support.apiserver.patch.patches import merge

NAMES = st.sampled_from(["cmk.intel.com/a", "cmk.intel.com/b", "x.y/c"])
VALUES = st.sampled_from(["", "true", "1"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute"])
TAINTS = st.lists(
    st.builds(Taint, NAMES, VALUES, EFFECTS), max_size=3, unique_by=lambda one: (one.key, one.effect)
).map(tuple)
MARKS = st.builds(
    NodeMarks,
    capacities=st.dictionaries(NAMES, st.integers(1, 5), max_size=2),
    labels=st.dictionaries(NAMES, VALUES, max_size=2),
    taints=TAINTS,
)


@st.composite
def nodes(draw: st.DrawFn) -> dict[str, Any]:
    """With anything on it but a note."""
    meta: dict[str, Any] = {"name": "n", "resourceVersion": "7"}
    if labels := draw(st.dictionaries(NAMES, VALUES, max_size=3)):
        meta["labels"] = labels
    if draw(st.booleans()):
        meta["annotations"] = {"a": "b"}
    taints = [one._asdict() for one in draw(TAINTS)]
    if draw(st.booleans()):
        taints.append({"key": "node.kubernetes.io/x", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"})
    capacity = {name: str(n) for name, n in draw(st.dictionaries(NAMES, st.integers(0, 5), max_size=3)).items()}
    return {
        "metadata": meta,
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": {"cpu": "4", **capacity}},
    }


def carried_out(node: dict[str, Any], wanted: NodeMarks) -> dict[str, Any]:
    """As relay, agent and API server do it together."""
    todo = plan(node, wanted)
    after: Any = deepcopy(node)
    if todo.withdrawn:
        after = merge(after, capacity_patch(todo.withdrawn))
    if todo.operations:
        steps = read_steps([PatchOperation(*one) for one in todo.operations])
        after = apply_json_patch(after, node_patch(steps, after))
    if todo.published:
        after = merge(after, capacity_patch(todo.published))
    found: dict[str, Any] = after
    return found


def shown(node: dict[str, Any]) -> tuple[dict[str, str], set[tuple[str, str, str]], dict[str, str]]:
    """Labels, taints and capacities."""
    taints = {(one["key"], one.get("value", ""), one["effect"]) for one in node["spec"].get("taints", ())}
    return node["metadata"].get("labels", {}), taints, node["status"]["capacity"]


@given(nodes(), MARKS)
def test_everything_wanted_gets_there_and_stays(node: dict[str, Any], wanted: NodeMarks) -> None:
    """With operations that the agent lets pass; the second time there is nothing to do."""
    after = carried_out(node, wanted)
    labels, taints, capacity = shown(after)
    assert wanted.labels.items() <= labels.items()
    assert set(wanted.taints) <= taints
    assert {name: str(n) for name, n in wanted.capacities.items()}.items() <= capacity.items()
    assert not plan(after, wanted)


@given(nodes(), st.lists(MARKS, min_size=1, max_size=3))
def test_in_the_end_nothing_of_ours_is_left(node: dict[str, Any], wishes: list[NodeMarks]) -> None:
    """And nothing of others is lost that was never replaced."""
    after = node
    for one in wishes:
        after = carried_out(after, one)
    after = carried_out(after, NodeMarks())
    assert ANNOTATION not in after["metadata"].get("annotations", {})
    before, now = shown(node), shown(after)
    touched = {(key, value) for one in wishes for key, value in one.labels.items()}
    assert {key: value for key, value in now[0].items() if before[0].get(key) != value} == {}
    assert all(now[0].get(key) == value for key, value in before[0].items() if key not in dict(touched))
    assert now[1] <= before[1]
    places = {(taint.key, taint.effect) for one in wishes for taint in one.taints}
    assert {one for one in before[1] if (one[0], one[2]) not in places} <= now[1]
    names = {name for one in wishes for name in one.capacities}
    assert all(now[2].get(name) == n for name, n in before[2].items() if name not in names)
    assert all(now[2][name] in ("0", before[2].get(name)) for name in names)
    assert json.dumps(after)
