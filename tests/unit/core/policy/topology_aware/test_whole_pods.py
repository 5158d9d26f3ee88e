"""topology-aware: pods that ask for CPUs as a whole count once in the pools of their containers."""

from dataclasses import replace

import pytest

from interpose.core.model.cgroup import KubeQos, shares_of
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import RefusalKind
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.core.policy.topology_aware.policy import TopologyAwarePolicy
from tests.support.policy.machines import machine

X, Y = Key("a", "x"), Key("a", "y")


def policy_of(reserved: int = 1000) -> TopologyAwarePolicy:
    """CPU 0 is reserved; the NUMA nodes are 1-3, 4-7, 8-11 and 12-15."""
    return TopologyAwarePolicy(Setup(topology=machine("n4c16"), reserved=reserved), TopologyAwareOptions())


def ask(
    name: str, pod_milli: int | None, milli: int = 0, *, pod: str = "a", note: str = "", space: str = "d"
) -> Request:
    """A container of a pod; whole CPUs are its own."""
    return Request(
        key=Key(pod, name),
        namespace=space,
        pod=pod,
        qos=KubeQos.GUARANTEED,
        amounts=Amounts(milli=milli, limit_milli=milli or None),
        pod_amounts=None if pod_milli is None else Amounts(milli=pod_milli),
        pod_annotations={f"{note}.resource-policy.nri.io/container.{name}": "true"} if note else {},
    )


def booked(policy: TopologyAwarePolicy) -> dict[str, int]:
    """What containers use of shared CPUs by their grants."""
    return {key.name: grant.milli for key, grant in policy.state.grants.items()}


def filled(*requests: Request) -> TopologyAwarePolicy:
    """A policy with these containers."""
    policy = policy_of()
    for request in requests:
        assert policy.allocate(request).refusal is None
    return policy


def crowd(policy: TopologyAwarePolicy) -> None:
    """Use all that is left of the machine."""
    count = 0
    while policy.allocate(ask(f"other-{count}", None, 500, pod=f"other-{count}")).refusal is None:
        count += 1


def test_a_pod_counts_for_what_it_asks_for() -> None:
    """Three pods of 4 CPUs have a NUMA node each, and no pool has room for a fourth one."""
    policy = filled(*(ask("x", 4000, pod=pod) for pod in "abc"))
    places = {str(policy.state.assignment(Key(pod, "x")).cpus) for pod in "abc"}
    assert places == {"4-7", "8-11", "12-15"}
    refusal = policy.allocate(ask("x", 4000, pod="d")).refusal
    assert refusal is not None
    assert refusal.kind is RefusalKind.EXHAUSTED
    assert "shared CPUs, and 4000m for its pod as a whole cannot be had" in refusal.message
    assert policy.allocate(ask("x", 3000, pod="d")).refusal is None


def test_a_pod_counts_once() -> None:
    """What its containers ask for themselves is a part of that, each in its pool; CPU shares are each one's own."""
    policy = filled(ask("x", 3000), ask("y", 3000), ask("z", 3000, 500))
    assert booked(policy) == {"x": 2500, "y": 0, "z": 500}
    assert policy.state.grants[Key("a", "z")].shares == shares_of(500)
    assert policy.state.grants[X].shares is None


def test_cpus_of_ones_own_are_a_part_of_what_the_pod_asks_for() -> None:
    """The others share what is left of it."""
    policy = filled(ask("x", 3000), ask("y", 3000, 2000))
    assert booked(policy) == {"x": 1000, "y": 0}
    assert len(policy.state.grants[Y].exclusive) == 2


def test_who_has_cpus_of_its_own_may_carry_the_rest_and_runs_on_no_others() -> None:
    """It is there for containers to come."""
    policy = policy_of()
    decision = policy.allocate(ask("y", 4000, 2000))
    assert decision.grant is not None
    assert (decision.grant.milli, decision.grant.pools) == (2000, ())
    assert "2 CPUs of its own, and 2000m for its pod as a whole" in decision.reason
    policy.allocate(ask("x", 4000, 500))
    assert booked(policy) == {"y": 1500, "x": 500}


