"""static-plus: CPUs of their own for whoever asks for whole ones, shares of the rest, and what if it is full."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import NO_QUOTA, Action, Assignment, Decision, Grant, RefusalKind
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.options import StaticPlusOptions
from interpose.core.policy.static_plus import StaticPlusPolicy
from interpose.errors import ConfigError
from tests.support.policy.machines import machine

ISOLATED = "2p2n2c2t; isolated 8-10"  # n4c16 with three isolated CPUs
ALONE = {"cri-resource-manager.intel.com/prefer-isolated-cpus": "false"}


def policy_of(
    topology: str = "n4c16", reserved: str | int | None = 1000, available: str | None = None, pin_memory: bool = False
) -> StaticPlusPolicy:
    """A policy on this machine; text are CPUs."""
    return StaticPlusPolicy(
        Setup(
            topology=machine(topology),
            available=None if available is None else CpuSet.parse(available),
            reserved=CpuSet.parse(reserved) if isinstance(reserved, str) else reserved,
        ),
        StaticPlusOptions(pin_memory=pin_memory),
    )


def ask(name: str, milli: int, namespace: str = "default", annotations: Mapping[str, str] | None = None) -> Request:
    """A container that wants so many thousandths of a CPU."""
    return Request(
        key=Key("pod", name), namespace=namespace, amounts=Amounts(milli=milli), pod_annotations=annotations or {}
    )


def granted(decision: Decision) -> Grant:
    assert decision.refusal is None
    assert decision.grant is not None
    return decision.grant


def given(decision: Decision) -> Grant:
    """The same without what the policy notes for itself."""
    return replace(granted(decision), details={})


def refused(decision: Decision) -> tuple[RefusalKind, str]:
    """Why nothing was given."""
    assert decision.grant is None
    assert decision.refusal is not None
    assert decision.reason == decision.refusal.message
    return decision.refusal.kind, decision.refusal.message


def has(policy: StaticPlusPolicy, name: str) -> Assignment:
    """What a container has according to the book."""
    return policy.state.assignment(Key("pod", name))


def cpus_of(policy: StaticPlusPolicy, name: str) -> str:
    return str(has(policy, name).cpus)


def keys(*names: str) -> tuple[Key, ...]:
    return tuple(Key("pod", name) for name in names)


# -- where it starts


def test_it_is_a_policy() -> None:
    """With three pools, each CPU in one of them."""
    policy: Policy = policy_of(ISOLATED)
    assert policy.name == "static-plus"
    assert policy.pools() == {
        "reserved": CpuSet.parse("0"),
        "isolated": CpuSet.parse("8-10"),
        "shared": CpuSet.parse("1-7,11-15"),
    }
    assert policy.fallback == CpuSet.parse("1-7,11-15")


@pytest.mark.parametrize(
    ("reserved", "available", "expected"),
    [
        (1000, None, "0"),
        (750, None, "0"),
        (1, "4-15", "4"),
        (2000, None, "0-1"),
        ("3,7", None, "3,7"),
        (4000, "8-15", "8-11"),
    ],
)
def test_reserved_cpus(reserved: str | int, available: str | None, expected: str) -> None:
    """CPU 0 if one is enough, else some near each other; or those that were said."""
    policy = policy_of(reserved=reserved, available=available)
    assert policy.pools()["reserved"] == CpuSet.parse(expected)
    assert policy.pools()["shared"] == CpuSet.parse(available or "0-15") - CpuSet.parse(expected)


def test_offline_cpus_are_left_out() -> None:
    """Of all that was said."""
    policy = policy_of("2p2n2c2t; offline 3,5", reserved="3,4", available="2-8")
    assert policy.pools() == {"reserved": CpuSet.parse("4"), "isolated": CpuSet(), "shared": CpuSet.parse("2,6-8")}


@pytest.mark.parametrize(
    ("topology", "reserved", "available", "problem"),
    [
        ("n4c16", None, None, "reserved resources: .*cpu=1"),
        ("n4c16", 0, None, "reserved resources"),
        ("n4c16", "99", None, "reserved resources: CPUs 99 .* do not exist"),
        ("n4c16", 1000, "0-99", "available resources: CPUs 16-99 .* do not exist"),
        ("n4c16", "0-3", "2-15", "reserved resources: CPUs 0-1 .*not among"),
        ("n4c16", 17000, None, "reserved resources: 17"),
        (ISOLATED, "7-8", None, "reserved resources: CPUs 8 .*isolated"),
        (ISOLATED, 1000, "8-9", "available resources: .*isolated"),
        ("2p2n2c2t; offline 3,5", "3", None, "reserved resources: .*3.*offline"),
    ],
)
def test_what_it_cannot_work_with_is_refused(
    topology: str, reserved: str | int | None, available: str | None, problem: str
) -> None:
    """At the start, with the option and its value."""
    with pytest.raises(ConfigError, match=problem):
        policy_of(topology, reserved, available)


# -- who gets what


def test_kube_system_has_the_reserved_cpus() -> None:
    """Whatever it asks for, and whatever comes later."""
    policy = policy_of(reserved="0-1")
    grant = given(policy.allocate(ask("a", 2500, "kube-system")))
    assert grant == Grant(pools=("reserved",), shares=2560, milli=2500)
    policy.allocate(ask("b", 14000))
    assert cpus_of(policy, "a") == "0-1"


@pytest.mark.parametrize(("milli", "shares"), [(0, 2), (1, 2), (500, 512), (999, 1022)])
def test_less_than_one_cpu_is_a_share_of_the_pool(milli: int, shares: int) -> None:
    """CPU shares say how much of it."""
    policy = policy_of()
    grant = given(policy.allocate(ask("a", milli)))
    assert grant == Grant(pools=("shared",), shares=shares, milli=milli)
    assert cpus_of(policy, "a") == "1-15"


def test_whole_cpus_are_its_own() -> None:
    """Nothing else is, and the others lose them."""
    policy = policy_of()
    policy.allocate(ask("a", 500))
    decision = policy.allocate(ask("b", 4000))
    grant = given(decision)
    assert len(grant.exclusive) == 4
    assert grant == Grant(exclusive=grant.exclusive, shares=4096)
    assert has(policy, "b") == Assignment(cpus=grant.exclusive, shares=4096)
    assert has(policy, "a") == Assignment(cpus=CpuSet.parse("1-15") - grant.exclusive, shares=512)
    assert decision.changed == keys("a")
    assert decision.reason.startswith("4 CPUs of its own: pool shared, ")


def test_whole_cpus_and_a_part_are_its_own_and_a_share() -> None:
    """The shares are those of the part."""
    policy = policy_of()
    decision = policy.allocate(ask("a", 1500))
    grant = given(decision)
    assert len(grant.exclusive) == 1
    assert grant == Grant(exclusive=grant.exclusive, pools=("shared",), shares=512, milli=500)
    assert cpus_of(policy, "a") == "1-15"
    assert decision.reason.endswith(", and 500m of pool shared")
    assert policy.pools()["shared"] == CpuSet.parse("1-15") - grant.exclusive


def test_isolated_cpus_come_first() -> None:
    """If there are enough of them; the shared pool is not touched."""
    policy = policy_of(ISOLATED)
    policy.allocate(ask("a", 100))
    decision = policy.allocate(ask("b", 2000))
    assert granted(decision).exclusive == CpuSet.parse("8-9")
    assert decision.changed == ()
    assert decision.reason.startswith("2 CPUs of its own: isolated CPUs")
    third = policy.allocate(ask("c", 2000))
    assert granted(third).exclusive < CpuSet.parse("1-7,11-15")
    assert [(candidate.name, candidate.score, candidate.chosen) for candidate in third.candidates[:2]] == [
        ("isolated CPUs", "1 free", False),
        ("pool shared", "12 free", True),
    ]
    assert granted(policy.allocate(ask("d", 1200))).exclusive == CpuSet.parse("10")


def test_a_pod_may_not_want_isolated_cpus() -> None:
    """Then they are passed over."""
    decision = policy_of(ISOLATED).allocate(ask("a", 2000, annotations=ALONE))
    assert not granted(decision).exclusive & CpuSet.parse("8-10")
    assert decision.candidates[0].reason == "the pod does not want them"


def test_an_annotation_that_cannot_be_read_is_refused() -> None:
    """With its name and value; nothing is in the book."""
    policy = policy_of(ISOLATED)
    why, message = refused(policy.allocate(ask("a", 2000, annotations=dict.fromkeys(ALONE, "perhaps"))))
    assert why is RefusalKind.INVALID
    assert "prefer-isolated-cpus" in message
    assert "'perhaps'" in message
    assert not policy.state.grants


def test_more_than_there_is_is_refused() -> None:
    """With what there is, and nothing changes."""
    policy = policy_of(ISOLATED)
    before = policy.allocate(ask("a", 11000)), dict(policy.pools())
    assert refused(policy.allocate(ask("b", 4000))) == (
        RefusalKind.EXHAUSTED,
        "4 CPUs of its own cannot be had: isolated CPUs: 3 free, 4 CPUs needed; pool shared: 1 free, 4 CPUs needed",
    )
    assert (granted(before[0]), before[1]) == (policy.state.grants[Key("pod", "a")], policy.pools())


# -- a full pool


def test_who_does_not_fit_in_the_shared_pool_has_the_reserved_cpus_too() -> None:
    """In order of coming; who has whole CPUs only, or is of the system, is not touched."""
    policy = policy_of(reserved="0-1", available="0-5")
    for name, milli in (("a", 900), ("b", 900), ("c", 900), ("d", 0)):
        policy.allocate(ask(name, milli))
    policy.allocate(ask("s", 500, "kube-system"))
    decision = policy.allocate(ask("e", 2000))
    own = granted(decision).exclusive
    shared = CpuSet.parse("2-5") - own
    assert decision.changed == keys("a", "b", "c", "d")
    assert [has(policy, name).cpus for name in "ab"] == [shared, shared]
    assert [has(policy, name).cpus for name in "cd"] == [shared | CpuSet.parse("0-1")] * 2
    assert cpus_of(policy, "s") == "0-1"
    assert has(policy, "e").cpus == own


def test_who_comes_to_a_full_pool_has_the_reserved_cpus_too() -> None:
    """It is said so; when others go, it goes back."""
    policy = policy_of(available="0-2")
    policy.allocate(ask("a", 900))
    policy.allocate(ask("b", 900))
    decision = policy.allocate(ask("c", 300))
    assert granted(decision).pools == ("shared", "reserved")
    assert decision.reason.endswith("pool shared is full, so the reserved CPUs too")
    assert policy.release(Key("pod", "a")).changed == keys("c")
    assert cpus_of(policy, "c") == "1-2"


def test_the_order_of_coming_survives_a_resize() -> None:
    """The first stays the first."""
    policy = policy_of(available="0-2")
    for name in "abc":
        policy.allocate(ask(name, 600))
    assert cpus_of(policy, "c") == "1-2"
    policy.resize(ask("a", 900))
    assert [cpus_of(policy, name) for name in "abc"] == ["1-2", "1-2", "0-2"]


def test_the_shared_pool_may_become_empty_if_the_reserved_cpus_are_enough() -> None:
    """Then all that share are there, and so is the fallback."""
    policy = policy_of(available="0-4")
    policy.allocate(ask("a", 600))
    policy.allocate(ask("b", 0))
    assert granted(policy.allocate(ask("c", 4000))).exclusive == CpuSet.parse("1-4")
    assert [cpus_of(policy, name) for name in "ab"] == ["0", "0"]
    assert policy.fallback == CpuSet.parse("0")
    policy.allocate(ask("d", 900))
    assert cpus_of(policy, "d") == "0"


def test_the_last_shared_cpus_are_not_given_away_if_they_are_needed() -> None:
    """By those that share, the newcomer's own part counted."""
    policy = policy_of(available="0-4")
    policy.allocate(ask("a", 600))
    why, message = refused(policy.allocate(ask("b", 4500)))
    assert why is RefusalKind.EXHAUSTED
    assert message.endswith(
        "pool shared: 4 free, the last of them are needed by those that share: 1100m do not fit in the reserved 1000m"
    )
    assert cpus_of(policy, "a") == "1-4"
    assert len(granted(policy.allocate(ask("b", 4400))).exclusive) == 4


