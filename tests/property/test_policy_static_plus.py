"""Laws of static-plus: each CPU is in one place, nobody is without CPUs, and what happens does not depend on chance."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Assignment, Decision
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.options import StaticPlusOptions
from interpose.core.policy.static_plus import StaticPlusPolicy
from tests.support.policy.machines import machine

MACHINES = tuple(
    machine(text)
    for text in ("n4c16", "2p2n2c2t; isolated 8-11; offline 3", "1p2c1t", "2p2n3c2t; interleaved; isolated 1,13,4")
)
SYSTEM = "kube-system"
PREFERENCE = "cri-resource-manager.intel.com/prefer-isolated-cpus"

setups = st.builds(Setup, topology=st.sampled_from(MACHINES), reserved=st.integers(1, 2000) | st.just(CpuSet.of((0,))))
requests = st.builds(
    lambda name, namespace, full, part, preference: Request(
        key=Key("pod", name),
        namespace=namespace,
        amounts=Amounts(milli=1000 * full + part),
        pod_annotations={PREFERENCE: preference} if preference else {},
    ),
    st.sampled_from("abcdefgh"),
    st.sampled_from(("default", "default", "default", SYSTEM)),
    st.integers(0, 6),
    st.sampled_from((0, 0, 1, 500, 999)),
    st.sampled_from(("", "", "false", "true", "nonsense")),
)
steps = st.lists(st.tuples(st.sampled_from((Action.ALLOCATE, Action.RESIZE, Action.RELEASE)), requests), max_size=25)
Steps = Sequence[tuple[Action, Request]]


def policy_of(setup: Setup, pin_memory: bool = False) -> StaticPlusPolicy:
    """A policy that has decided nothing."""
    return StaticPlusPolicy(setup, StaticPlusOptions(pin_memory=pin_memory))


def act(policy: StaticPlusPolicy, action: Action, request: Request) -> Decision:
    """One step."""
    if action is Action.RELEASE:
        return policy.release(request.key)
    return policy.resize(request) if action is Action.RESIZE else policy.allocate(request)


def assignments(policy: StaticPlusPolicy) -> dict[Key, Assignment]:
    """What all have."""
    return {key: policy.state.assignment(key) for key in policy.state.grants}


def run(policy: StaticPlusPolicy, todo: Steps) -> dict[Key, Request]:
    """Carry out steps; what each container that is still there last wanted and got."""
    wanted: dict[Key, Request] = {}
    for action, request in todo:
        decision = act(policy, action, request)
        if action is Action.RELEASE:
            wanted.pop(request.key, None)
        elif decision.refusal is None:
            wanted[request.key] = request
    return wanted


@given(setups, steps)
def test_each_cpu_is_in_one_place(setup: Setup, todo: Steps) -> None:
    """A pool or a grant; and back at the start when all are gone."""
    policy = policy_of(setup)
    start = dict(policy.pools())
    for step in todo:
        act(policy, *step)
        sets = [*policy.pools().values(), *(grant.exclusive for grant in policy.state.grants.values())]
        assert CpuSet.union(sets) == setup.topology.online
        assert sum(map(len, sets)) == len(setup.topology.online)
        assert policy.fallback <= policy.pools()["shared"] | policy.pools()["reserved"]
        assert policy.fallback
    for key in list(policy.state.grants):
        policy.release(key)
    assert policy.pools() == start


@given(setups, steps)
def test_everybody_has_what_is_due(setup: Setup, todo: Steps) -> None:
    """Nobody is without CPUs, the system is on its own, and only who does not fit in pool shared is there too."""
    policy = policy_of(setup)
    wanted = run(policy, todo)
    shared, reserved = policy.pools()["shared"], policy.pools()["reserved"]
    used = 0
    assert set(wanted) == set(policy.state.grants)
    for key, grant in policy.state.grants.items():
        request = wanted[key]
        cpus = policy.state.assignment(key).cpus
        assert cpus
        if request.namespace == SYSTEM:
            assert cpus == reserved
            continue
        full, part = divmod(request.milli, 1000)
        assert len(grant.exclusive) == full
        if full and not part:
            assert cpus == grant.exclusive
            continue
        used += part
        full_up = used > 1000 * len(shared) or not shared
        assert cpus == grant.exclusive | shared | (reserved if full_up else CpuSet())


@given(setups, steps)
def test_a_refusal_changes_nothing_and_a_change_is_told(setup: Setup, todo: Steps) -> None:
    """Exactly the others that have something else than before, in order of coming."""
    policy = policy_of(setup)
    for action, request in todo:
        before, grants, pools = assignments(policy), dict(policy.state.grants), dict(policy.pools())
        decision = act(policy, action, request)
        if decision.refusal is not None:
            assert (assignments(policy), policy.state.grants, policy.pools()) == (before, grants, pools)
        now = assignments(policy)
        assert decision.changed == tuple(key for key in now if key != request.key and now[key] != before[key])


@given(setups, steps)
def test_the_same_calls_give_the_same(setup: Setup, todo: Steps) -> None:
    """Down to reasons and candidates."""
    one, two = policy_of(setup), policy_of(setup)
    assert [act(one, *step) for step in todo] == [act(two, *step) for step in todo]


@given(setups, steps, st.booleans())
def test_a_restart_moves_nobody(setup: Setup, todo: Steps, pin_memory: bool) -> None:
    """Told in order of coming, all have in the end what they had."""
    policy = policy_of(setup, pin_memory)
    wanted = run(policy, todo)
    fresh = policy_of(setup, pin_memory)
    for key, grant in policy.state.grants.items():
        assert fresh.allocate(wanted[key], grant).refusal is None
    assert fresh.state.grants == policy.state.grants
    assert fresh.pools() == policy.pools()


@given(setups, steps, st.integers(1, 6))
def test_a_resize_keeps_ones_own_cpus(setup: Setup, todo: Steps, full: int) -> None:
    """All of them, or as many as it still wants."""
    policy = policy_of(setup)
    for key, request in run(policy, todo).items():
        if request.namespace != SYSTEM and not request.pod_annotations:
            own = policy.state.grants[key].exclusive
            decision = policy.resize(Request(key=key, namespace="default", amounts=Amounts(milli=1000 * full)))
            if decision.grant is not None:
                now = decision.grant.exclusive
                assert own <= now or now <= own
