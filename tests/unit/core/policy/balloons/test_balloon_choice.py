"""Which type of balloon a container gets, and which balloon of that type."""

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType
from interpose.core.policy.decision import RefusalKind
from interpose.core.policy.expressions import Expression, Operator
from tests.support.policy.balloon_node import BALLOON, BalloonNode, node


def test_the_type_of_an_annotation() -> None:
    """For one container of a pod, of the older family too; the name has to be one that there is."""
    there = node(BalloonType(name="own"))
    notes = {"balloon.balloons.cri-resource-manager.intel.com/container.app": "own"}
    assert there.add("a", 100, notes=notes) == "own[0]: 1"
    decision = there.create(there.request("b", 100, kind="owm"))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.INVALID
    assert decision.reason == (
        f"annotation {BALLOON}: 'owm' is no type of balloons, there are reserved, own, default, did you mean own?"
    )


def test_types_in_their_order() -> None:
    """An expression of the first, else its namespaces, then those of the next; else the type `default`."""
    label = Expression("pod/labels/speed", Operator.EQUALS, ("high",))
    there = node(
        BalloonType(name="fast", match_expressions=(label,), namespaces=("f*",)),
        BalloonType(name="slow", namespaces=("*",)),
    )
    fast = there.create(there.request("a", 100, labels={"speed": "high"}))
    assert fast.reason.startswith("balloon fast[0]: it matches pod/labels/speed Equals high; ")
    assert there.create(there.request("b", 100, namespace="fun")).reason.startswith(
        "balloon fast[0]: namespace fun is one of f*; it has the most CPU left; "
    )
    assert there.add("c", 100, namespace="other") == "slow[0]: 2"
    assert there.add("d", 100, namespace="kube-system") == "reserved[0]: 0"


def test_containers_of_no_type() -> None:
    """Type `default` is for them."""
    there = node(BalloonType(name="own", namespaces=("own",)))
    assert "balloon default[0]: no type is for namespace default; " in there.create(there.request("a", 100)).reason


def test_containers_of_a_pod_are_together() -> None:
    """Although balloons of their own are preferred, the second grows the balloon of the first; another pod has one."""
    there = node(BalloonType(name="own", prefer_new=True))
    assert there.add("a/one", 1000, kind="own") == "own[0]: 1"
    assert there.add("a/two", 1000, kind="own") == "own[0]: 1-2"
    assert there.add("b", 1000, kind="own") == "own[1]: 3"


def test_containers_of_a_pod_apart() -> None:
    """With preferSpreadingPods each has a balloon, here a new one."""
    there = node(BalloonType(name="own", prefer_new=True, spread_pods=True))
    assert there.add("a/one", 1000, kind="own") == "own[0]: 1"
    assert there.add("a/two", 1000, kind="own") == "own[1]: 2"


def test_containers_of_a_group_are_together() -> None:
    """The third has the group of the first, the fourth none at all and so a balloon of its own."""
    there = node(BalloonType(name="own", group_by="${pod/labels/team}", prefer_new=True))
    for title, team, found in (("a", "x", "own[0]"), ("b", "y", "own[1]"), ("c", "x", "own[0]"), ("d", "", "own[2]")):
        labels = {"team": team} if team else {}
        assert there.add(title, 1000, kind="own", labels=labels).startswith(found)


def test_containers_of_a_namespace_are_together() -> None:
    """One balloon for each, although there is room in the first."""
    there = node(BalloonType(name="own", min_cpus=2, per_namespace=True))
    assert there.add("a", 100, kind="own", namespace="one").startswith("own[0]")
    assert there.add("b", 100, kind="own", namespace="two").startswith("own[1]")
    assert there.add("c", 100, kind="own", namespace="one").startswith("own[0]")


def test_the_balloon_with_the_most_cpu_left() -> None:
    """The first has 1700m left, the second 1900m; of equal ones the one with fewer containers, then the first."""
    there = node(BalloonType(name="own", min_cpus=2, min_balloons=2, spread_pods=True))
    assert there.add("a", 300, kind="own").startswith("own[0]")
    assert there.add("b", 100, kind="own").startswith("own[1]")
    assert there.add("c", 200, kind="own").startswith("own[1]")
    assert there.add("d", 0, kind="own", qos=KubeQos.BEST_EFFORT).startswith("own[0]")  # 1700m each, fewer containers
    assert there.add("e", 0, kind="own", qos=KubeQos.BEST_EFFORT).startswith("own[0]")  # now both have two


def test_the_balloon_that_can_grow_the_most() -> None:
    """Both are full; the second has less requested of the same most."""
    there = node(BalloonType(name="own", max_cpus=4, max_balloons=2, spread_pods=True, prefer_new=True))
    there.add("a", 2000, kind="own")
    there.add("b", 1000, kind="own")
    decision = there.create(there.request("c", 1000, kind="own"))
    assert decision.reason.startswith(f"balloon own[1]: annotation {BALLOON}; it can grow the most; ")
    first, second = decision.candidates
    assert (first.name, first.chosen, first.score) == ("balloon own[1]", True, "1000m of 1 container, at most 4 CPUs")
    assert (second.name, second.reason) == ("balloon own[0]", "own[1]: it can grow the most")