# -- later


def test_a_container_keeps_what_it_held() -> None:
    """Exactly, wherever its CPUs are from."""
    policy = policy_of(ISOLATED)
    requests = [ask("a", 2000), ask("b", 3500), ask("c", 200), ask("d", 1000), ask("s", 100, "kube-system")]
    held = {request.key: granted(policy.allocate(request)) for request in requests}
    fresh = policy_of(ISOLATED)
    for request in requests:
        decision = fresh.allocate(request, held[request.key])
        assert decision.action is Action.KEEP
        assert granted(decision) == held[request.key]
    assert fresh.pools() == policy.pools()


def test_what_another_policy_mixed_is_kept() -> None:
    """As long as it is free, it does no harm; going, each CPU goes where it belongs."""
    policy = policy_of(ISOLATED)
    before = dict(policy.pools())
    decision = policy.allocate(ask("a", 2000), Grant(exclusive=CpuSet.parse("7-8")))
    assert granted(decision).exclusive == CpuSet.parse("7-8")
    assert decision.action is Action.ALLOCATE  # it gets shares
    policy.release(Key("pod", "a"))
    assert policy.pools() == before


def test_what_is_not_free_is_not_kept() -> None:
    """Reserved, or somebody else's; the rest is."""
    policy = policy_of()
    policy.allocate(ask("a", 1000), Grant(exclusive=CpuSet.parse("5")))
    grant = granted(policy.allocate(ask("b", 3000), Grant(exclusive=CpuSet.parse("0,4,5"))))
    assert 4 in grant.exclusive
    assert not grant.exclusive & CpuSet.parse("0,5")


