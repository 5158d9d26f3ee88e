"""static-pools: who gets which lists of which pool, and what containers are told."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import Action, Assignment, Decision, Grant, RefusalKind
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.core.policy.static_pools.policy import EXCLUSIVE_CORES, StaticPoolsPolicy
from interpose.errors import ConfigError
from tests.support.policy.machines import machine

# pool -> list -> socket, on two packages with the CPUs 0-7 and 8-15; exclusive pools begin with "ex".
POOLS: Mapping[str, Mapping[str, int]] = {
    "exclusive": {"2,3": 0, "4,5": 0, "8,9": 1, "10,11": 1},
    "shared": {"6,7": 0, "12,13,14,15": 1},
    "infra": {"0-1": 0},
}


def options(pools: Mapping[str, Mapping[str, int]]) -> PoolsOptions:
    """The same as options."""
    return PoolsOptions(
        pools={
            name: Pool(
                exclusive=name.startswith("ex"),
                lists=tuple(
                    PoolCpuList(cpus=CpuSet.parse(text), text=text, socket=socket) for text, socket in lists.items()
                ),
            )
            for name, lists in pools.items()
        }
    )


def policy_of(
    pools: Mapping[str, Mapping[str, int]] = POOLS, topology: str = "n4c16", **setup: CpuSet
) -> StaticPoolsPolicy:
    """A policy with these pools."""
    return StaticPoolsPolicy(
        Setup(topology=machine(topology), available=setup.get("available"), reserved=setup.get("reserved")),
        options(pools),
    )


@pytest.fixture
def policy() -> StaticPoolsPolicy:
    """One with the usual pools."""
    return policy_of()


def ask(name: str, pool: str = "", cores: int = 0, milli: int = 0, **envs: str) -> Request:
    """A container that wants this."""
    extended = {EXCLUSIVE_CORES: cores} if cores else {}
    if pool:
        envs["STP_POOL"] = pool
    return Request(key=Key("pod", name), amounts=Amounts(milli=milli, extended=extended), envs=envs)


def granted(decision: Decision) -> Grant:
    assert decision.refusal is None
    assert decision.grant is not None
    return decision.grant


def cpus_of(policy: StaticPoolsPolicy, name: str) -> str:
    """The CPUs of a container according to the book."""
    return str(policy.state.assignment(Key("pod", name)).cpus)


def refused(decision: Decision) -> tuple[RefusalKind, str]:
    """Why nothing was given."""
    assert decision.grant is None
    assert decision.refusal is not None
    assert decision.reason == decision.refusal.message
    return decision.refusal.kind, decision.refusal.message


def test_it_is_a_policy(policy: StaticPoolsPolicy) -> None:
    """With a name, and everything that one has."""
    checked: Policy = policy
    assert checked.name == "static-pools"
    assert checked.fallback == CpuSet.parse("6-7,12-15")
    assert policy.capacity() == 4
    assert policy.notes == ()


# -- exclusive pools


def test_one_exclusive_core_of_a_socket(policy: StaticPoolsPolicy) -> None:
    """The command names pool and socket; only the program is left of it."""
    request = replace(
        ask("a", cores=1), command=("cmk", "isolate", "--pool=exclusive", "--socket-id=1", "sleep", "inf")
    )
    decision = policy.allocate(request)
    grant = granted(decision)
    assert decision.action is Action.ALLOCATE
    assert decision.reason == "pool exclusive, lists of its own 8,9: free, where least is left over"
    assert grant.exclusive == CpuSet.parse("8-9")
    assert grant.command == ("sleep", "inf")
    assert grant.details == {"asked": "exclusive", "socket": "1", "pool": "exclusive", "lists": "8,9"}
    assert policy.state.assignment(request.key) == Assignment(cpus=CpuSet.parse("8-9"))


def test_two_exclusive_cores_of_a_socket(policy: StaticPoolsPolicy) -> None:
    """Both of the socket, and the container is told them as they were written."""
    grant = granted(policy.allocate(ask("a", "exclusive", cores=2, STP_SOCKET_ID="0")))
    assert grant.exclusive == CpuSet.parse("2-5")
    assert grant.envs == {
        "CMK_CPUS_ASSIGNED": "2,3,4,5",
        "CMK_CPUS_INFRA": "0-1",
        "CMK_CPUS_SHARED": "6,7,12,13,14,15",
    }
    assert (grant.shares, grant.mems, grant.milli, grant.pools) == (None, None, 0, ())


def test_exclusive_lists_have_one_container_each(policy: StaticPoolsPolicy) -> None:
    """Until all are taken, and again after one was given back."""
    first = policy.allocate(ask("a", "exclusive", cores=2))
    second = policy.allocate(ask("b", "exclusive", cores=2))
    assert granted(first).exclusive == CpuSet.parse("8-11")  # one NUMA node
    assert granted(second).exclusive == CpuSet.parse("2-5")
    assert refused(policy.allocate(ask("c", "exclusive", cores=1))) == (
        RefusalKind.EXHAUSTED,
        "pool exclusive: 1 needed, but 0 of the 4 lists that fit are free",
    )
    assert policy.pools()["exclusive"] == CpuSet()
    assert policy.release(Key("pod", "a")).reason == "lists 8,9, 10,11 are free again"
    assert policy.pools()["exclusive"] == CpuSet.parse("8-11")
    assert granted(policy.allocate(ask("c", "exclusive", cores=1))).exclusive == CpuSet.parse("8-9")


def test_more_lists_than_there_are_can_never_be_had(policy: StaticPoolsPolicy) -> None:
    """On this socket, or at all."""
    assert refused(policy.allocate(ask("a", "exclusive", cores=3, STP_SOCKET_ID="0")))[0] is RefusalKind.INVALID
    assert refused(policy.allocate(ask("a", "exclusive", cores=5)))[0] is RefusalKind.INVALID


def test_an_exclusive_pool_needs_an_amount(policy: StaticPoolsPolicy) -> None:
    """Which only the annotation of the webhook has."""
    why, message = refused(policy.allocate(ask("a", "exclusive")))
    assert why is RefusalKind.INVALID
    assert "must request cmk.intel.com/exclusive-cores" in message
    assert "webhook" in message


@pytest.mark.parametrize(("text", "noted"), [("2", False), ("3", True), ("x", True)])
def test_another_amount_in_cmks_variable_is_noted(policy: StaticPoolsPolicy, text: str, noted: bool) -> None:
    """It does not decide."""
    decision = policy.allocate(ask("a", "exclusive", cores=2, CMK_NUM_CORES=text))
    assert len(granted(decision).exclusive) == 4
    assert (f"CMK_NUM_CORES says '{text}'" in decision.reason) == noted


# -- shared pools


def test_shared_lists_are_shared_by_load(policy: StaticPoolsPolicy) -> None:
    """The one with least to do; a tie goes to the first."""
    for name, milli, expected in (("a", 500, "6-7"), ("b", 200, "12-15"), ("c", 100, "12-15"), ("d", 0, "12-15")):
        grant = granted(policy.allocate(ask(name, "shared", milli=milli)))
        assert grant.milli == milli
        assert cpus_of(policy, name) == expected
    assert policy.state.members("shared/12,13,14,15") == (Key("pod", "b"), Key("pod", "c"), Key("pod", "d"))


def test_a_socket_limits_shared_lists(policy: StaticPoolsPolicy) -> None:
    """Only those are looked at."""
    policy.allocate(ask("a", "shared", milli=900, STP_SOCKET_ID="0"))
    policy.allocate(ask("b", "shared", milli=900, STP_SOCKET_ID="0"))
    assert cpus_of(policy, "b") == "6-7"
    assert refused(policy.allocate(ask("c", "shared", STP_SOCKET_ID="7"))) == (
        RefusalKind.INVALID,
        "pool shared has no CPUs on socket 7, only on 0, 1",
    )


def test_infra_is_for_any_socket(policy: StaticPoolsPolicy) -> None:
    """Whatever the container says."""
    granted(policy.allocate(ask("a", "infra", STP_SOCKET_ID="1")))
    assert cpus_of(policy, "a") == "0-1"


def test_an_amount_of_exclusive_cores_does_nothing_in_a_shared_pool(policy: StaticPoolsPolicy) -> None:
    """The reason of the decision says so."""
    decision = policy.allocate(ask("a", "infra", cores=1))
    assert decision.reason == (
        "pool infra, list 0-1: the only one; cmk.intel.com/exclusive-cores has no effect there, the pool is shared"
    )


def test_no_affinity_is_not_pinned(policy: StaticPoolsPolicy) -> None:
    """It holds its lists and is told them, but no CPU set is written."""
    decision = policy.allocate(ask("a", "exclusive", cores=1, STP_NO_AFFINITY=""))
    assert policy.state.assignment(Key("pod", "a")) == Assignment()
    assert granted(decision).envs["CMK_CPUS_ASSIGNED"] == "2,3"
    assert decision.reason.endswith("; not bound to them, as it asked for")
    assert "2" not in str(policy.pools()["exclusive"]).split(",")


# -- no pool, wrong pool


def test_no_pool_is_pool_shared(policy: StaticPoolsPolicy) -> None:
    """One list of it."""
    policy.allocate(ask("a", milli=100))
    assert cpus_of(policy, "a") == "6-7"


def test_no_pool_without_a_pool_shared() -> None:
    """All pools that are not exclusive."""
    policy = policy_of({"exclusive": {"2,3": 0}, "infra": {"0-1": 0}, "batch": {"8-9": 1, "10": 1}})
    decision = policy.allocate(ask("a"))
    assert granted(decision).pools == ("infra/0-1", "batch/8-9", "batch/10")
    assert cpus_of(policy, "a") == "0-1,8-10" == str(policy.fallback)
    assert granted(decision).envs == {"CMK_CPUS_ASSIGNED": "0-1,8-9,10", "CMK_CPUS_INFRA": "0-1"}


def test_no_pool_with_exclusive_pools_only() -> None:
    """The CPUs that are in none of them, within what is available."""
    policy = policy_of({"exclusive": {"2,3": 0}}, available=CpuSet.parse("0-5"))
    policy.allocate(ask("a"))
    assert cpus_of(policy, "a") == "0-1,4-5" == str(policy.fallback)
    assert policy.pools() == {"exclusive": CpuSet.parse("2-3"), "rest": CpuSet.parse("0-1,4-5")}
    everything = policy_of({"exclusive": {"2,3": 0}})
    assert everything.fallback == CpuSet.parse("0-1,4-15")


def test_a_pool_nobody_knows_is_refused(policy: StaticPoolsPolicy) -> None:
    """With those that there are."""
    assert refused(policy.allocate(ask("a", "foo"))) == (
        RefusalKind.INVALID,
        "pool 'foo' is unknown; there are exclusive, infra, shared",
    )


def test_a_wish_that_makes_no_sense_is_refused(policy: StaticPoolsPolicy) -> None:
    """With what is wrong with it; nothing is in the book."""
    why, message = refused(policy.allocate(ask("a", "shared", STP_SOCKET_ID="one")))
    assert why is RefusalKind.INVALID
    assert "STP_SOCKET_ID" in message
    assert not policy.state.grants


# -- later


def test_a_container_keeps_what_it_held(policy: StaticPoolsPolicy) -> None:
    """Exactly, in both kinds of pools, after a restart."""
    requests = [
        ask("a", "exclusive", cores=1),
        ask("b", "exclusive", cores=2),
        ask("c", "shared", milli=500),
        ask("d", "shared", milli=100),
    ]
    grants = {request.key: granted(policy.allocate(request)) for request in requests}
    policy.release(Key("pod", "c"))
    fresh = policy_of()
    for request in reversed(requests):
        decision = fresh.allocate(request, grants[request.key])
        assert decision.action is Action.KEEP
        assert granted(decision) == grants[request.key]


def test_a_container_keeps_its_lists_without_the_annotation(policy: StaticPoolsPolicy) -> None:
    """They were rightly its own once."""
    held = granted(policy.allocate(ask("a", "exclusive", cores=2)))
    assert granted(policy_of().allocate(ask("a", "exclusive"), held)) == held


def test_a_container_of_a_pool_that_became_exclusive_needs_an_amount(policy: StaticPoolsPolicy) -> None:
    """It shared before, so nothing was its own."""
    held = granted(policy.allocate(ask("a", "shared")))
    changed = policy_of({"exshared": {"6,7": 0}, "infra": {"0-1": 0}})
    moved = replace(held, details={**held.details, "pool": "exshared"})
    assert refused(changed.allocate(ask("a", "exshared"), moved))[0] is RefusalKind.INVALID


def test_a_container_keeps_what_it_can_when_lists_change(policy: StaticPoolsPolicy) -> None:
    """Lists that have some of its CPUs come first."""
    held = granted(policy.allocate(ask("a", "exclusive", cores=1, STP_SOCKET_ID="1")))
    changed = policy_of({"exclusive": {"2": 0, "3": 0, "10": 1, "9": 1}, "shared": {"6": 0}})
    decision = changed.allocate(ask("a", "exclusive", cores=1), held)
    assert granted(decision).exclusive == CpuSet.parse("9")
    assert decision.action is Action.ALLOCATE


def test_a_grant_of_another_policy_counts_by_its_cpus(policy: StaticPoolsPolicy) -> None:
    """It has no lists."""
    held = Grant(exclusive=CpuSet.parse("10-11"))
    assert granted(policy.allocate(ask("a", "exclusive", cores=1), held)).exclusive == CpuSet.parse("10-11")


def test_a_damaged_record_does_no_harm(policy: StaticPoolsPolicy) -> None:
    """Its CPUs speak for themselves."""
    held = Grant(exclusive=CpuSet.parse("10"), details={"pool": "exclusive", "lists": "10,x"})
    assert granted(policy.allocate(ask("a", "exclusive", cores=1), held)).exclusive == CpuSet.parse("10-11")


def test_what_others_hold_by_now_cannot_be_kept(policy: StaticPoolsPolicy) -> None:
    """The container gets something else."""
    held = granted(policy.allocate(ask("a", "exclusive", cores=1)))
    other = granted(policy.allocate(ask("b", "exclusive", cores=1), held))
    assert len(other.exclusive) == 2
    assert not other.exclusive & held.exclusive


def test_offline_cpus_are_not_given(policy: StaticPoolsPolicy) -> None:
    """Nor missed in a record from before."""
    held = granted(policy.allocate(ask("a", "exclusive", cores=1, STP_SOCKET_ID="1")))
    smaller = policy_of(topology="2p2n2c2t; offline 0,1,9")
    decision = smaller.allocate(ask("a", "exclusive", cores=1), held)
    assert granted(decision).exclusive == CpuSet.parse("8")
    assert granted(decision).envs["CMK_CPUS_ASSIGNED"] == "8"
    assert refused(smaller.allocate(ask("b", "infra"))) == (RefusalKind.EXHAUSTED, "all CPUs of pool infra are offline")
    assert len(smaller.notes) == 2
    without = policy_of(topology="2p2n2c2t; offline 9").allocate(ask("a", "exclusive"), held)
    assert granted(without).exclusive == CpuSet.parse("8")


def test_a_resize_moves_nobody(policy: StaticPoolsPolicy) -> None:
    """Only the amounts in the book are others."""
    own = granted(policy.allocate(ask("own", "exclusive", cores=4)))
    assert granted(policy.resize(ask("own", "exclusive", cores=4, milli=900))) == own
    policy.allocate(ask("a", "shared", milli=100))
    policy.allocate(ask("b", "shared", milli=200))
    decision = policy.resize(ask("a", "shared", milli=900))
    assert decision.action is Action.RESIZE
    assert granted(decision).milli == 900
    assert cpus_of(policy, "a") == "6-7"


def test_a_refused_resize_changes_nothing(policy: StaticPoolsPolicy) -> None:
    """More lists than there are."""
    grant = granted(policy.allocate(ask("a", "exclusive", cores=1)))
    refused(policy.resize(ask("a", "exclusive", cores=5)))
    assert policy.state.grants == {Key("pod", "a"): grant}


def test_a_release_says_what_is_free(policy: StaticPoolsPolicy) -> None:
    """Nothing, if nothing was held alone or at all."""
    policy.allocate(ask("a"))
    assert policy.release(Key("pod", "a")).reason == "it had no lists of its own"
    assert policy.release(Key("pod", "a")).reason == "it held nothing"
    assert not policy.state.grants


# -- what it cannot work with


@pytest.mark.parametrize(
    ("pools", "setup", "problem"),
    [
        ({}, {}, "no pools"),
        ({"shared": {"0-99": 0}}, {}, "CPUs 16-99 do not exist"),
        ({"shared": {"0-3": 0}}, {"available": "0-2"}, "CPUs 3 are not among the available ones"),
        ({"exclusive": {"0-3": 0}}, {"reserved": "0"}, "CPUs 0 are reserved"),
        ({"exclusive": {"0-3": 0}}, {"available": "0-3"}, "all CPUs are in exclusive pools"),
    ],
)
def test_pools_that_cannot_be_used_are_refused(
    pools: Mapping[str, Mapping[str, int]], setup: Mapping[str, str], problem: str
) -> None:
    """At the start, with what is wrong."""
    with pytest.raises(ConfigError, match=problem):
        policy_of(pools, "n4c16", **{name: CpuSet.parse(text) for name, text in setup.items()})


def test_an_amount_to_reserve_does_not_matter() -> None:
    """Pools are what is reserved for whom."""
    setup = Setup(topology=machine("n4c16"), reserved=1000)
    assert StaticPoolsPolicy(setup, options(POOLS)).capacity() == 4


def test_the_example_of_the_page(policy: StaticPoolsPolicy) -> None:
    """As docs/policy/static-pools.md has it."""
    script = "/opt/bin/cmk isolate --pool=exclusive --socket-id=1 run --cpus $CMK_CPUS_ASSIGNED"
    forward = policy.allocate(replace(ask("fwd", cores=1), command=("sh", "-c", script)))
    assert granted(forward).command == ("sh", "-c", "run --cpus $CMK_CPUS_ASSIGNED")
    policy.allocate(ask("pair", "exclusive", cores=2))
    for name, milli in (("web", 500), ("api", 200), ("job", 100)):
        policy.allocate(ask(name, milli=milli))
    policy.allocate(replace(ask("agent"), command=("cmk", "isolate", "--pool=infra", "--", "collectd", "-f")))
    names = ("fwd", "pair", "web", "api", "job", "agent")
    assert [cpus_of(policy, name) for name in names] == ["8-9", "2-5", "6-7", "12-15", "12-15", "0-1"]
    assert refused(policy.allocate(ask("more", "exclusive", cores=2)))[0] is RefusalKind.EXHAUSTED


# -- containers that run already, whose command nobody tells


def restarted(grant: Grant, pools: Mapping[str, Mapping[str, int]] = POOLS, cores: int = 0, pool: str = "") -> Decision:
    """What becomes of a container that holds a grant and says nothing, or names a pool in a variable."""
    return policy_of(pools).allocate(ask("a", pool, cores), grant)


@pytest.mark.parametrize(
    ("options", "cores"),
    [
        ("--pool=exclusive --socket-id=1", 1),
        ("--pool=infra", 0),
        ("--pool=shared --socket-id=1", 0),
        ("--pool=shared --no-affinity", 0),
        ("--pool=exclusive --no-affinity", 2),
    ],
)
def test_what_the_command_said_is_known_after_a_restart(policy: StaticPoolsPolicy, options: str, cores: int) -> None:
    """From the grant, or from what is recalled of it; the lists stay the same, and so does what is remembered."""
    request = replace(ask("a", cores=cores), command=("cmk", "isolate", *options.split(), "run"))
    grant = granted(policy.allocate(request))
    decision = restarted(grant, cores=cores)
    assert decision.action is Action.KEEP
    assert replace(granted(decision), command=grant.command) == grant
    recalled = replace(ask("a", cores=cores), recalled=grant.details)
    for held in (None, Grant(exclusive=grant.exclusive)):
        again = granted(policy_of().allocate(recalled, held))
        assert (again.pools, again.pinned, again.details["asked"]) == (
            grant.pools,
            grant.pinned,
            grant.details["asked"],
        )


def test_it_stays_so_when_it_is_resized_after_a_restart() -> None:
    """Its request still says nothing."""
    policy = policy_of()
    details = {"asked": "infra", "socket": "-1", "pool": "infra", "lists": "0-1"}
    policy.allocate(ask("a"), Grant(pools=("infra/0-1",), details=details))
    assert granted(policy.resize(ask("a", milli=700))).pools == ("infra/0-1",)


def test_who_named_no_pool_goes_where_such_containers_go(policy: StaticPoolsPolicy) -> None:
    """Also if that is another place now: it did not ask for the one where it is."""
    grant = granted(policy.allocate(ask("a")))
    assert grant.details["asked"] == ""
    others = {name: lists for name, lists in POOLS.items() if name != "shared"}
    assert granted(restarted(grant, others)).pools == ("infra/0-1",)


def test_a_pool_that_was_named_and_is_gone_is_missed(policy: StaticPoolsPolicy) -> None:
    """As by a container that is new."""
    grant = granted(policy.allocate(ask("a", "infra")))
    others = {name: lists for name, lists in POOLS.items() if name != "infra"}
    assert refused(restarted(grant, others))[0] is RefusalKind.INVALID


def test_a_variable_that_is_known_wins_over_what_is_remembered(policy: StaticPoolsPolicy) -> None:
    """As it won over the command."""
    grant = granted(policy.allocate(ask("a", "infra")))
    assert granted(restarted(grant, pool="shared")).pools == ("shared/6,7",)


def test_a_record_that_is_not_ours_says_what_it_can() -> None:
    """The socket is any if it is none."""
    decision = restarted(Grant(details={"asked": "infra", "socket": "x"}))
    assert granted(decision).details["socket"] == "-1"


def test_a_call_that_is_not_understood_is_refused(policy: StaticPoolsPolicy) -> None:
    """The container is not put into pool shared without a word."""
    why, message = refused(policy.allocate(replace(ask("a"), command=("nice", "cmk", "isolate", "--pool=infra", "x"))))
    assert why is RefusalKind.INVALID
    assert "'nice cmk isolate --pool=infra'" in message
