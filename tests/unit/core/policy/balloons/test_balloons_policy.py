"""Balloons grow and shrink with their containers, and are where they were after a restart."""

from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType, ComponentCreation, ShareLevel
from interpose.core.policy.decision import NO_QUOTA, Action, Grant, RefusalKind
from interpose.core.policy.request import Key
from tests.support.policy.balloon_node import BalloonNode, node

ONE = BalloonType(name="one")
HIDE = "hide-hyperthreads.resource-policy.nri.io"


def resized(there: BalloonNode, title: str, milli: int, **about: object) -> str:
    """The CPUs of a container that asks for another amount; or why it has them not."""
    request = there.request(title, milli, **about)  # type: ignore[arg-type]
    decision = there.policy.resize(request)
    return decision.refusal.message if decision.refusal is not None else there.cpus(title)


# -- sizes


def test_a_balloon_grows_and_shrinks() -> None:
    """1500m are two CPUs, 2500m three; what is left fits in two again, and those of the core stay."""
    there = node(ONE)
    assert there.add("a/x", 1500, kind="one") == "one[0]: 2-3"
    decision = there.create(there.request("a/y", 1000, kind="one"))
    assert decision.changed == (there.key("a/x"),)
    assert decision.reason.endswith("CPUs 1-3 for 2500m of 2 containers")
    assert there.remove("a/y").reason == "balloon one[0]: CPUs 2-3 for 1500m of 1 container"
    assert there.remove("a/x").reason == "it was the last in balloon one[0]"
    assert there.pools() == {"reserved[0]": "0", "default[0]": "", "idle": "1-15"}


def test_a_container_without_a_request_has_a_cpu() -> None:
    """A balloon with containers is never empty."""
    assert node().add("a", 0) == "default[0]: 1"


def test_limits_of_a_type() -> None:
    """Two CPUs at least, four at most."""
    there = node(BalloonType(name="own", min_cpus=2, max_cpus=4))
    assert there.add("a", 100, kind="own") == "own[0]: 2-3"
    assert there.add("b", 3900, kind="own").startswith("own[0]: ")
    assert there.cpus("a") == there.cpus("b")
    assert len(CpuSet.parse(there.cpus("b"))) == 4


def test_a_resize_keeps_the_cpus() -> None:
    """It grows by the CPU next to it, and shrinks back."""
    there = node(ONE)
    there.add("a", 2000, kind="one")
    assert resized(there, "a", 3000, kind="one") == "1-3"
    assert resized(there, "a", 1200, kind="one") == "2-3"


def test_a_resize_that_cannot_be() -> None:
    """It keeps what it has; whether it is worth to ask again is told."""
    there = node(BalloonType(name="own", max_cpus=3))
    there.add("a/x", 1000, kind="own")
    there.add("a/y", 1000, kind="own")
    before = dict(there.policy.state.grants)
    decision = there.policy.resize(there.request("a/x", 2500, kind="own"))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.EXHAUSTED
    assert decision.reason == "balloon own[0] cannot grow: 3500m would be requested of it, more than its maxCPUs allow"
    assert there.policy.resize(there.request("a/x", 4000, kind="own")).refusal == replace(
        decision.refusal,
        kind=RefusalKind.INVALID,
        message="balloon own[0] cannot grow: 5000m would be requested of it, more than its maxCPUs allow",
    )
    assert dict(there.policy.state.grants) == before


def test_a_resize_beyond_the_machine() -> None:
    """14 more CPUs are one too many."""
    there = node(ONE)
    there.add("a", 1000, kind="one")
    there.add("b", 1000)
    assert resized(there, "a", 15000, kind="one").endswith("1 CPUs for that cannot be had")


def test_an_unknown_container_goes() -> None:
    """Nothing happens."""
    decision = node().policy.release(Key("nobody", "app"))
    assert (decision.reason, decision.changed) == ("it held nothing", ())


# -- what containers have besides