def test_isolated_cpus_that_a_pod_does_not_want_are_not_kept() -> None:
    """However it came to them."""
    held = Grant(exclusive=CpuSet.parse("7-8"))
    grant = granted(policy_of(ISOLATED).allocate(ask("a", 2000, annotations=ALONE), held))
    assert 7 in grant.exclusive
    assert not grant.exclusive & CpuSet.parse("8-10")


def test_a_container_that_is_there_already_keeps_its_own() -> None:
    """Asked for again, it is the same container."""
    policy = policy_of()
    first = granted(policy.allocate(ask("a", 2000)))
    again = policy.allocate(ask("a", 2000))
    assert (again.action, again.grant) == (Action.KEEP, first)
    assert len(policy.pools()["shared"]) == 13


def test_growing_keeps_its_cpus() -> None:
    """And takes more of the same kind."""
    policy = policy_of(ISOLATED)
    own = granted(policy.allocate(ask("a", 1000))).exclusive
    assert own <= CpuSet.parse("8-10")
    decision = policy.resize(ask("a", 2000))
    assert decision.action is Action.RESIZE
    assert own < granted(decision).exclusive <= CpuSet.parse("8-10")


def test_growing_takes_another_kind_if_it_must() -> None:
    """It does not lose what it has for that."""
    policy = policy_of(ISOLATED)
    policy.allocate(ask("a", 3000))
    grant = granted(policy.resize(ask("a", 5000)))
    assert CpuSet.parse("8-10") < grant.exclusive
    ordinary = policy_of(ISOLATED)
    ordinary.allocate(ask("a", 11000))
    grown = granted(ordinary.resize(ask("a", 14000)))
    assert CpuSet.parse("8-9") < grown.exclusive