def test_a_new_balloon_comes_last() -> None:
    """The first cannot grow to 5 CPUs."""
    there = node(BalloonType(name="own", max_cpus=4))
    there.add("a", 3000, kind="own")
    decision = there.create(there.request("b", 2000, kind="own"))
    assert decision.reason.startswith(f"balloon own[1]: annotation {BALLOON}; it has no other containers; ")
    assert decision.candidates[1].reason == "5000m would be requested of it, more than its maxCPUs allow"


def test_balloons_that_are_kept_are_used_before_new_ones() -> None:
    """With preferNewBalloons the empty one is as good as new."""
    there = node(BalloonType(name="own", prefer_new=True, min_balloons=1, min_cpus=1))
    assert there.add("a", 1000, kind="own").startswith("own[0]")
    assert there.add("b", 1000, kind="own").startswith("own[1]")


def test_the_lowest_free_number_is_taken() -> None:
    """Number 0 is free again when its container is gone."""
    there = node(BalloonType(name="own", prefer_new=True))
    for title in ("a", "b"):
        there.add(title, 1000, kind="own")
    there.remove("a")
    assert there.add("c", 1000, kind="own").startswith("own[0]")


def test_no_suitable_balloon() -> None:
    """As many as may be, and no room in them: refused for now."""
    there = node(BalloonType(name="own", max_cpus=1, max_balloons=1))
    there.add("a", 1000, kind="own")
    decision = there.create(there.request("b", 500, kind="own"))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.EXHAUSTED
    assert decision.reason == (
        f"no suitable balloon of type own for 500m (annotation {BALLOON}): own[0]: 1500m would be requested of it, "
        "more than its maxCPUs allow"
    )
    assert [candidate.name for candidate in decision.candidates] == ["balloon own[0]"]


def test_more_than_a_balloon_can_ever_have() -> None:
    """Refused for good."""
    there = node(BalloonType(name="own", max_cpus=2))
    decision = there.create(there.request("a", 2001, kind="own"))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.INVALID
    assert decision.reason.endswith("own can have none")


def test_a_refusal_names_a_few_balloons() -> None:
    """Four of six, and how many more there are; of candidates there are eight at most."""
    there = node(BalloonType(name="own", max_cpus=1, max_balloons=9, prefer_new=True))
    for number in range(9):
        there.add(f"pod-{number}", 1000, kind="own")
    decision = there.create(there.request("more", 1000, kind="own"))
    assert decision.reason.count("own[") == 4
    assert decision.reason.endswith("; and 5 more")
    assert len(decision.candidates) == 8


def test_no_cpus_are_left() -> None:
    """Of 15 CPUs there are 14 in use: two are one too many."""
    there = node()
    there.add("a", 14000)
    decision = there.create(there.request("b", 2000))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.EXHAUSTED
    assert decision.reason.endswith(
        "default[0]: 16000m would be requested of it, and 1 of the 16 CPUs for that cannot be had"
    )


@pytest.mark.parametrize("text", ["true", "T"])
def test_containers_that_are_left_alone(text: str) -> None:
    """By annotation: nothing is written, and nothing is counted."""
    there = node()
    decision = there.create(there.request("a", 3000, notes={"cpu.preserve.resource-policy.nri.io": text}))
    assert decision.grant is not None
    assert not decision.grant.pinned
    assert decision.reason == "it is left alone: annotation cpu.preserve.resource-policy.nri.io"
    assert there.pools()["default[0]"] == ""
    assert there.policy.resize(there.request("a", 1000, notes={"cpu.preserve.resource-policy.nri.io": text})).grant
    assert there.remove("a").reason == "it was left alone"


def test_containers_that_expressions_leave_alone() -> None:
    """The reason names the expression."""
    options = BalloonsOptions(preserve=(Expression("name", Operator.EQUALS, ("app",)),))
    there = BalloonNode(options)
    decision = there.create(there.request("a", 3000))
    assert decision.reason == "it is left alone: preserve.matchExpressions: name Equals app"
    assert there.add("a/other", 1000) == "default[0]: 1"


@pytest.mark.parametrize("name", ["cpu.preserve", "memory.preserve", "hide-hyperthreads", "memory-type"])
def test_annotations_that_cannot_be_read(name: str) -> None:
    """Refused for good, with annotation and value."""
    there = node()
    decision = there.create(there.request("a", 100, notes={f"{name}.resource-policy.nri.io": "quick"}))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.INVALID
    assert decision.reason.startswith(f"annotation {name}.resource-policy.nri.io: 'quick' ")