def test_pinning_is_optional() -> None:
    """Neither CPUs nor memory nodes are written."""
    there = node(pin_cpu=False, pin_memory=False)
    there.add("a", 1000)
    assert (there.cpus("a"), there.mems("a")) == ("None", "None")


def test_one_thread_of_each_core() -> None:
    """By the type; an annotation says otherwise. The balloon has whole cores for all."""
    there = node(BalloonType(name="own", min_cpus=4, hide_hyperthreads=True))
    there.add("a/x", 1000, kind="own")
    there.add("a/y", 1000, kind="own", notes={HIDE: "false"})
    assert (there.cpus("a/x"), there.cpus("a/y")) == ("4,6", "4-7")
    there.remove("a/x")
    assert "own[0] threads" not in there.policy.state.pools


def test_idle_cpus_nearby_are_shared() -> None:
    """Those of the node, as long as they are idle; neither isolated ones nor CPU 2, which is reserved."""
    kind = BalloonType(name="own", share_idle=ShareLevel.NUMA)
    there = node(kind, on="2 sockets x 2 numa x 2 cores x 2 threads; isolated 3")
    there.add("a", 1000, kind="own")
    assert there.cpus("a") == "0-1"
    there.add("b", 1000)
    assert (there.cpus("a"), there.cpus("b")) == ("0", "1")
    assert there.remove("b").changed == (there.key("a"),)
    assert there.cpus("a") == "0-1"


def test_idle_cpus_are_left_when_a_balloon_leaves_their_node() -> None:
    """Grown into node 2 it shares what is idle in both; most of it is there, so that is where it shrinks to."""
    there = node(BalloonType(name="own", share_idle=ShareLevel.NUMA, max_cpus=6), reserved="0-3")
    there.add("a/x", 2000, kind="own")
    assert there.cpus("a/x") == "4-7"
    there.add("a/y", 3000, kind="own")
    assert there.cpus("a/x") == "4-11"
    there.remove("a/y")
    assert there.cpus("a/x") == "8-11"


def test_threads_and_idle_cpus_together() -> None:
    """One thread of each core of what it has and shares."""
    kind = BalloonType(name="own", share_idle=ShareLevel.NUMA, hide_hyperthreads=True)
    there = node(kind, reserved="0-3")
    there.add("a", 1000, kind="own")
    assert there.cpus("a") == "4,6"


# -- CFS quota


def quota(there: BalloonNode, title: str) -> int | None:
    """The CFS quota that is written."""
    return there.policy.state.assignment(there.key(title)).quota


def test_no_quota_on_cpus_of_ones_own() -> None:
    """Alone in a balloon of as many CPUs as its limit; with a second container it is limited again, then not."""
    there = node(ONE)
    there.add("a/x", 2000, kind="one", limit=2000)
    assert quota(there, "a/x") == NO_QUOTA
    decision = there.create(there.request("a/y", 100, kind="one", limit=100))
    assert (quota(there, "a/x"), quota(there, "a/y")) == (None, None)
    assert decision.changed == (there.key("a/x"),)
    there.remove("a/y")
    assert quota(there, "a/x") == NO_QUOTA


@pytest.mark.parametrize(
    ("options", "about"),
    [
        (BalloonsOptions(types=(ONE,), lift_quota=False), {"limit": 1000}),
        (BalloonsOptions(types=(ONE,), pin_cpu=False), {"limit": 1000}),
        (BalloonsOptions(types=(ONE,)), {"limit": 999}),
        (BalloonsOptions(types=(ONE,)), {}),
        (BalloonsOptions(types=(replace(ONE, share_idle=ShareLevel.CORE),)), {"limit": 1000}),
        (BalloonsOptions(types=(replace(ONE, min_cpus=2),)), {"limit": 1000}),
    ],
    ids=["switched off", "not pinned", "lower limit", "no quota", "shares idle CPUs", "more CPUs than it asks for"],
)
def test_a_quota_that_stays(options: BalloonsOptions, about: dict[str, int]) -> None:
    """Its CPUs are not its own, or it could use more than its limit without."""
    there = BalloonNode(options)
    there.add("a", 1000, kind="one", **about)
    assert quota(there, "a") is None


