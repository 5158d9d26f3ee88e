"""What patches do to the taints of a node."""

from typing import Any

import pytest

from interpose.kube.agent.node_keys import EVERYTHING, Writable
from interpose.kube.agent.node_patches import UnmetError, patch_taints, read_taint, read_taints

CMK = {"key": "cmk", "value": "true", "effect": "NoSchedule"}
OTHER = {"key": "example.com/gpu", "effect": "NoExecute"}
THEIRS = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2024-01-01T00:00:00Z"}
ALL = EVERYTHING
ONE = Writable(patterns=["cmk"])


@pytest.mark.parametrize("taint", [CMK, OTHER, THEIRS, {**CMK, "value": ""}, {**CMK, "value": None}])
def test_taints(taint: dict[str, Any]) -> None:
    """The value may be missing."""
    assert read_taint(taint) == taint


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("cmk", "is not a taint: expected an object"),
        ([], "is not a taint"),
        ({**CMK, "color": 1}, "'color' is not known in a taint"),
        ({"effect": "NoSchedule"}, "key of a taint is 'null'"),
        ({**CMK, "key": "a b"}, "is not a name"),
        ({**CMK, "value": True}, "value of taint cmk is 'true': expected text"),
        ({**CMK, "value": '"true"'}, "is not a value"),
        ({**CMK, "effect": "Never"}, "effect of taint cmk is '\"Never\"': expected one of NoSchedule"),
        ({"key": "cmk"}, "effect of taint cmk is 'null'"),
    ],
)
def test_what_is_no_taint(value: Any, why: str) -> None:
    """It is said what is wrong with it."""
    with pytest.raises(ValueError, match=why):
        read_taint(value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "is not a list of taints"),
        ([CMK, {**CMK, "value": "no"}], "taint cmk with effect NoSchedule appears twice"),
        ([{**CMK, "key": f"k{n}"} for n in range(101)], "101 taints are more than 100"),
    ],
)
def test_what_is_no_list_of_taints(value: Any, why: str) -> None:
    """One taint per key and effect, and not too many."""
    with pytest.raises(ValueError, match=why):
        read_taints(value)


@pytest.mark.parametrize(
    ("op", "place", "value", "after"),
    [
        ("add", "-", CMK, [OTHER, THEIRS, CMK]),
        ("add", "0", CMK, [CMK, OTHER, THEIRS]),
        ("add", "2", CMK, [OTHER, THEIRS, CMK]),
        ("replace", "0", CMK, [CMK, THEIRS]),
        ("remove", "0", None, [THEIRS]),
        ("test", "0", OTHER, [OTHER, THEIRS]),
        ("test", "", [OTHER, THEIRS], [OTHER, THEIRS]),
        ("test", "", [{**OTHER, "value": ""}, THEIRS], [OTHER, THEIRS]),
        ("add", "", [THEIRS, CMK], [THEIRS, CMK]),
        ("replace", "", [THEIRS], [THEIRS]),
    ],
)
def test_operations(op: str, place: str, value: Any, after: list[Any]) -> None:
    """As RFC 6902 says."""
    assert patch_taints([OTHER, THEIRS], op, place, value, ALL) == after


def test_all_may_go_if_none_is_of_kubernetes() -> None:
    """There is nothing to protect."""
    assert patch_taints([CMK, OTHER], "remove", "", None, ALL) == []


@pytest.mark.parametrize(
    ("op", "place", "value"),
    [
        ("remove", "", None),
        ("remove", "1", None),
        ("replace", "1", CMK),
        ("replace", "", [OTHER]),
        ("replace", "", [OTHER, {**THEIRS, "value": "x"}]),
        ("add", "-", {"key": "node.kubernetes.io/x", "effect": "NoSchedule"}),
        ("add", "", [OTHER, THEIRS, {"key": "k8s.io/x", "effect": "NoSchedule"}]),
    ],
)
def test_taints_of_kubernetes_stay_as_they_are(op: str, place: str, value: Any) -> None:
    """By whichever operation."""
    with pytest.raises(ValueError, match="is of Kubernetes and may not be changed"):
        patch_taints([OTHER, THEIRS], op, place, value, ALL)


def test_a_taint_that_stays_keeps_its_time() -> None:
    """A client that does not know the field would reset the time pods have left."""
    stripped = {"key": THEIRS["key"], "effect": THEIRS["effect"]}
    assert patch_taints([OTHER, THEIRS], "replace", "", [stripped, CMK], ALL) == [THEIRS, CMK]


def test_only_taints_that_are_allowed_may_change() -> None:
    """Others may be in the list, as long as they stay."""
    assert patch_taints([OTHER], "add", "-", CMK, ONE) == [OTHER, CMK]
    with pytest.raises(ValueError, match="is not among what may be changed"):
        patch_taints([OTHER], "replace", "", [CMK], ONE)


@pytest.mark.parametrize(
    ("op", "place", "value", "why"),
    [
        ("remove", "2", None, "there is no place 2"),
        ("replace", "9", CMK, "there is no place 9"),
        ("test", "2", CMK, "there is no place 2"),
        ("add", "3", CMK, "there is no place 3"),
        ("test", "0", CMK, "/spec/taints/0 is not as tested"),
        ("test", "", [OTHER], "/spec/taints is not as tested"),
    ],
)
def test_a_list_that_is_another_one(op: str, place: str, value: Any, why: str) -> None:
    """Somebody was faster."""
    with pytest.raises(UnmetError, match=why):
        patch_taints([OTHER, THEIRS], op, place, value, ALL)


def test_the_same_taint_twice_is_refused() -> None:
    """Also if each of them is fine."""
    with pytest.raises(ValueError, match="appears twice"):
        patch_taints([CMK], "add", "-", {**CMK, "value": "no"}, ALL)
