"""podpools: where a pod goes, that it stays there as a whole, and what is full."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import Action, Assignment, Decision, Grant, RefusalKind
from interpose.core.policy.podpools.options import FillOrder, InstanceAmount, PodPool, PodPoolsOptions
from interpose.core.policy.podpools.policy import PodPoolsPolicy
from interpose.core.policy.request import Amounts, Key, Request
from interpose.errors import ConfigError
from tests.support.policy.machines import machine

POOL = "pool.podpools.cri-resource-manager.intel.com"
OTHER = "pool.podpools.resource-policy.nri.io"


def duals(max_pods: int = 2, order: FillOrder = FillOrder.BALANCED, name: str = "dual", count: int = 3) -> PodPool:
    """Instances with two CPUs."""
    amount = InstanceAmount(number=count)
    return PodPool(name=name, cpus=2, max_pods=max_pods, instances=amount, fill_order=order)


def policy_of(
    *pools: PodPool,
    on: str = "n4c16",
    reserved: CpuSet | int | None = 1000,
    available: CpuSet | None = None,
    pin_cpu: bool = True,
    pin_memory: bool = True,
) -> PodPoolsPolicy:
    """A policy with these pools."""
    setup = Setup(topology=machine(on), available=available, reserved=reserved)
    return PodPoolsPolicy(setup, PodPoolsOptions(pin_cpu=pin_cpu, pin_memory=pin_memory, pools=pools))


def ask(
    pod: str,
    pool: str | None = None,
    name: str = "app",
    milli: int = 0,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
) -> Request:
    """A container of a pod that names this pool."""
    notes = {} if pool is None else {POOL: pool}
    return Request(
        key=Key(pod, name),
        namespace=namespace,
        pod=pod,
        amounts=Amounts(milli=milli),
        pod_annotations={**notes, **(annotations or {})},
    )


def place(decision: Decision) -> str:
    """The instance."""
    assert decision.refusal is None
    assert decision.grant is not None
    assert len(decision.grant.pools) == 1
    assert decision.changed == ()
    return decision.grant.pools[0]


def refused(decision: Decision) -> tuple[RefusalKind, str]:
    """Why nothing was given."""
    assert decision.grant is None
    assert decision.refusal is not None
    assert decision.reason == decision.refusal.message
    return decision.refusal.kind, decision.refusal.message


def places(policy: PodPoolsPolicy, pool: str, pods: int) -> list[str]:
    """Where so many pods go."""
    return [place(policy.allocate(ask(f"p{number}", pool))) for number in range(pods)]


# -- where it starts


def test_it_is_a_policy() -> None:
    """Its instances are pools by name."""
    policy: Policy = policy_of(duals())
    assert policy.name == "podpools"
    assert {name: str(cpus) for name, cpus in policy.pools().items()} == {
        "reserved": "0",
        "default": "1,8-15",
        "dual[0]": "2-3",
        "dual[1]": "4-5",
        "dual[2]": "6-7",
    }
    assert policy.fallback == CpuSet.parse("1,8-15")
    assert policy.notes == ()


@pytest.mark.parametrize(
    ("reserved", "available", "expected"),
    [
        (1000, None, "0"),
        (1500, None, "0-1"),
        (CpuSet.parse("3,9"), None, "3,9"),
        (1000, CpuSet.parse("2-15"), "2"),
    ],
)
def test_reserved_cpus(reserved: CpuSet | int, available: CpuSet | None, expected: str) -> None:
    """CPU 0 if one is enough, else some that are near each other."""
    assert str(policy_of(reserved=reserved, available=available).pools()["reserved"]) == expected


def test_without_reserved_cpus_there_is_no_policy() -> None:
    """Where would the system run?"""
    with pytest.raises(ConfigError, match="needs CPUs for the system"):
        policy_of(reserved=None)


def test_remarks_for_the_operator() -> None:
    """What works and may surprise."""
    policy = policy_of(duals(count=6), PodPool(name="one", cpus=1), on="2p2n2c2t; isolated 14-15")
    assert policy.notes == (
        "CPUs 14-15 are isolated, so no pool has them",
        "no CPU is left for pool default: its pods run on the reserved ones",
        "the scheduler does not know which of several pools has room: pods may find theirs full",
    )
    assert policy.fallback == policy.state.pool("reserved")
    assert policy_of(on="2p2n2c2t; isolated 14-15", available=CpuSet.parse("0-9")).notes == ()


# -- which pool


@pytest.mark.parametrize(
    ("request_", "expected", "reason"),
    [
        (ask("p"), "default", "default: its pod names no pool, so pool default; the only one of its pool"),
        (ask("p", "dual"), "dual[0]", f"dual[0]: annotation {POOL} names pool dual; it has the fewest pods"),
        (ask("p", "default"), "default", f"annotation {POOL} names pool default"),
        (ask("p", "reserved"), "reserved", f"annotation {POOL} names pool reserved"),
        (ask("p", "dual[1]"), "default", f"annotation {POOL} names pool 'dual[1]', which does not exist"),
        (ask("p", namespace="kube-system"), "reserved", "namespace kube-system has pool reserved"),
        (ask("p", "dual", namespace="kube-system"), "dual[0]", "names pool dual"),
        (ask("p", annotations={OTHER: "dual"}), "dual[0]", f"annotation {OTHER} names pool dual"),
        (ask("p", "default", annotations={f"{POOL}/pod": "dual"}), "dual[0]", f"annotation {POOL}/pod names"),
        (ask("p", annotations={f"{POOL}/container.app": "dual"}), "default", "its pod names no pool"),
    ],
)
def test_the_pool_of_a_pod(request_: Request, expected: str, reason: str) -> None:
    """Its annotation, else its namespace, else pool default."""
    decision = policy_of(duals()).allocate(request_)
    assert place(decision) == expected
    assert reason in decision.reason
    assert decision.action is Action.ALLOCATE


# -- which instance


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (FillOrder.BALANCED, ["dual[0]", "dual[1]", "dual[2]", "dual[0]", "dual[1]"]),
        (FillOrder.PACKED, ["dual[0]", "dual[0]", "dual[1]", "dual[1]", "dual[2]"]),
        (FillOrder.FIRST_FREE, ["dual[0]", "dual[0]", "dual[1]", "dual[1]", "dual[2]"]),
    ],
)
def test_the_order_of_filling(order: FillOrder, expected: list[str]) -> None:
    """As the pool says; of several alike the first."""
    assert places(policy_of(duals(order=order)), "dual", 5) == expected


def test_packed_fills_up_what_has_most_and_first_free_what_is_first() -> None:
    """They differ once a pod has gone."""
    for order, expected in ((FillOrder.PACKED, "dual[1]"), (FillOrder.FIRST_FREE, "dual[0]")):
        policy = policy_of(duals(max_pods=3, order=order))
        assert places(policy, "dual", 5) == ["dual[0]"] * 3 + ["dual[1]"] * 2
        policy.release(Key("p0", "app"))
        policy.release(Key("p1", "app"))
        decision = policy.allocate(ask("new", "dual"))
        assert place(decision) == expected
        assert ("it has the most pods of those with room" in decision.reason) == (order is FillOrder.PACKED)
        assert ("the first with room" in decision.reason) == (order is FillOrder.FIRST_FREE)


def test_pods_without_limit_are_balanced() -> None:
    """No instance is ever full."""
    policy = policy_of(duals(max_pods=0))
    assert sorted(places(policy, "dual", 30)) == ["dual[0]"] * 10 + ["dual[1]"] * 10 + ["dual[2]"] * 10


def test_what_there_was_to_choose_of() -> None:
    """The chosen one first, full ones last, and no more than people read."""
    policy = policy_of(duals(max_pods=1))
    policy.allocate(ask("p0", "dual", milli=700))
    shown = policy.allocate(ask("p1", "dual")).candidates
    assert [(one.name, str(one.cpus), one.score, one.chosen, one.reason) for one in shown] == [
        ("pool dual[1]", "4-5", "0 pods, 0m asked for", True, ""),
        ("pool dual[2]", "6-7", "0 pods, 0m asked for", False, ""),
        ("pool dual[0]", "2-3", "1 pod, 700m asked for", False, "is full: 1 pod in each of 3"),
    ]
    many = policy_of(duals(max_pods=1, count=100), on="big")
    assert len(many.allocate(ask("p", "dual")).candidates) == 16


# -- pods as a whole


def test_containers_of_a_pod_are_together() -> None:
    """Wherever the next pod would go; the place is free when the last of them is gone."""
    policy = policy_of(duals(max_pods=1, count=2))
    assert place(policy.allocate(ask("p", "dual", name="a"))) == "dual[0]"
    decision = policy.allocate(ask("p", "dual", name="b"))
    assert place(decision) == "dual[0]"
    assert decision.reason == "dual[0]: its pod is there"
    assert place(policy.allocate(ask("q", "dual"))) == "dual[1]"
    assert policy.release(Key("p", "a")).reason == "other containers of its pod are in dual[0]"
    assert place(policy.allocate(ask("r", "dual"))) == "default"
    assert policy.release(Key("p", "b")).reason == "the last of its pod in dual[0], which has room again"
    assert place(policy.allocate(ask("s", "dual"))) == "dual[0]"


def test_who_held_nothing_gives_nothing_back() -> None:
    """A release of a stranger changes nothing."""
    policy = policy_of(duals())
    assert policy.release(Key("p", "a")) == Decision(action=Action.RELEASE, key=Key("p", "a"), reason="it held nothing")


# -- full


def test_a_full_pool_sends_pods_to_pool_default() -> None:
    """Which is told; the rest of the pod goes there too, even after there is room."""
    policy = policy_of(duals(max_pods=1, count=2))
    places(policy, "dual", 2)
    decision = policy.allocate(ask("late", "dual", name="a"))
    assert place(decision) == "default"
    assert decision.reason == f"default: annotation {POOL} names pool dual, which is full: 1 pod in each of 2"
    policy.release(Key("p0", "app"))
    assert place(policy.allocate(ask("late", "dual", name="b"))) == "default"
    assert place(policy.allocate(ask("other", "dual"))) == "dual[0]"


@pytest.mark.parametrize(
    ("pools", "kind", "message"),
    [
        (
            (duals(max_pods=1, count=1), PodPool(name="default", max_pods=2)),
            RefusalKind.EXHAUSTED,
            "names pool dual, which is full: 1 pod; pool default is full: 2 pods",
        ),
        (
            (duals(max_pods=-1), PodPool(name="default", max_pods=2)),
            RefusalKind.EXHAUSTED,
            "names pool dual, which takes no pods; pool default is full: 2 pods",
        ),
        (
            (duals(max_pods=-1), PodPool(name="default", max_pods=-1)),
            RefusalKind.INVALID,
            "names pool dual, which takes no pods; pool default takes no pods",
        ),
    ],
)
def test_full_everywhere_is_refused(pools: tuple[PodPool, ...], kind: RefusalKind, message: str) -> None:
    """With both limits; for good if neither pool takes pods at all."""
    policy = policy_of(*pools)
    for number in range(3):
        policy.allocate(ask(f"p{number}", "dual"))
    before = dict(policy.state.grants)
    found, text = refused(policy.allocate(ask("last", "dual")))
    assert found is kind
    assert text == f"no place: annotation {POOL} {message}"
    assert policy.state.grants == before


def test_pool_default_itself_may_be_full() -> None:
    """Then its pods are refused, and wait for others to end."""
    policy = policy_of(PodPool(name="default", max_pods=1))
    places(policy, "default", 1)
    kind, text = refused(policy.allocate(ask("p")))
    assert kind is RefusalKind.EXHAUSTED
    assert text == "no place: its pod names no pool, so pool default, which is full: 1 pod"
    policy.release(Key("p0", "app"))
    assert place(policy.allocate(ask("p"))) == "default"


# -- what containers get


def test_cpus_and_memory_of_the_instance() -> None:
    """And nothing exclusive: the pods of an instance share it."""
    policy = policy_of(duals())
    policy.allocate(ask("p", "dual", milli=500))
    policy.allocate(ask("q"))
    assert policy.state.assignment(Key("p", "app")) == Assignment(cpus=CpuSet.parse("2-3"), mems=CpuSet.parse("0"))
    assert policy.state.assignment(Key("q", "app")) == Assignment(
        cpus=CpuSet.parse("1,8-15"), mems=CpuSet.parse("0,2-3")
    )
    assert policy.state.grants[Key("p", "app")].milli == 500


@pytest.mark.parametrize(
    ("pin_cpu", "pin_memory", "expected"),
    [
        (False, True, Assignment(mems=CpuSet.parse("0"))),
        (True, False, Assignment(cpus=CpuSet.parse("2-3"))),
        (False, False, Assignment()),
    ],
)
def test_pinning_can_be_switched_off(pin_cpu: bool, pin_memory: bool, expected: Assignment) -> None:
    """Each by itself; places are counted all the same."""
    policy = policy_of(duals(), pin_cpu=pin_cpu, pin_memory=pin_memory)
    assert place(policy.allocate(ask("p", "dual"))) == "dual[0]"
    assert policy.state.assignment(Key("p", "app")) == expected


def test_memory_that_was_pinned_is_given_free() -> None:
    """Nothing written would leave the container bound to where it was."""
    policy = policy_of(duals(), pin_memory=False)
    decision = policy.allocate(ask("p", "dual"), Grant(mems=CpuSet.parse("3")))
    assert decision.grant is not None
    assert decision.grant.mems == CpuSet.parse("0-3")


def test_overbooking_is_told() -> None:
    """The pool decides about CPUs, not the sum of what is asked for."""
    policy = policy_of(duals(max_pods=0, count=1))
    assert "overbooked" not in policy.allocate(ask("p", "dual", milli=2000)).reason
    decision = policy.allocate(ask("q", "dual", milli=500))
    assert decision.reason.endswith("; overbooked, its containers ask for 2500m of 2000m")


def test_a_resize_changes_no_cpus() -> None:
    """The amounts are counted."""
    policy = policy_of(duals())
    policy.allocate(ask("p", "dual", milli=500))
    decision = policy.resize(ask("p", "dual", milli=3000))
    assert decision.action is Action.RESIZE
    assert decision.reason == "dual[0]: its pod is there; overbooked, its containers ask for 3000m of 2000m"
    assert policy.state.grants[Key("p", "app")].milli == 3000
    assert policy.allocate(ask("p", "dual", milli=100)).action is Action.KEEP
    assert policy.release(Key("p", "app")).reason == "the last of its pod in dual[0], which has room again"


# -- restarts, other options, other policies


def grants_of(policy: PodPoolsPolicy) -> dict[Key, Grant]:
    return dict(policy.state.grants)


def test_a_restart_moves_nobody() -> None:
    """In whatever order they are found: those in pool default instead of their own leave its places to the others."""
    pools = (duals(max_pods=1, count=2), PodPool(name="default", max_pods=2))
    policy = policy_of(*pools)
    requests = {name: ask(name, "dual") for name in ("a", "b", "c")}
    for request in requests.values():
        policy.allocate(request)
    policy.release(Key("a", "app"))
    policy.allocate(ask("d"))
    held = grants_of(policy)
    assert held[Key("c", "app")].pools == ("default",)
    again = policy_of(*pools)
    for name in ("c", "d", "b"):
        decision = again.allocate(requests.get(name, ask("d")), held[Key(name, "app")])
        assert decision.action is Action.KEEP
        assert decision.grant == held[Key(name, "app")]
        assert "it runs there already" in decision.reason


def test_other_options_move_as_few_as_possible() -> None:
    """An instance with the same CPUs is taken, whatever its number; pool default is left for a new pool."""
    policy = policy_of(duals(count=2))
    policy.allocate(ask("a", "dual"))
    policy.allocate(ask("b", "dual"))
    policy.allocate(ask("c", "wide"))
    held = grants_of(policy)
    other = policy_of(PodPool(name="default", cpus=1), PodPool(name="wide", cpus=2), duals(count=2))
    assert str(other.pools()["dual[0]"]) == str(policy.pools()["dual[1]"])
    assert place(other.allocate(ask("b", "dual"), held[Key("b", "app")])) == "dual[0]"
    assert place(other.allocate(ask("a", "dual"), held[Key("a", "app")])) == "dual[1]"
    assert place(other.allocate(ask("c", "wide"), held[Key("c", "app")])) == "wide[0]"


def test_from_another_policy_containers_stay_near_their_cpus() -> None:
    """In the instance of their pool that has most of them."""
    policy = policy_of(duals())
    decision = policy.allocate(ask("a", "dual"), Grant(exclusive=CpuSet.parse("1,6-7")))
    assert place(decision) == "dual[2]"
    assert decision.action is Action.ALLOCATE
    assert place(policy.allocate(ask("b", "dual"), Grant(exclusive=CpuSet.parse("12")))) == "dual[0]"


def test_a_record_that_is_not_ours_means_nothing() -> None:
    """It cannot be read as CPUs."""
    held = Grant(exclusive=CpuSet.parse("4"), details={"cpus": "everything"})
    assert place(policy_of(duals()).allocate(ask("a", "dual"), held)) == "dual[1]"


def test_a_pod_that_asks_for_cpus_as_a_whole_counts_once() -> None:
    """Whichever of its containers runs; the candidates of the next pod show it."""
    policy = policy_of(duals(count=1))
    whole = Amounts(milli=3000)
    first, second = (replace(ask("p", "dual", name, 500), pod_amounts=whole) for name in ("a", "b"))
    assert "its containers ask for 3000m of 2000m" in policy.allocate(first).reason
    policy.allocate(second)
    assert [grant.milli for grant in policy.state.grants.values()] == [3000, 0]
    policy.release(first.key)
    assert [grant.milli for grant in policy.state.grants.values()] == [3000]
    policy.release(second.key)
    assert policy.allocate(ask("q", "dual", milli=100)).candidates[0].score == "0 pods, 0m asked for"