@pytest.mark.parametrize(
    ("kind", "limit"),
    [(ONE, 1001), (replace(ONE, min_cpus=2, hide_hyperthreads=True), 2000)],
    ids=["higher limit", "one thread of a core"],
)
def test_a_quota_above_what_its_cpus_can_do(kind: BalloonType, limit: int) -> None:
    """It limits nothing, so it goes as well."""
    there = node(kind)
    there.add("a", 1000, kind="one", limit=limit)
    assert quota(there, "a") == NO_QUOTA


# -- pods that ask for an amount as a whole


def test_a_pod_counts_for_what_it_asks_for_as_a_whole() -> None:
    """Once, whatever its containers request."""
    there = node(ONE)
    there.add("a/x", 1500, kind="one", pod_milli=2000)
    decision = there.create(there.request("a/y", 1500, kind="one", pod_milli=2000))
    assert decision.reason.endswith("CPUs 2-3 for 2000m of 2 containers")
    assert there.remove("a/x").reason.endswith("CPUs 2-3 for 2000m of 1 container")


def test_containers_that_ask_for_nothing_have_what_their_pod_asks_for() -> None:
    """The first counts for all of it, and the last one takes it along."""
    there = node(ONE)
    there.add("a/x", 0, kind="one", pod_milli=3000)
    there.add("a/y", 0, kind="one", pod_milli=3000)
    assert len(CpuSet.parse(there.cpus("a/x"))) == 3
    assert there.cpus("a/x") == there.cpus("a/y")
    there.remove("a/x")
    assert len(CpuSet.parse(there.cpus("a/y"))) == 3
    there.remove("a/y")
    there.add("b", 1000, kind="one")
    assert len(CpuSet.parse(there.cpus("b"))) == 1


def test_a_pod_in_several_balloons_counts_once() -> None:
    """What is counted in the first is not counted in the second; after a restart too, in whatever order they come."""
    there = node(BalloonType(name="own", spread_pods=True, prefer_new=True))
    there.add("a/x", 1500, kind="own", pod_milli=2000)
    there.add("a/y", 1500, kind="own", pod_milli=2000)
    assert (there.cpus("a/x"), there.cpus("a/y")) == ("2-3", "1")
    for backwards in (False, True):
        again = there.restarted(backwards=backwards)
        assert (again.cpus("a/x"), again.cpus("a/y")) == ("2-3", "1")


def test_a_pod_that_asks_for_more() -> None:
    """A resize of a container counts with what the pod asks for by then."""
    there = node(ONE)
    there.add("a/x", 2000, kind="one", pod_milli=2000)
    there.add("a/y", 2000, kind="one", pod_milli=2000)
    assert resized(there, "a/y", 2000, kind="one", pod_milli=4000) == there.cpus("a/x")
    assert len(CpuSet.parse(there.cpus("a/x"))) == 4


# -- composites

LEFT = BalloonType(name="left", max_cpus=3)
RIGHT = BalloonType(name="right", min_cpus=1)


def test_a_composite_has_a_part_of_each_component() -> None:
    """2500m are 1250m for each of two, so two CPUs each; it cannot have more than twice the smaller part."""
    there = node(LEFT, RIGHT, BalloonType(name="both", components=("left", "right"), max_balloons=1))
    assert there.add("a/x", 2500, kind="both").startswith("both[0]: ")
    details = there.policy.state.grants[there.key("a/x")].details
    assert [len(CpuSet.parse(part)) for part in details["cpus"].split("/")] == [2, 2]
    assert there.add("b", 3500, kind="both").startswith("both[0]: ")
    assert there.add("c", 500, kind="both").startswith("no suitable balloon of type both")