def test_who_stays_carries_what_others_leave() -> None:
    """The pod still asks for as much."""
    policy = filled(ask("x", 3000), ask("y", 3000, 2000))
    policy.release(Y)
    assert booked(policy) == {"x": 3000}


def test_who_stays_carries_no_more_than_there_is_room_for() -> None:
    """CPUs that are free again elsewhere are not in its pool."""
    policy = filled(ask("x", 4000), ask("y", 4000, 2000))
    assert not policy.state.grants[Y].exclusive <= CpuSet.parse("4-7")
    crowd(policy)
    policy.release(Y)
    assert booked(policy)["x"] == 2000


@pytest.mark.parametrize("back", [False, True])
def test_a_restart_books_the_same(back: bool) -> None:
    """In whatever order containers come."""
    requests = [ask("x", 4000), ask("y", 4000, 2000), ask("z", 4000, 500)]
    policy = filled(*requests)
    crowd(policy)
    other = policy_of()
    for request in reversed(requests) if back else requests:
        assert other.allocate(request, policy.state.grants[request.key]).grant == policy.state.grants[request.key]
    assert booked(other) == {"x": 1500, "y": 0, "z": 500}


def test_what_is_not_a_number_in_an_old_grant_is_nothing() -> None:
    """Annotations of containers can say anything."""
    grant = filled(ask("x", 3000)).state.grants[X]
    other = policy_of()
    other.allocate(ask("x", 3000), replace(grant, details={**grant.details, "pod-rest": "many"}))
    assert booked(other) == {"x": 0}


def test_a_resize_of_the_pod_is_followed() -> None:
    """Its containers are told one by one."""
    requests = [ask("x", 3000), ask("y", 3000, 500)]
    policy = filled(*requests)
    for total, left in ((4000, 3500), (2000, 1500), (500, 0), (7000, 6500)):
        for request in requests:
            assert policy.resize(replace(request, pod_amounts=Amounts(milli=total))).refusal is None
        assert booked(policy) == {"x": left, "y": 500}
    refusal = policy.resize(replace(requests[0], pod_amounts=Amounts(milli=16_000))).refusal
    assert refusal is not None
    assert booked(policy) == {"x": 6500, "y": 500}


def test_a_refusal_changes_nothing_for_others_of_the_pod() -> None:
    """They carry what they did."""
    policy = filled(ask("x", 4000))
    assert policy.allocate(ask("y", 4000, 2000, note="require-isolated-cpus")).refusal is not None
    assert booked(policy) == {"x": 4000}


def test_a_pod_that_asks_for_nothing_as_a_whole_any_more() -> None:
    """Its containers count for themselves."""
    policy = filled(ask("x", 4000, 500))
    policy.resize(ask("x", None, 500))
    assert booked(policy) == {"x": 500}


def test_reserved_cpus_have_room_for_so_many_pods() -> None:
    """The first one's containers have them, whoever stays; the second one is in a pool."""
    system = [ask(name, 1000, space="kube-system") for name in "xy"]
    policy = filled(*system, ask("x", 1000, pod="b", space="kube-system"))
    assert policy.state.grants[Key("b", "x")].pools != ("reserved",)
    assert (policy.state.grants[X].milli, policy.state.grants[Y].milli) == (1000, 0)
    policy.release(X)
    assert (policy.state.grants[Y].pools, policy.state.grants[Y].milli) == (("reserved",), 1000)


def test_whose_cpus_are_left_alone_books_nothing() -> None:
    """Nor does it when the others have gone."""
    policy = filled(ask("x", 2000), ask("y", 2000, note="cpu.preserve"))
    assert booked(policy) == {"x": 2000, "y": 0}
    policy.release(X)
    assert booked(policy) == {"y": 0}