def test_growing_takes_the_same_kind_if_it_can() -> None:
    """Isolated ones come first only for who has none."""
    policy = policy_of(ISOLATED)
    policy.allocate(ask("a", 4000))
    assert not granted(policy.resize(ask("a", 5000))).exclusive & CpuSet.parse("8-10")


def test_growing_by_isolated_cpus_takes_nothing_from_those_that_share() -> None:
    """Even if they are crowded already."""
    policy = policy_of("1p4c1t; isolated 3", reserved="0")
    policy.allocate(ask("a", 2000, annotations=ALONE))
    policy.allocate(ask("b", 900))
    policy.allocate(ask("c", 900))
    assert granted(policy.resize(ask("a", 3000))).exclusive == CpuSet.parse("1-3")


def test_growing_counts_ones_own_share_once() -> None:
    """As it will be, not as it was."""
    policy = policy_of(available="0-4")
    policy.allocate(ask("a", 500))
    policy.allocate(ask("b", 500))
    assert granted(policy.resize(ask("a", 4500))).exclusive == CpuSet.parse("1-4")


def test_shrinking_keeps_some_of_its_cpus() -> None:
    """The others are shared again."""
    policy = policy_of()
    own = granted(policy.allocate(ask("a", 4000))).exclusive
    policy.allocate(ask("b", 100))
    decision = policy.resize(ask("a", 2000))
    assert granted(decision).exclusive < own
    assert decision.reason == f"gives CPUs back and keeps {granted(decision).exclusive} of its own"
    assert decision.changed == keys("b")
    assert policy.pools()["shared"] == CpuSet.parse("1-15") - granted(decision).exclusive