def test_a_composite_of_the_rarer_component() -> None:
    """Balloon by balloon the one of which there are the fewest, those inside of composites counted."""
    either = BalloonType(
        name="either", components=("left", "right"), component_creation=ComponentCreation.BALANCE, prefer_new=True
    )
    there = node(LEFT, RIGHT, either)
    there.add("a", 100, kind="left")
    picked = []
    for title in ("b", "c", "d"):
        there.add(title, 100, kind="either")
        picked.append(there.policy.state.grants[there.key(title)].details["components"])
    assert picked == ["right", "left", "right"]
    again = there.restarted(backwards=True)
    assert again.pools() == there.pools()
    assert {key: grant.details for key, grant in again.policy.state.grants.items()} == {
        key: grant.details for key, grant in there.policy.state.grants.items()
    }


def test_composites_of_composites() -> None:
    """A quarter for each of two parts of a half, and the other half: 4000m are 1, 1 and 2 CPUs."""
    there = node(
        LEFT,
        RIGHT,
        BalloonType(name="half", components=("left", "right")),
        BalloonType(name="whole", components=("half", "right"), min_balloons=1),
    )
    there.add("a", 4000, kind="whole")
    parts = there.policy.state.grants[there.key("a")].details["cpus"].split("/")
    assert [len(CpuSet.parse(part)) for part in parts] == [1, 1, 2]


def test_limits_of_a_composite_are_divided() -> None:
    """Three CPUs at least are two for each part; nine at most are four for each."""
    there = node(RIGHT, BalloonType(name="both", components=("right", "right"), min_cpus=3, max_cpus=9, max_balloons=1))
    there.add("a", 100, kind="both")
    assert len(CpuSet.parse(there.cpus("a"))) == 4
    assert there.add("b", 7900, kind="both").startswith("both[0]: ")
    assert there.add("c", 1, kind="both").startswith("no suitable balloon")


# -- balloons without containers


def test_kept_balloons_are_there_from_the_start() -> None:
    """Those of preferred priorities are placed first, then in the order of types."""
    there = node(BalloonType(name="own", min_balloons=2, min_cpus=4))
    assert there.pools() == {
        "reserved[0]": "8",
        "own[0]": "0-3",
        "own[1]": "4-7",
        "default[0]": "",
        "idle": "9-15",
    }


def test_a_balloon_that_is_empty_again_is_where_it_was() -> None:
    """It had grown to six CPUs."""
    there = node(BalloonType(name="own", min_balloons=1, min_cpus=4))
    before = there.pools()
    there.add("a", 6000, kind="own")
    there.remove("a")
    assert there.pools() == before


def test_more_balloons_than_are_kept() -> None:
    """With containers in the second and the third, the first is not there any more: two are kept."""
    there = node(BalloonType(name="own", min_balloons=2, min_cpus=2, prefer_new=True))
    for title in ("a", "b", "c"):
        there.add(title, 100, kind="own")
    there.remove("a")
    assert [name for name in there.pools() if name.startswith("own")] == ["own[1]", "own[2]"]
    assert there.restarted(backwards=True).pools() == there.pools()


def test_kept_balloons_have_their_cpus_whatever_comes() -> None:
    """Of 15 CPUs the empty balloon needs four."""
    there = node(BalloonType(name="own", min_balloons=1, min_cpus=4))
    assert there.add("a", 11001).startswith("no suitable balloon of type default")
    assert there.add("a", 11000).startswith("default[0]: ")
    assert there.add("b", 4000, kind="own") == f"own[0]: {there.pools()['own[0]']}"


# -- restarts and other options


def test_everything_is_where_it_was_after_a_restart() -> None:
    """The first container of a balloon brings back its CPUs as a whole, in whatever order containers come."""
    types = (
        BalloonType(name="own", min_cpus=2, max_cpus=6, share_idle=ShareLevel.PACKAGE, hide_hyperthreads=True),
        BalloonType(name="kept", min_cpus=1, min_balloons=2, prefer_new=True),
    )
    there = node(*types)
    for title, milli, kind in (("a/x", 2500, "own"), ("b", 500, "kept"), ("a/y", 1500, "own"), ("c", 900, "")):
        there.add(title, milli, kind=kind)
    there.remove("b")
    for backwards in (False, True):
        again = there.restarted(backwards=backwards)
        assert again.pools() == there.pools()
        assert {key: again.policy.state.assignment(key) for key in again.requests} == {
            key: there.policy.state.assignment(key) for key in there.requests
        }


