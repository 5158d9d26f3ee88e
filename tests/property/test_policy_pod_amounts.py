"""Pods with amounts as a whole under every policy that counts them: never more than a pod asks for, and never twice."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.dynamic_pools.options import DynamicPoolsOptions, DynamicPoolType
from interpose.core.policy.dynamic_pools.policy import DynamicPoolsPolicy
from interpose.core.policy.podpools.options import PodPool, PodPoolsOptions
from interpose.core.policy.podpools.policy import PodPoolsPolicy
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.core.policy.static.policy import StaticPolicy
from interpose.core.policy.static_plus import StaticPlusPolicy
from tests.support.policy.machines import machine

SETUP = Setup(topology=machine("n4c16"), reserved=1000)
PODS = ("p", "q")
NAMES = ("a", "b", "c")
AMOUNTS = (0, 500, 1000, 2000, 2500, 4000)

# A container of a pod: which, what it asks for itself, what its pod asks for from now on, or that it ends.
steps = st.lists(
    st.tuples(
        st.sampled_from(PODS),
        st.sampled_from(NAMES),
        st.sampled_from(AMOUNTS),
        st.sampled_from((1000, 3000, 6600)),
        st.sampled_from(("come", "come", "resize", "end")),
    ),
    max_size=30,
)


def play(policy: Policy, moves: list[tuple[str, str, int, int, str]]) -> None:
    """Make the moves; after each of them the pods have what they may."""
    pods = dict.fromkeys(PODS, 3000)
    known: dict[Key, Request] = {}
    for pod, name, milli, whole, what in moves:
        key = Key(pod, name)
        if what == "end":
            policy.release(key)
            known.pop(key, None)
        elif what == "resize":
            pods[pod] = whole
            for other in [other for other in known if other.pod_id == pod]:
                resized = replace(known[other], pod_amounts=Amounts(milli=whole))
                if policy.resize(resized).refusal is None:
                    known[other] = resized
        else:
            request = Request(
                key=key,
                namespace="busy",
                qos=KubeQos.GUARANTEED,
                amounts=Amounts(milli=milli, limit_milli=milli or None),
                pod_amounts=Amounts(milli=pods[pod]),
            )
            if policy.allocate(request).refusal is None:
                known[key] = request
        check(policy, known)


def check(policy: Policy, known: dict[Key, Request]) -> None:
    """No pod counts for more than the most that one of its containers was told of it, and none for nothing."""
    grants = policy.state.grants
    assert set(grants) == set(known)
    for pod in PODS:
        told = [
            request.pod_amounts.milli for key, request in known.items() if key.pod_id == pod and request.pod_amounts
        ]
        if not told:
            continue
        mine = [grant for key, grant in grants.items() if key.pod_id == pod]
        if policy.name in ("podpools", "dynamic-pools"):
            counted = sum(grant.milli for grant in mine)
            assert min(told) <= counted <= max(told)
    if policy.name == "dynamic-pools":
        needed = sum(grant.milli for grant in grants.values() if "busy" in grant.pools)
        assert 1000 * len(policy.state.pool("busy")) >= needed


@given(steps)
def test_pools_count_a_pod_once(moves: list[tuple[str, str, int, int, str]]) -> None:
    """For what it asks for, whichever of its containers come, go and are resized."""
    options = DynamicPoolsOptions(types=(DynamicPoolType(name="busy", namespaces=("busy",)),))
    play(DynamicPoolsPolicy(SETUP, options), moves)
    play(PodPoolsPolicy(SETUP, PodPoolsOptions(pools=(PodPool(name="default", cpus=4),))), moves)


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(AMOUNTS), st.booleans()), max_size=20))
def test_no_pod_has_more_exclusive_cpus_than_it_asks_for(moves: list[tuple[str, int, bool]]) -> None:
    """All its containers together, whatever they ask for themselves; under the kubelet's policy none."""
    plus, static = StaticPlusPolicy(SETUP, StaticPlusOptions()), StaticPolicy(SETUP, StaticOptions())
    for name, milli, ends in moves:
        request = Request(
            key=Key("p", name), qos=KubeQos.GUARANTEED, amounts=Amounts(milli=milli), pod_amounts=Amounts(milli=3000)
        )
        for policy in (plus, static):
            if ends:
                policy.release(request.key)
            else:
                assert policy.allocate(request).refusal is None
        assert sum(len(grant.exclusive) for grant in plus.state.grants.values()) <= 3
        assert not any(grant.exclusive for grant in static.state.grants.values())