def test_whole_cpus_and_shares_become_each_other() -> None:
    """A resize works in both directions."""
    policy = policy_of()
    policy.allocate(ask("a", 2000))
    assert given(policy.resize(ask("a", 800))) == Grant(pools=("shared",), shares=819, milli=800)
    assert policy.pools()["shared"] == CpuSet.parse("1-15")
    assert len(granted(policy.resize(ask("a", 3000))).exclusive) == 3


def test_a_refused_resize_changes_nothing() -> None:
    """It keeps what it has."""
    policy = policy_of()
    grant = granted(policy.allocate(ask("a", 2000)))
    pools = dict(policy.pools())
    assert refused(policy.resize(ask("a", 16000)))[0] is RefusalKind.EXHAUSTED
    assert policy.state.grants == {Key("pod", "a"): grant}
    assert policy.pools() == pools


def test_growing_may_take_the_last_shared_cpu_only_if_the_reserved_ones_are_enough() -> None:
    """Isolated ones are the way out."""
    policy = policy_of("1p4c1t; isolated 3", reserved="0")
    policy.allocate(ask("a", 1000, annotations=ALONE))
    policy.allocate(ask("b", 900))
    policy.allocate(ask("c", 900))
    grant = granted(policy.resize(ask("a", 2000)))
    assert 3 in grant.exclusive
    assert len(policy.pools()["shared"]) == 1


def test_a_release_gives_everything_back() -> None:
    """What nobody holds can be released too."""
    policy = policy_of(ISOLATED)
    before = dict(policy.pools())
    for name, milli in (("a", 2000), ("b", 3500), ("c", 100)):
        policy.allocate(ask(name, milli))
    assert policy.release(Key("pod", "c")).reason == "it had no CPUs of its own"
    assert policy.release(Key("pod", "b")).reason.endswith("are free again")
    policy.release(Key("pod", "a"))
    assert policy.pools() == before
    assert policy.release(Key("pod", "a")).reason == "it held nothing"


# -- memory


def test_memory_is_that_next_to_whole_cpus() -> None:
    """Only for containers that have nothing else."""
    policy = policy_of(pin_memory=True)
    own = granted(policy.allocate(ask("a", 4000)))
    assert own.mems == machine("n4c16").nodes_of(own.exclusive)
    assert granted(policy.allocate(ask("b", 1500))).mems is None
    assert granted(policy.allocate(ask("c", 500))).mems is None
    assert granted(policy_of().allocate(ask("a", 4000))).mems is None


def test_memory_is_free_again_when_a_container_shares() -> None:
    """All nodes are written: written nothing, it would stay bound."""
    policy = policy_of(pin_memory=True)
    policy.allocate(ask("a", 4000))
    assert granted(policy.resize(ask("a", 500))).mems == CpuSet.parse("0-3")
    assert granted(policy.resize(ask("a", 600))).mems == CpuSet.parse("0-3")
    assert len(granted(policy.resize(ask("a", 4000))).mems or ()) == 1


def test_memory_is_free_again_when_it_is_not_pinned_any_more() -> None:
    """A container that runs already is bound from before."""
    held = granted(policy_of(pin_memory=True).allocate(ask("a", 4000)))
    assert granted(policy_of().allocate(ask("a", 4000), held)).mems == CpuSet.parse("0-3")