def test_what_is_kept_is_told() -> None:
    """The decision says that nothing has changed."""
    there = node(ONE)
    there.add("a", 2000, kind="one")
    key = there.key("a")
    again = node(ONE)
    decision = again.create(there.requests[key], there.policy.state.grants[key])
    assert decision.action is Action.KEEP
    assert "; it was there already; " in decision.reason
    assert again.policy.allocate(there.requests[key]).action is Action.KEEP


def test_larger_limits_keep_the_cpus() -> None:
    """At least six now: four more, and those that it had."""
    there = node(replace(ONE, max_cpus=4))
    there.add("a", 2000, kind="one")
    assert there.cpus("a") == "2-3"
    again = there.restarted(BalloonsOptions(types=(replace(ONE, min_cpus=6),)))
    assert CpuSet.parse("2-3") <= CpuSet.parse(again.cpus("a"))
    assert len(CpuSet.parse(again.cpus("a"))) == 6


def test_smaller_limits_keep_a_part_of_the_cpus() -> None:
    """Three at most of the six that it had."""
    there = node(replace(ONE, min_cpus=6))
    there.add("a", 2000, kind="one")
    again = there.restarted(BalloonsOptions(types=(replace(ONE, max_cpus=3),)))
    assert CpuSet.parse(again.cpus("a")) < CpuSet.parse(there.cpus("a"))
    assert len(CpuSet.parse(again.cpus("a"))) == 3


def test_a_balloon_that_does_not_fit_any_more() -> None:
    """With at most one CPU for it, its two containers are in two balloons; the first keeps one of its CPUs."""
    there = node(ONE)
    there.add("a/x", 1000, kind="one")
    there.add("a/y", 1000, kind="one")
    again = there.restarted(BalloonsOptions(types=(replace(ONE, max_cpus=1),)))
    assert {again.cpus("a/x"), again.cpus("a/y")} == {"1", "2"}


def test_another_type_takes_over_the_cpus() -> None:
    """The type has another name now."""
    there = node(replace(ONE, namespaces=("*",)))
    there.add("a", 2000)
    again = there.restarted(BalloonsOptions(types=(BalloonType(name="two", namespaces=("*",)),), balance=True))
    assert again.policy.state.grants[there.key("a")].details["balloon"] == "two[0]"
    assert again.cpus("a") == there.cpus("a")


def test_less_room_than_it_had() -> None:
    """It has 15 CPUs for 9000m; when two of them are for another balloon, it keeps 13 at most, and 9 are needed."""
    there = node(replace(ONE, min_cpus=15))
    there.add("a", 9000, kind="one")
    kept = BalloonType(name="kept", min_balloons=1, min_cpus=2)
    again = there.restarted(BalloonsOptions(types=(ONE, kept)))
    assert len(CpuSet.parse(again.cpus("a"))) == 9


def test_no_room_at_all_any_more() -> None:
    """14 CPUs are needed and 13 are left: refused, whatever it has."""
    there = node(ONE)
    there.add("a", 14000, kind="one")
    kept = BalloonType(name="kept", min_balloons=1, min_cpus=2)
    again = there.restarted(BalloonsOptions(types=(ONE, kept)))
    assert not again.requests


def test_fewer_balloons_than_there_were() -> None:
    """One at most: the second container joins the first one."""
    there = node(replace(ONE, prefer_new=True))
    there.add("a", 1000, kind="one")
    there.add("b", 1000, kind="one")
    again = there.restarted(BalloonsOptions(types=(replace(ONE, max_balloons=1),)))
    assert again.pools()["one[0]"] == "1-2"
    assert "one[1]" not in again.pools()


