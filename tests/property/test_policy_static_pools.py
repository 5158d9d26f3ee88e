"""Laws of static-pools: lists of one's own are nobody else's, the same calls give the same, a restart moves nobody."""

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Decision, Grant
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static_pools.cmk import read_pool_selection
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.static_pools.policy import EXCLUSIVE_CORES, StaticPoolsPolicy
from tests.support.policy.machines import machine

MACHINE = machine("n4c16")
NAMES = ("exclusive", "special", "shared", "infra")


@st.composite
def pool_options(draw: st.DrawFn) -> PoolsOptions:
    """Pools of lists that do not overlap; CPU 0 is in none, so something is always left."""
    owners = draw(st.lists(st.sampled_from((*NAMES, "")), min_size=15, max_size=15))
    sizes = draw(st.integers(1, 3))
    pools = {}
    for name in NAMES:
        cpus = [cpu for cpu, owner in enumerate(owners, 1) if owner == name]
        lists = [CpuSet.of(cpus[start : start + sizes]) for start in range(0, len(cpus), sizes)]
        if lists:
            pools[name] = Pool(
                exclusive=name in ("exclusive", "special"),
                lists=tuple(PoolCpuList(cpus=one, text=str(one), socket=min(one) // 8) for one in lists),
            )
    pools.setdefault("last", Pool(exclusive=False, lists=(PoolCpuList(cpus=CpuSet.of((0,)), text="0", socket=0),)))
    return PoolsOptions(pools=pools)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Containers that want something, sensible or not."""
    envs = {}
    if pool := draw(st.sampled_from((*NAMES, "", "nonsense"))):
        envs["STP_POOL"] = pool
    if draw(st.booleans()):
        envs["STP_SOCKET_ID"] = draw(st.sampled_from(("0", "1", "-1", "x")))
    if draw(st.booleans()):
        envs["STP_NO_AFFINITY"] = "1"
    cores = draw(st.integers(0, 4))
    return Request(
        key=Key("pod", draw(st.sampled_from("abcdef"))),
        amounts=Amounts(milli=draw(st.integers(0, 3000)), extended={EXCLUSIVE_CORES: cores} if cores else {}),
        envs=envs,
    )


steps = st.lists(st.tuples(st.sampled_from((Action.ALLOCATE, Action.RESIZE, Action.RELEASE)), requests()), max_size=25)


def policy_of(options: PoolsOptions) -> StaticPoolsPolicy:
    """A policy that has decided nothing."""
    return StaticPoolsPolicy(Setup(topology=MACHINE), options)


def run(policy: StaticPoolsPolicy, todo: Sequence[tuple[Action, Request]]) -> dict[Key, Request]:
    """Carry out steps and check after each; what is held in the end."""
    wanted: dict[Key, Request] = {}
    for action, request in todo:
        before = dict(policy.state.grants)
        decision = act(policy, action, request)
        if decision.refusal is not None:
            assert dict(policy.state.grants) == before
        elif action is Action.RELEASE:
            wanted.pop(request.key, None)
        else:
            wanted[request.key] = request
        check(policy)
    return wanted


def act(policy: StaticPoolsPolicy, action: Action, request: Request) -> Decision:
    """One step."""
    if action is Action.RELEASE:
        return policy.release(request.key)
    return policy.resize(request) if action is Action.RESIZE else policy.allocate(request)


def check(policy: StaticPoolsPolicy) -> None:
    """What always holds."""
    grants = policy.state.grants
    alone = [grant.exclusive for grant in grants.values()]
    assert sum(map(len, alone)) == len(CpuSet.union(alone))
    assert policy.fallback
    assert not policy.fallback & CpuSet.union(alone)
    for key, grant in grants.items():
        cpus = policy.state.assignment(key).cpus
        assert (cpus is None) == (not grant.pinned)
        if cpus is not None:
            assert cpus
            assert not cpus & CpuSet.union(other.exclusive for name, other in grants.items() if name != key)


@given(pool_options(), steps)
def test_lists_of_ones_own_are_nobody_elses(options: PoolsOptions, todo: list[tuple[Action, Request]]) -> None:
    """After every step; a refusal changes nothing; when all are gone everything is free."""
    policy = policy_of(options)
    for key in run(policy, todo):
        policy.release(key)
    assert policy.pools() == policy_of(options).pools()


@given(pool_options(), steps)
def test_the_same_calls_give_the_same(options: PoolsOptions, todo: list[tuple[Action, Request]]) -> None:
    """Down to reasons and candidates."""
    one, two = policy_of(options), policy_of(options)
    assert [act(one, *step) for step in todo] == [act(two, *step) for step in todo]


@given(pool_options(), steps, st.randoms())
def test_a_restart_moves_nobody(options: PoolsOptions, todo: list[tuple[Action, Request]], random: Random) -> None:
    """In whatever order they are told."""
    policy = policy_of(options)
    wanted = list(run(policy, todo).values())
    random.shuffle(wanted)
    held: dict[Key, Grant] = dict(policy.state.grants)
    fresh = policy_of(options)
    for request in wanted:
        decision = fresh.allocate(request, held[request.key])
        assert decision.grant == held[request.key]
        assert decision.action is Action.KEEP
    assert fresh.pools() == policy.pools()


words = st.sampled_from(
    ("cmk", "isolate", "--pool=a", "--pool", "--socket-id=1", "--", "run", "-c", "sh", "'", '"', ";", "&&", "\n", "a b")
)
texts = words | st.text(max_size=5) | st.lists(words, max_size=8).map(" ".join)


@given(st.lists(texts, max_size=6), st.lists(texts, max_size=6))
def test_any_command_is_understood_or_an_error(command: list[str], args: list[str]) -> None:
    """One that is left alone names no pool, one that is changed names one and starts something."""
    try:
        wish = read_pool_selection(Request(key=Key("p", "c"), command=tuple(command), args=tuple(args)))
    except ValueError:
        return
    assert (wish.command is None) == (not wish.pool)
    assert wish.command is None or wish.command
