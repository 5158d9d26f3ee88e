"""dynamic-pools: who is in which pool, what that has, and what follows the load."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import LoadFollower, Policy, Setup
from interpose.core.policy.decision import Action, Assignment, Decision, Grant, RefusalKind
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions, DynamicPoolType
from interpose.core.policy.dynamic_pools.policy import DynamicPoolsPolicy
from interpose.core.policy.none import NonePolicy
from interpose.core.policy.request import Amounts, Key, Request
from interpose.errors import ConfigError
from tests.support.policy.machines import machine

POOL = "dynamic-pool.dynamic-pools.cri-resource-manager.intel.com"
OTHER = "dynamic-pool.dynamic-pools.resource-policy.nri.io"
A = DynamicPoolType(name="a", namespaces=("a", "team-*"))
B = DynamicPoolType(name="b", namespaces=("b",), priority=CpuPriority.NONE)


def policy_of(
    *types: DynamicPoolType,
    on: str = "n4c16",
    reserved: CpuSet | int | None = 1000,
    available: CpuSet | None = None,
    reserved_namespaces: tuple[str, ...] = (),
    pin_cpu: bool = True,
    pin_memory: bool = True,
) -> DynamicPoolsPolicy:
    """A policy with these pools; without any, a and b."""
    return DynamicPoolsPolicy(
        Setup(topology=machine(on), available=available, reserved=reserved),
        DynamicPoolsOptions(
            pin_cpu=pin_cpu,
            pin_memory=pin_memory,
            reserved_namespaces=reserved_namespaces,
            types=types or (A, B),
        ),
    )


def ask(
    name: str,
    namespace: str = "default",
    milli: int = 0,
    limit: int | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Request:
    """A container."""
    return Request(
        key=Key("pod", name),
        namespace=namespace,
        amounts=Amounts(milli=milli, limit_milli=limit),
        pod_annotations=annotations or {},
    )


def pool_of(decision: Decision) -> str:
    """The pool of a container that was not refused."""
    assert decision.refusal is None
    assert decision.grant is not None
    assert not decision.grant.exclusive
    (name,) = decision.grant.pools
    return name


def pools(policy: DynamicPoolsPolicy) -> dict[str, str]:
    """The CPUs of all pools."""
    return {name: str(cpus) for name, cpus in policy.pools().items()}


def load(cpus: str, part: float = 1.0) -> dict[int, float]:
    """These CPUs are busy."""
    return dict.fromkeys(CpuSet.parse(cpus), part)


# -- where it starts


def test_it_is_a_policy_that_follows_the_load() -> None:
    """As long as nobody is there, all CPUs are shared."""
    policy: Policy = policy_of()
    assert policy.name == "dynamic-pools"
    assert isinstance(policy, LoadFollower)
    assert not isinstance(NonePolicy(Setup(topology=machine("n4c16"))), LoadFollower)
    assert {name: str(cpus) for name, cpus in policy.pools().items()} == {
        "reserved": "0",
        "shared": "1-15",
        "a": "",
        "b": "",
    }
    assert policy.fallback == CpuSet.parse("1-15")
    assert policy.notes == ()


def test_reserved_cpus_are_chosen_near_each_other() -> None:
    """CPU 0 if one is enough."""
    assert pools(policy_of(reserved=1500))["reserved"] == "0-1"
    assert pools(policy_of(reserved=CpuSet.parse("3,9")))["reserved"] == "3,9"
    with pytest.raises(ConfigError, match="needs CPUs for the system"):
        policy_of(reserved=None)


def test_remarks_for_the_operator() -> None:
    """What is in no pool, and what has no effect."""
    policy = policy_of(DynamicPoolType(name="fast", cpu_class="turbo"), on="2p2n2c2t; isolated 14-15")
    assert policy.notes == (
        "CPUs 14-15 are isolated, so no pool has them",
        "pool fast: CpuClass 'turbo' has no effect, frequencies of CPUs are not set",
    )


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ((A, A), "policy.dynamic-pools.DynamicPoolTypes: pool 'a' is defined 2 times"),
        ((DynamicPoolType(name=""),), "policy.dynamic-pools.DynamicPoolTypes: '' is no name of a pool"),
    ],
)
def test_pools_that_cannot_be(types: tuple[DynamicPoolType, ...], problem: str) -> None:
    """Whatever the machine."""
    with pytest.raises(ConfigError) as caught:
        policy_of(*types)
    assert caught.value.problems == [problem]


# -- which pool


@pytest.mark.parametrize(
    ("request_", "expected", "why"),
    [
        (ask("c", "a"), "shared", "it has neither CPU request nor limit"),
        (ask("c", "a", annotations={POOL: "b"}), "shared", "it has neither CPU request nor limit"),
        (ask("c", "a", limit=500), "a", "namespace a is one of a"),
        (ask("c", "team-x", 100), "a", "namespace team-x is one of team-*"),
        (ask("c", "other", 100), "shared", "no other pool has namespace other"),
        (ask("c", "a", 100, annotations={POOL: "b"}), "b", f"annotation {POOL}"),
        (ask("c", "a", 100, annotations={OTHER: "shared"}), "shared", f"annotation {OTHER}"),
        (
            ask("c", "a", 100, annotations={POOL: "a", f"{POOL}/container.c": "b"}),
            "b",
            f"annotation {POOL}/container.c",
        ),
        (ask("c", "kube-system"), "reserved", "namespace kube-system"),
        (ask("c", "infra-1", 100), "reserved", "namespace infra-1"),
        (ask("c", "kube-system", annotations={POOL: "a"}), "a", f"annotation {POOL}"),
    ],
)
def test_the_pool_of_a_container(request_: Request, expected: str, why: str) -> None:
    """By what it asks for, its annotation, its namespace."""
    decision = policy_of(A, B, reserved_namespaces=("infra-*",)).allocate(request_)
    assert pool_of(decision) == expected
    assert f"pool {expected}: {why}; " in decision.reason


def test_namespaces_of_the_built_in_pools_come_first() -> None:
    """They can be given some; the first pool that has a namespace counts."""
    late = (A, DynamicPoolType(name="shared", namespaces=("a",)), DynamicPoolType(name="reserved", namespaces=("t*",)))
    policy = policy_of(*late)
    assert pool_of(policy.allocate(ask("c", "a", 100))) == "shared"
    assert pool_of(policy.allocate(ask("d", "team-x", 100))) == "reserved"
    assert set(pools(policy)) == {"reserved", "shared", "a"}


def test_a_pool_that_does_not_exist_is_refused() -> None:
    """For good, with those that there are."""
    policy = policy_of()
    decision = policy.allocate(ask("c", "a", 100, annotations={POOL: "c"}))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.INVALID
    assert decision.refusal.message == f"annotation {POOL}: pool 'c' does not exist; there are reserved, shared, a, b"
    assert not policy.state.grants


# -- what a pool has


def test_pools_have_what_is_requested() -> None:
    """Rounded up, near each other, and the others lose no more than that."""
    policy = policy_of()
    policy.allocate(ask("x"))
    first = policy.allocate(ask("a1", "a", 2500))
    assert first.reason == "pool a: namespace a is one of a; CPUs 1-3 for 2500m of 1 container"
    assert first.changed == (Key("pod", "x"),)
    assert pools(policy) == {"reserved": "0", "shared": "4-15", "a": "1-3", "b": ""}
    # 500m more fit.
    second = policy.allocate(ask("a2", "a", 500))
    assert second.changed == ()
    assert second.reason.endswith("CPUs 1-3 for 3000m of 2 containers")
    policy.allocate(ask("b1", "b", 4000))
    assert pools(policy) == {"reserved": "0", "shared": "8-15", "a": "1-3", "b": "4-7"}
    assert policy.state.assignment(Key("pod", "a1")) == Assignment(cpus=CpuSet.parse("1-3"), mems=CpuSet.parse("0"))
    shown = [(one.name, str(one.cpus), one.score, one.chosen) for one in second.candidates]
    assert shown == [
        ("pool shared", "4-15", "0m of 1 container", False),
        ("pool a", "1-3", "3000m of 2 containers", True),
        ("pool b", "", "0m of 0 containers", False),
    ]


def test_a_pool_has_its_cpus_until_its_last_container_is_gone() -> None:
    """Less is requested: they stay, as nobody else needs them."""
    policy = policy_of()
    policy.allocate(ask("a1", "a", 4000))
    policy.allocate(ask("a2", "a", 1000))
    had = policy.state.pool("a")
    assert len(had) == 5
    assert policy.release(Key("pod", "a1")).reason == f"pool a keeps CPUs {had}"
    assert policy.state.pool("a") == had
    assert policy.release(Key("pod", "a2")).reason == "it was the last of pool a, which has no CPUs now"
    assert pools(policy) == {"reserved": "0", "shared": "1-15", "a": "", "b": ""}
    assert policy.release(Key("pod", "a2")).reason == "it held nothing"


def test_a_container_that_the_runtime_refuses_leaves_no_trace() -> None:
    """It goes as soon as it has come; once something else has happened, pools keep what they have."""
    policy = policy_of()
    policy.allocate(ask("a1", "a", 1000))
    policy.allocate(ask("b1", "b", 2000))
    before = pools(policy)
    policy.allocate(ask("a2", "a", 5000))
    policy.release(Key("pod", "a2"))
    assert pools(policy) == before
    policy.allocate(ask("a2", "a", 5000))
    policy.resize(ask("b1", "b", 1000))
    policy.release(Key("pod", "a2"))
    assert len(policy.state.pool("a")) == 6


def test_priorities_choose_cpus() -> None:
    """Pools that want slow CPUs leave the fast ones to others."""
    low, high = DynamicPoolType(name="low", priority=CpuPriority.LOW), DynamicPoolType(name="high")
    policy = policy_of(low, high, on="hybrid")
    policy.allocate(ask("c", milli=2000, annotations={POOL: "low"}))
    policy.allocate(ask("d", milli=2000, annotations={POOL: "high"}))
    assert CpuSet.parse(pools(policy)["low"]) <= CpuSet.parse("8-15")
    assert CpuSet.parse(pools(policy)["high"]) <= CpuSet.parse("0-7")


def test_more_than_there_is_is_refused() -> None:
    """With what all pools need; nothing changes."""
    policy = policy_of()
    policy.allocate(ask("a1", "a", 4500))
    policy.allocate(ask("x", milli=1200))
    before = pools(policy)
    decision = policy.allocate(ask("b1", "b", 9000))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.EXHAUSTED
    assert decision.refusal.message == ("pool b would need 9 CPUs: of 15 in all, pools need shared 2, a 5, b 9")
    assert len(decision.candidates) == 3
    assert pools(policy) == before
    assert policy.resize(ask("a1", "a", 14000)).refusal is not None
    assert pool_of(policy.allocate(ask("b1", "b", 8000))) == "b"


def test_pool_shared_keeps_a_cpu_as_long_as_that_is_possible() -> None:
    """Then its containers run on the reserved ones, and get one back as soon as there is one."""
    policy = policy_of()
    policy.allocate(ask("x"))
    policy.allocate(ask("a1", "a", 14000))
    assert len(CpuSet.parse(pools(policy)["shared"])) == 1
    last = policy.allocate(ask("b1", "b", 100))
    assert last.changed == (Key("pod", "x"),)
    assert pools(policy)["shared"] == "0"
    assert policy.fallback == CpuSet.parse("0")
    late = policy.allocate(ask("y"))
    assert late.reason.endswith("the reserved CPUs 0, as no other is left for 0m of 2 containers")
    policy.resize(ask("a1", "a", 13000))
    assert len(CpuSet.parse(pools(policy)["shared"])) == 1
    assert pools(policy)["shared"] != "0"


def test_without_other_cpus_everybody_is_on_the_reserved_ones() -> None:
    """Pools with requests cannot be."""
    policy = policy_of(A, on="laptop", reserved=2000)
    assert pools(policy) == {"reserved": "0-1", "shared": "0-1", "a": ""}
    assert pool_of(policy.allocate(ask("x"))) == "shared"
    assert policy.allocate(ask("a1", "a", 100)).refusal is not None
    assert policy.rebalance(load("0-1")) == ()


def test_reserved_cpus_are_not_counted() -> None:
    """Pods of the system are not refused."""
    policy = policy_of()
    decision = policy.allocate(ask("s", "kube-system", 20000))
    assert decision.reason == "pool reserved: namespace kube-system; the reserved CPUs 0"
    assert policy.release(Key("pod", "s")).reason == "pool reserved keeps CPUs 0"


def test_a_resize_is_honoured() -> None:
    """The pool keeps its CPUs and gets others to them."""
    policy = policy_of()
    policy.allocate(ask("a1", "a", 2000))
    had = CpuSet.parse(pools(policy)["a"])
    decision = policy.resize(ask("a1", "a", 5000))
    assert decision.action is Action.RESIZE
    assert had < CpuSet.parse(pools(policy)["a"])
    # One that asked for nothing is in its namespace's pool from now on, and the other way round.
    policy.allocate(ask("b1", "b"))
    assert pool_of(policy.resize(ask("b1", "b", 100))) == "b"
    assert len(CpuSet.parse(pools(policy)["b"])) == 1
    assert pool_of(policy.resize(ask("b1", "b"))) == "shared"
    assert pools(policy)["b"] == ""
    assert policy.allocate(ask("b1", "b")).action is Action.KEEP
    assert policy.resize(ask("new", "b", 100)).refusal is None


@pytest.mark.parametrize(
    ("pin_cpu", "pin_memory", "expected"),
    [
        (False, True, Assignment(mems=CpuSet.parse("0"))),
        (True, False, Assignment(cpus=CpuSet.parse("1-3"))),
    ],
)
def test_pinning_can_be_switched_off(pin_cpu: bool, pin_memory: bool, expected: Assignment) -> None:
    """Each by itself."""
    policy = policy_of(pin_cpu=pin_cpu, pin_memory=pin_memory)
    policy.allocate(ask("a1", "a", 3000))
    assert policy.state.assignment(Key("pod", "a1")) == expected


def test_memory_follows_the_cpus() -> None:
    """Of all containers in the pool; what was bound by others is given free if none is to be pinned."""
    policy = policy_of()
    policy.allocate(ask("a1", "a", 3000))
    decision = policy.allocate(ask("a2", "a", 4000))
    assert decision.changed == (Key("pod", "a1"),)
    assert policy.state.assignment(Key("pod", "a1")).mems == CpuSet.parse("0-1")
    free = policy_of(pin_memory=False)
    assert free.allocate(ask("a1", "a", 1000), Grant(mems=CpuSet.parse("1"))).grant is not None
    assert free.state.assignment(Key("pod", "a1")).mems == CpuSet.parse("0-3")


# -- load


def test_free_cpus_follow_the_load() -> None:
    """12 are not needed; a works, b does not, and shared has the weight of one that hardly does."""
    policy = policy_of()
    for request in (ask("x"), ask("a1", "a", 1000), ask("b1", "b", 1000)):
        policy.allocate(request)
    had = CpuSet.parse(pools(policy)["a"])
    changed = policy.rebalance(load(pools(policy)["a"]))
    found = {name: len(CpuSet.parse(cpus)) for name, cpus in pools(policy).items()}
    assert found == {"reserved": 1, "shared": 1, "a": 13, "b": 1}
    assert had < CpuSet.parse(pools(policy)["a"])
    assert changed == (Key("pod", "x"), Key("pod", "a1"))
    # The same load again: nothing to do. Requests take the CPUs back.
    assert policy.rebalance(load(pools(policy)["a"])) == ()
    policy.allocate(ask("b2", "b", 3000))
    assert len(CpuSet.parse(pools(policy)["b"])) == 4
    # Nobody works: pool shared has everything that nobody needs.
    policy.rebalance({})
    assert {name: len(CpuSet.parse(cpus)) for name, cpus in pools(policy).items()} == {
        "reserved": 1,
        "shared": 10,
        "a": 1,
        "b": 4,
    }


def test_cpus_of_pools_that_keep_their_size_stay() -> None:
    """What one gives is what the other gets."""
    policy = policy_of()
    for request in (ask("x", milli=100), ask("a1", "a", 1000), ask("b1", "b", 1000)):
        policy.allocate(request)
    # One busy CPU each: 12 that are free go to shared and a by halves, then to shared and b.
    policy.rebalance({min(policy.state.pool("shared")): 1.0, min(policy.state.pool("a")): 1.0})
    shared, a = policy.state.pool("shared"), policy.state.pool("a")
    assert (len(shared), len(a)) == (7, 7)
    changed = policy.rebalance({min(shared): 1.0, min(policy.state.pool("b")): 1.0})
    assert changed == (Key("pod", "a1"), Key("pod", "b1"))
    assert policy.state.pool("shared") == shared
    assert policy.state.pool("a") < a
    assert len(policy.state.pool("b")) == 7


def test_an_idle_node_without_shared_containers_shares_its_cpus() -> None:
    """Whoever comes finds them there."""
    policy = policy_of()
    policy.allocate(ask("a1", "a", 1000))
    policy.rebalance(load("1-15"))
    assert len(policy.state.pool("a")) == 15
    policy.rebalance({})
    assert len(policy.state.pool("a")) == 1
    assert len(policy.state.pool("shared")) == 14


# -- restarts, other options, other policies


def test_a_restart_moves_nobody() -> None:
    """Pools have the CPUs that the load gave them, in whatever order their containers are found."""
    policy = policy_of()
    requests = {"x": ask("x"), "a1": ask("a1", "a", 1000)}
    requests |= {"a2": ask("a2", "a", 500), "b1": ask("b1", "b", 1000)}
    for request in requests.values():
        policy.allocate(request)
    policy.rebalance({**load(pools(policy)["a"]), **load(pools(policy)["b"], 0.5)})
    before = pools(policy)
    held = dict(policy.state.grants)
    for order in (("x", "a1", "a2", "b1"), ("b1", "a2", "x", "a1")):
        again = policy_of()
        for name in order:
            assert again.allocate(requests[name], held[Key("pod", name)]).action is Action.KEEP
        assert pools(again) == before
        assert dict(again.state.grants) == {Key("pod", name): held[Key("pod", name)] for name in order}


def test_from_another_policy_pools_are_made_of_the_cpus_of_their_containers() -> None:
    """As far as they are needed."""
    policy = policy_of()
    policy.allocate(ask("a1", "a", 2000), Grant(exclusive=CpuSet.parse("10-11")))
    assert pools(policy)["a"] == "10-11"
    policy.allocate(ask("a2", "a", 1000), Grant(exclusive=CpuSet.parse("4-6")))
    assert CpuSet.parse(pools(policy)["a"]) - CpuSet.parse("10-11") <= CpuSet.parse("4-6")
    policy.allocate(ask("b1", "b", 3000), Grant(exclusive=CpuSet.parse("14")))
    assert CpuSet.parse("14") <= CpuSet.parse(pools(policy)["b"])


def test_a_record_that_is_not_ours_means_nothing() -> None:
    """It cannot be read as CPUs."""
    policy = policy_of()
    policy.allocate(ask("a1", "a", 1000), Grant(exclusive=CpuSet.parse("9"), details={"cpus": "everything"}))
    assert pools(policy)["a"] == "9"


def test_a_pool_has_the_cpus_that_a_pod_asks_for_as_a_whole() -> None:
    """Once, whatever its containers ask for themselves and whichever of them runs."""
    policy = policy_of()
    first, second = (replace(ask(name, "a"), pod_amounts=Amounts(milli=4000)) for name in "cd")
    assert pool_of(policy.allocate(first)) == "a"
    assert pool_of(policy.allocate(second)) == "a"
    assert len(policy.state.pool("a")) == 4
    policy.release(first.key)
    assert len(policy.state.pool("a")) == 4
    assert policy.resize(replace(second, pod_amounts=Amounts(milli=6000))).refusal is None
    assert len(policy.state.pool("a")) == 6
    refused = policy.resize(replace(second, pod_amounts=Amounts(milli=16_000))).refusal
    assert refused is not None
    assert "pool a would need 16 CPUs" in refused.message
    policy.release(second.key)
    assert pools(policy)["a"] == ""