def test_a_composite_that_is_made_otherwise_now() -> None:
    """It is a new balloon with the CPUs that it had."""
    both = BalloonType(name="both", components=("left", "right"))
    there = node(LEFT, RIGHT, both)
    there.add("a", 2000, kind="both")
    again = there.restarted(BalloonsOptions(types=(LEFT, RIGHT, replace(both, components=("left",)))))
    assert again.cpus("a") == there.cpus("a")


def test_coming_from_another_policy() -> None:
    """Its own CPUs become those of its balloon, isolated ones only if the type wants them."""
    text = "2 sockets x 2 numa x 2 cores x 2 threads; isolated 12-13"
    iso = BalloonType(name="iso", prefer_isolated=True)
    held = Grant(exclusive=CpuSet.parse("9,12"))
    there = node(ONE, iso, on=text)
    there.create(there.request("a", 2000, kind="iso"), held)
    assert there.cpus("a") == "9,12"
    other = node(ONE, iso, on=text)
    other.create(other.request("a", 2000, kind="one"), held)
    assert other.cpus("a") == "8-9"


def test_coming_from_another_policy_into_a_kept_balloon() -> None:
    """The balloon is where the container was, and not where it stood empty."""
    there = node(BalloonType(name="own", min_balloons=1, min_cpus=2))
    there.create(there.request("a", 1500, kind="own"), Grant(exclusive=CpuSet.parse("9,12")))
    assert there.cpus("a") == "9,12"


@pytest.mark.parametrize(
    "details",
    [
        {"balloon": "one"},
        {"balloon": "one[x]", "cpus": "2"},
        {"balloon": "one[1234567890]", "cpus": "2"},
        {"balloon": "one[0]", "cpus": "two"},
        {"balloon": "one[0]", "cpus": "2", "counted": "x"},
        {"balloon": "one[0]", "cpus": "2", "components": "left"},
        {"balloon": "one[0]", "cpus": "2/3"},
    ],
)
def test_records_that_are_not_ours(details: dict[str, str]) -> None:
    """They say nothing about the balloon."""
    there = node(ONE)
    decision = there.create(there.request("a", 1000, kind="one"), Grant(pools=("x",), details=details))
    assert "it has no other containers" in decision.reason


def test_containers_that_nobody_decided_about_have_shared_cpus() -> None:
    """Those of balloon `default`; while it has none, idle ones that are not isolated; else those of the system."""
    there = node(on="1 socket x 4 cores; isolated 3")
    assert str(there.policy.fallback) == "1-2"
    there.add("a", 1000)
    assert str(there.policy.fallback) == "1"
    full = node(ONE, on="1 socket x 2 cores")
    full.add("a", 1000, kind="one")
    assert str(full.policy.fallback) == "0"


def test_the_state_of_a_new_policy() -> None:
    """A pool for each balloon, no grants."""
    there = node(ONE)
    assert there.policy.name == "balloons"
    assert there.policy.state.pools == {"reserved[0]": CpuSet.parse("0"), "default[0]": CpuSet()}


# -- what people are told


def test_reports_of_balloons() -> None:
    """Type, CPUs, memory, what is requested and what is left of that, idle CPUs near by; then the CPUs of none."""
    there = node(BalloonType(name="one", share_idle=ShareLevel.NUMA))
    there.add("a/x", 1500, kind="one")
    rows = [
        (one.name, one.kind, str(one.cpus), str(one.idle), str(one.mems), one.granted, one.free, one.containers)
        for one in there.policy.report_pools()
    ]
    assert rows == [
        ("reserved[0]", "reserved", "0", "", "0", 0, 1000, ()),
        ("one[0]", "one", "2-3", "1", "0", 1500, 500, (there.key("a/x"),)),
        ("default[0]", "default", "", "", "", 0, 0, ()),
        ("idle", "idle", "1,4-15", "", "", None, None, ()),
    ]


def test_one_cpu_in_a_sentence() -> None:
    """It is a CPU, not CPUs."""
    there = node(ONE)
    decision = there.create(there.request("a", 500, kind="one"))
    assert decision.reason.endswith(f"CPU {there.cpus('a')} for 500m of 1 container")