def test_the_example_of_the_page() -> None:
    """As docs/policy/static-plus.md has it."""
    policy = policy_of("2p2n2c2t; isolated 8-9")
    policy.allocate(ask("dns", 100, "kube-system"))
    for name, milli in (("web", 500), ("db", 2000), ("cache", 1500), ("batch", 11000), ("job", 200)):
        policy.allocate(ask(name, milli))
    names = ("dns", "web", "db", "cache", "batch", "job")
    assert [cpus_of(policy, name) for name in names] == ["0", "15", "8-9", "1,15", "2-7,10-14", "0,15"]
    assert [has(policy, name).shares for name in names] == [102, 512, 2048, 512, 11264, 204]
    assert refused(policy.allocate(ask("last", 1000)))[0] is RefusalKind.EXHAUSTED
    policy.resize(ask("batch", 8000))
    assert [cpus_of(policy, name) for name in names] == ["0", "12-15", "8-9", "1,12-15", "2-7,10-11", "12-15"]


# -- the order of coming


def test_a_restart_does_not_change_who_came_first() -> None:
    """Told in another order, those that came last are still those with the reserved CPUs."""
    policy = policy_of("1 socket x 4 cores")
    wanted = [ask("first", 600), ask("alone", 1000), ask("last", 1600)]
    for request in wanted:
        policy.allocate(request)
    again = policy_of("1 socket x 4 cores")
    for request in reversed(wanted):
        again.allocate(request, policy.state.grants[request.key])
    for one in (policy, again):
        assert [cpus_of(one, name) for name in ("first", "alone", "last")] == ["3", "1", "0,2-3"]


def test_who_comes_after_a_restart_comes_last() -> None:
    """Whatever was freed before it."""
    policy = policy_of("1 socket x 2 cores")
    policy.allocate(ask("gone", 100))
    policy.allocate(ask("old", 600))
    policy.release(Key("pod", "gone"))
    again = policy_of("1 socket x 2 cores")
    again.allocate(ask("old", 600), policy.state.grants[Key("pod", "old")])
    again.allocate(ask("new", 600))
    assert (cpus_of(again, "old"), cpus_of(again, "new")) == ("1", "0-1")


@pytest.mark.parametrize("came", ["", "soon", "-1", "9" * 5000])
def test_a_place_that_nobody_gave_is_the_last_one(came: str) -> None:
    """What somebody else wrote into a grant does no harm."""
    policy = policy_of("1 socket x 2 cores")
    policy.allocate(ask("old", 600))
    policy.allocate(ask("new", 600), Grant(pools=("shared",), details={"came": came}))
    assert (cpus_of(policy, "old"), cpus_of(policy, "new")) == ("1", "0-1")


@pytest.mark.parametrize(
    ("milli", "namespace", "lift", "quota"),
    [
        (2000, "shop", True, NO_QUOTA),
        (2000, "shop", False, None),
        (2500, "shop", True, None),
        (500, "shop", True, None),
        (2000, "kube-system", True, None),
    ],
)
def test_only_who_has_whole_cpus_alone_has_no_quota(milli: int, namespace: str, lift: bool, quota: int | None) -> None:
    """What shares some could take more of them than its limit. Without a quota there is nothing to lift."""
    setup = Setup(topology=machine("n4c16"), reserved=1000)
    policy = StaticPlusPolicy(setup, StaticPlusOptions(lift_quota=lift))
    for limited in (True, False):
        request = Request(
            key=Key("pod", "app"), namespace=namespace, amounts=Amounts(milli=milli, limit_milli=milli, quota=limited)
        )
        policy.allocate(request)
        assert policy.state.assignment(request.key).quota == (quota if limited else None)


def test_a_pod_as_a_whole_has_no_more_cpus_than_it_asks_for() -> None:
    """What its containers ask for themselves is theirs, in the order in which they come; a resize counts as well."""
    policy = policy_of()
    pod = Amounts(milli=3000)
    first, second, third = (
        replace(ask(name, milli), pod_amounts=pod) for name, milli in zip("abc", (2000, 2000, 0), strict=True)
    )
    assert len(granted(policy.allocate(first)).exclusive) == 2
    crowded = policy.allocate(second)
    assert given(crowded) == Grant(pools=("shared",), milli=2000, shares=2048)
    assert crowded.reason == "other containers have the CPUs that its pod asks for in all: a share of pool shared"
    # Its shares are the kubelet's, which are those of the pod.
    assert given(policy.allocate(third)) == Grant(pools=("shared",))
    policy.release(first.key)
    # A restart moves nobody.
    assert given(policy_of().allocate(second, policy.state.grants[second.key])) == given(crowded)
    assert len(granted(policy.resize(second)).exclusive) == 2
