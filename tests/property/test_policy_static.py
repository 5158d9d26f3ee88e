"""Laws of the policy static, whatever containers come, grow, shrink and go in whatever order."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.annotations import prefers_isolated
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Decision, Grant
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.policy import StaticPolicy, exclusive_count
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine

MACHINES = [
    machine(text)
    for text in (
        "1 socket x 2 cores",
        "1 socket x 4 cores x 2 threads; interleaved",
        "2 sockets x 2 numa x 2 cores x 2 threads; isolated 12-15",
        "2 sockets x 4 cores x 2 threads; l3 2 cores; isolated 3,7",
    )
]
ISOLATED = "cri-resource-manager.intel.com/prefer-isolated-cpus"
FLAGS = ("relaxed_isolation", "pin_memory", "full_pcpus_only", "strict_cpu_reservation", "align_by_socket")
WAYS = ("", "prefer_align_cpus_by_uncorecache", "distribute_cpus_across_numa")
NAMES = "abcde"


@st.composite
def setups(draw: st.DrawFn) -> tuple[Setup, StaticOptions]:
    """A machine, perhaps with some CPUs offline, and options that go together."""
    topology = draw(st.sampled_from(MACHINES))
    offline = CpuSet.of(draw(st.sets(st.integers(1, len(topology.cpus) - 1), max_size=2)))
    cpus = tuple(cpu for cpu in topology.cpus if cpu.id not in offline)
    # As the kernel shows it: a core is named by its lowest CPU that is online.
    firsts: dict[int, int] = {}
    for cpu in cpus:
        firsts.setdefault(cpu.core, cpu.id)
    cpus = tuple(replace(cpu, core=firsts[cpu.core]) for cpu in cpus)
    topology = Topology(cpus=cpus, nodes=topology.nodes, offline=offline, isolated=topology.isolated - offline)
    options = {name: draw(st.booleans()) for name in FLAGS} | {
        way: True for way in (draw(st.sampled_from(WAYS)),) if way
    }
    ordinary = topology.online - topology.isolated
    if len(ordinary) == 1:
        options["strict_cpu_reservation"] = False
    reserved: CpuSet | int = draw(st.just(1000) | st.just(CpuSet.of((0,))))
    return Setup(topology=topology, reserved=reserved), StaticOptions(**options)


def requests(name: str) -> st.SearchStrategy[Request]:
    """What a container may want."""
    notes = st.dictionaries(st.sampled_from(["interpose/numa-nodes"]), st.just("0"))
    wishes = st.dictionaries(st.just(ISOLATED), st.sampled_from(["true", "false"]))
    return st.builds(
        lambda amount, qos, note, wish: Request(
            key=Key(f"pod-{name}", name), qos=qos, amounts=Amounts(milli=amount), pod_annotations=note | wish
        ),
        st.sampled_from([1000, 2000, 3000, 4000, 1000, 2000, 0, 500, 6000, 12000]),
        st.sampled_from([KubeQos.GUARANTEED, KubeQos.GUARANTEED, KubeQos.BURSTABLE]),
        notes,
        wishes,
    )


held = st.none() | st.builds(
    lambda numbers: Grant(exclusive=CpuSet.of(numbers)), st.sets(st.integers(0, 15), max_size=5)
)
steps = st.lists(
    st.sampled_from(NAMES).flatmap(
        lambda name: st.tuples(st.sampled_from(["allocate", "allocate", "resize", "release"]), requests(name), held)
    ),
    min_size=3,
    max_size=14,
)
Step = tuple[str, Request, Grant | None]


def take_step(policy: StaticPolicy, step: Step) -> Decision:
    action, request, before = step
    if action == "release":
        return policy.release(request.key)
    return policy.resize(request) if action == "resize" else policy.allocate(request, before)


@given(setups(), steps)
def test_every_cpu_is_in_one_place_and_nobody_is_left_without(
    made: tuple[Setup, StaticOptions], steps: list[Step]
) -> None:
    """After every step; what a container got is what it asked for, and who has something else now is told."""
    setup, options = made
    policy = StaticPolicy(setup, options)
    topology, policy_state = setup.topology, policy.state
    reserved = policy_state.pool("reserved")
    for step in steps:
        before = {key: policy_state.assignment(key) for key in policy_state.grants}
        pools = dict(policy_state.pools)
        decision = take_step(policy, step)
        grants = dict(policy_state.grants)

        parts = [
            policy_state.pool("shared"),
            policy_state.pool("isolated"),
            *(grant.exclusive for grant in grants.values()),
        ]
        if options.strict_cpu_reservation:
            parts.append(reserved)
        assert sum(map(len, parts)) == len(topology.online)
        assert CpuSet.union(parts) == topology.online
        assert not any(grant.exclusive & reserved for grant in grants.values())
        assert policy.fallback
        assert all(policy_state.assignment(key).cpus for key in grants)

        if decision.refusal is not None:
            assert decision.grant is None
            assert {key: policy_state.assignment(key) for key in grants} == before
            assert dict(policy_state.pools) == pools
        elif decision.grant is not None:
            assert grants[decision.key] == decision.grant
            assert len(decision.grant.exclusive) == exclusive_count(step[1])
            if options.full_pcpus_only:
                assert topology.with_siblings(decision.grant.exclusive) == decision.grant.exclusive
        others = [key for key in grants if key != decision.key and policy_state.assignment(key) != before[key]]
        assert list(decision.changed) == others
        assert decision.reason


@given(setups(), steps)
def test_the_same_calls_give_the_same_decisions(made: tuple[Setup, StaticOptions], steps: list[Step]) -> None:
    """Word by word."""
    one, other = StaticPolicy(*made), StaticPolicy(*made)
    for step in steps:
        assert take_step(one, step) == take_step(other, step)


@given(setups(), steps)
def test_a_restart_moves_nobody(made: tuple[Setup, StaticOptions], steps: list[Step]) -> None:
    """Who held CPUs has the same ones in a new policy, in whatever order containers come back."""
    policy = StaticPolicy(*made)
    known: dict[Key, Request] = {}
    for step in steps:
        if take_step(policy, step).grant is not None:
            known[step[1].key] = step[1]
    again = StaticPolicy(*made)
    for key in reversed(list(policy.state.grants)):
        decision = again.allocate(known[key], policy.state.grants[key])
        assert decision.action is Action.KEEP
    assert dict(again.state.pools) == dict(policy.state.pools)
    for key in policy.state.grants:
        assert again.state.assignment(key) == policy.state.assignment(key)


@given(setups(), steps, requests("z"))
def test_a_container_that_goes_leaves_no_trace(
    made: tuple[Setup, StaticOptions], steps: list[Step], request: Request
) -> None:
    """Pools are as they were before it came."""
    policy = StaticPolicy(*made)
    for step in steps:
        take_step(policy, step)
    before = dict(policy.state.pools)
    policy.allocate(request)
    policy.release(request.key)
    assert dict(policy.state.pools) == before


@given(setups(), requests("a"), requests("a"))
def test_a_resize_keeps_cpus(made: tuple[Setup, StaticOptions], first: Request, second: Request) -> None:
    """More are added to those it has, fewer are a part of them; unless they are of another kind than it should have."""
    policy = StaticPolicy(*made)
    had = policy.allocate(first).grant
    now = policy.resize(second).grant
    if had is None or now is None or not had.exclusive or not now.exclusive:
        return
    if had.exclusive & made[0].topology.isolated:
        return
    assert had.exclusive <= now.exclusive or now.exclusive <= had.exclusive
    assert prefers_isolated(second) is not False or not now.exclusive & made[0].topology.isolated
