"""The policy static: who has CPUs of its own, what the others share, and that nobody is left without."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.quantity import milli
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import NO_QUOTA, Action, Assignment, Decision, Grant, RefusalKind
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.policy import StaticPolicy, exclusive_count
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from tests.support.policy.machines import machine, oracle_topology

ORACLE = json.loads((Path(__file__).parents[4] / "data/cpumanager-oracle.json").read_text())
OPTIONS = {
    "FullPCPUsOnlyOption": "full_pcpus_only",
    "AlignBySocketOption": "align_by_socket",
    "DistributeCPUsAcrossNUMAOption": "distribute_cpus_across_numa",
}
N4C16 = "2 sockets x 2 numa x 2 cores x 2 threads"  # cores are 0-1, 2-3, ...; nodes are 0-3, 4-7, ...


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def wants(
    name: str,
    amount: int,
    qos: KubeQos = KubeQos.GUARANTEED,
    annotations: dict[str, str] | None = None,
) -> Request:
    """A container that asks for so many thousandths of a CPU."""
    return Request(
        key=Key(f"pod-{name}", name),
        namespace="shop",
        pod=name,
        qos=qos,
        amounts=Amounts(milli=amount),
        pod_annotations=annotations or {},
    )


def static(text: str = N4C16, reserved: CpuSet | int | None = 1000, **options: bool) -> StaticPolicy:
    return StaticPolicy(Setup(topology=machine(text), reserved=reserved), StaticOptions(**options))


def cpus_of(policy: Policy, request: Request) -> str:
    """What the book says that a container runs on."""
    return str(policy.state.assignment(request.key).cpus)


def granted(decision: Decision) -> str:
    assert decision.grant is not None, decision.refusal
    return str(decision.grant.exclusive)


# -- the kubelet's own test cases


@pytest.mark.parametrize("case", ORACLE["cases"]["static_add"], ids=lambda case: f"{case['topo']}: {case['desc']}")
def test_the_kubelets_own_cases(case: dict[str, Any]) -> None:
    """The same machine, state and container give the same CPUs, or are refused for the same reason."""
    policy = kubelet_state(case)
    pod = case["pod"]
    qos = KubeQos.GUARANTEED if pod["req"] == pod["lim"] else KubeQos.BURSTABLE
    hint = {"interpose/numa-nodes": ",".join(map(str, case["hint"]))} if case["hint"] else {}
    request = Request(
        key=Key(pod["uid"], pod["container"]), qos=qos, amounts=Amounts(milli=milli(pod["req"])), pod_annotations=hint
    )
    before = policy.state.pool("shared")
    decision = policy.allocate(request)
    if case["err"]:
        assert decision.refusal is not None
        assert decision.refusal.kind is (
            RefusalKind.INVALID if "SMTAlignmentError" in case["err"] else RefusalKind.EXHAUSTED
        )
        assert policy.state.pool("shared") == before
        return
    assert decision.grant is not None
    assert list(decision.grant.exclusive) == sorted(case["exp"])
    assert bool(decision.grant.exclusive) is case["exp_alloc"]
    assert not policy.state.pool("shared") & decision.grant.exclusive


def kubelet_state(case: dict[str, Any]) -> StaticPolicy:
    """A policy with the state of a test case, also where that could not have come about."""
    topology = oracle_topology(ORACLE["topologies"][case["topo"]]["cpus"])
    default = CpuSet.of(case["default"])
    # Without anything reserved no policy of ours starts; one CPU that is not in play does not matter.
    reserved: CpuSet | int = 1000 * case["num_reserved"] or CpuSet.of([min(topology.online - default)])
    if case["reserved"]:
        reserved = CpuSet.of(case["reserved"])
    options = StaticOptions(**{OPTIONS[name]: value == "true" for name, value in case["options"].items()})
    policy = StaticPolicy(Setup(topology=topology, reserved=reserved), options)
    policy.state.set_pool("shared", default)
    for name, assigned in case["assigned"].items():
        policy.state.put(Key(case["pod"]["uid"], name), Grant(exclusive=CpuSet.of(assigned)))
    policy.state.changes()
    return policy


def test_refusals_say_how_many_there_are() -> None:
    """As the kubelet does, with the numbers of its own case."""
    case = next(case for case in ORACLE["cases"]["static_add"] if "requested=10, available=8" in case["err"])
    decision = kubelet_state(case).allocate(wants("a", 10000))
    assert decision.refusal is not None
    assert decision.refusal.message == "CPUs of its own: 10 wanted, 8 free"


# -- who gets what


@pytest.mark.parametrize(
    ("amount", "qos", "count"),
    [
        (1000, KubeQos.GUARANTEED, 1),
        (12000, KubeQos.GUARANTEED, 12),
        (0, KubeQos.GUARANTEED, 0),
        (1500, KubeQos.GUARANTEED, 0),
        (999, KubeQos.GUARANTEED, 0),
        (2000, KubeQos.BURSTABLE, 0),
        (0, KubeQos.BEST_EFFORT, 0),
    ],
)
def test_whole_cpus_of_guaranteed_pods_are_exclusive(amount: int, qos: KubeQos, count: int) -> None:
    """All other containers share CPUs."""
    assert exclusive_count(wants("a", amount, qos)) == count


def test_a_container_without_cpus_of_its_own_has_a_set_from_the_start() -> None:
    """The shared pool, reserved CPUs included: it never runs on CPUs of others, not even for a moment."""
    policy = static()
    policy.allocate(wants("a", 2000))
    decision = policy.allocate(wants("b", 500, KubeQos.BURSTABLE))
    assert decision.grant == Grant(pools=("shared",))
    assert decision.changed == ()
    assert decision.reason == "shares CPUs: its pod is Burstable, not Guaranteed"
    assert cpus_of(policy, wants("b", 500)) == "0-1,4-15"


def test_cpus_of_ones_own_leave_the_shared_pool_and_come_back() -> None:
    """Those that share are told each time, in order of their coming; the others are not."""
    policy = static()
    first, second, other = wants("a", 0), wants("b", 1500), wants("c", 2000)
    policy.allocate(first)
    policy.allocate(second)
    decision = policy.allocate(other)
    assert granted(decision) == "2-3"
    assert decision.changed == (first.key, second.key)
    assert cpus_of(policy, first) == cpus_of(policy, second) == "0-1,4-15"
    assert policy.allocate(wants("d", 0)).changed == ()
    decision = policy.release(other.key)
    assert (decision.action, decision.reason) == (Action.RELEASE, "gives back CPUs 2-3")
    assert decision.changed == (first.key, second.key, wants("d", 0).key)
    assert cpus_of(policy, first) == "0-15"


def test_reserved_cpus_are_given_to_nobody() -> None:
    """They stay in the shared pool when all others are taken."""
    policy = static(reserved=cpus("0,5"))
    assert granted(policy.allocate(wants("a", 14000))) == "1-4,6-15"
    assert policy.fallback == cpus("0,5")
    assert policy.pools() == {"shared": cpus("0,5"), "reserved": cpus("0,5"), "isolated": EMPTY, "assignable": EMPTY}
    refused = policy.allocate(wants("b", 1000))
    assert refused.refusal is not None
    assert refused.refusal.kind is RefusalKind.EXHAUSTED


def test_a_refusal_changes_nothing() -> None:
    """No pool, no grant, and nobody is told."""
    policy = static()
    policy.allocate(wants("a", 0))
    before = (dict(policy.state.pools), dict(policy.state.grants))
    decision = policy.allocate(wants("b", 16000))
    assert (decision.grant, decision.changed) == (None, ())
    assert decision.reason == "CPUs of its own: 16 wanted, 15 free"
    assert (dict(policy.state.pools), dict(policy.state.grants)) == before


def test_who_is_known_keeps_what_it_has() -> None:
    """Being asked again does not move anybody."""
    policy = static()
    one = wants("a", 2000)
    first = policy.allocate(one)
    again = policy.allocate(one, Grant(exclusive=cpus("8-9")))
    assert (again.action, again.grant, again.changed) == (Action.KEEP, first.grant, ())


def test_releasing_who_holds_nothing_does_nothing() -> None:
    """Also one that only shared."""
    policy = static()
    assert policy.release(Key("pod", "a")).reason == "it held nothing"
    policy.allocate(wants("b", 0))
    assert policy.release(wants("b", 0).key).reason == "it held no CPUs of its own"


def test_a_policy_needs_reserved_cpus() -> None:
    """It says so when it is made."""
    with pytest.raises(ConfigError, match="reserved resources"):
        static(reserved=None)


def test_reserved_cpus_are_chosen_as_the_kubelet_does() -> None:
    """A whole core for two; with distribution over NUMA nodes one of each."""
    assert static(reserved=2000).state.pool("reserved") == cpus("0-1")
    assert static(reserved=4000, distribute_cpus_across_numa=True).state.pool("reserved") == cpus("0-3")
    assert static(reserved=5000, distribute_cpus_across_numa=True).state.pool("reserved") != cpus("0-4")


# -- containers that run already


def test_a_running_container_keeps_its_cpus() -> None:
    """Even if it would get others today."""
    policy = static()
    decision = policy.allocate(wants("a", 3000), Grant(exclusive=cpus("5,9,14")))
    assert (decision.action, granted(decision)) == (Action.KEEP, "5,9,14")
    assert policy.state.pool("shared") == cpus("0-4,6-8,10-13,15")


def test_a_running_container_keeps_as_many_as_it_may() -> None:
    """Others have taken one of its CPUs, and one is reserved by now."""
    policy = static()
    policy.allocate(wants("a", 1000), Grant(exclusive=cpus("8")))
    decision = policy.allocate(wants("b", 4000), Grant(exclusive=cpus("0,8-10")))
    assert decision.action is Action.ALLOCATE
    assert decision.grant is not None
    assert cpus("9-10") <= decision.grant.exclusive
    assert not decision.grant.exclusive & cpus("0,8")
    assert len(decision.grant.exclusive) == 4


def test_a_running_container_that_needs_fewer_gives_the_lonely_ones_back() -> None:
    """It stays where most of its CPUs are."""
    policy = static()
    assert granted(policy.allocate(wants("a", 2000), Grant(exclusive=cpus("4,8-10")))) == "8-9"


def test_a_running_container_that_shares_is_kept_too() -> None:
    """Its own CPUs of another policy are free for all."""
    policy = static()
    assert policy.allocate(wants("a", 0), Grant(pools=("shared",))).action is Action.KEEP
    decision = policy.allocate(wants("b", 500), Grant(exclusive=cpus("3"), pools=("shared",)))
    assert (decision.action, decision.grant) == (Action.ALLOCATE, Grant(pools=("shared",)))
    assert policy.state.pool("shared") == cpus("0-15")


# -- resizing


def test_more_cpus_are_taken_next_to_those_one_has() -> None:
    """Of the same NUMA node as long as there are some."""
    policy = static()
    one, other = wants("a", 2000, annotations={"interpose/numa-nodes": "2"}), wants("b", 0)
    policy.allocate(other)
    assert granted(policy.allocate(one)) == "8-9"
    decision = policy.resize(wants("a", 4000))
    assert (decision.action, granted(decision), decision.changed) == (Action.RESIZE, "8-11", (other.key,))
    assert decision.reason == "4 CPUs of its own: 2 whole cores of package 1, NUMA node 2, next to those it had"
    assert cpus("8-11") <= cpus(granted(policy.resize(wants("a", 6000))))


def test_fewer_cpus_are_a_part_of_those_one_has() -> None:
    """The others are for everybody again."""
    policy = static()
    policy.allocate(wants("a", 4000), Grant(exclusive=cpus("4-7")))
    decision = policy.resize(wants("a", 2000))
    assert granted(decision) == "4-5"
    assert policy.state.pool("shared") == cpus("0-3,6-15")
    assert decision.reason == "2 CPUs of its own: a whole core of package 0, NUMA node 1, of those it had"


def test_a_container_can_go_to_the_shared_pool_and_back() -> None:
    """When its amount is not a whole number any more, or is one again."""
    policy = static()
    policy.allocate(wants("a", 2000))
    assert policy.resize(wants("a", 2500)).grant == Grant(pools=("shared",))
    assert cpus_of(policy, wants("a", 0)) == "0-15"
    assert granted(policy.resize(wants("a", 1000))) == "1"
    assert policy.state.members("shared") == ()


def test_a_resize_that_cannot_be_is_refused_and_changes_nothing() -> None:
    """The container goes on with what it has."""
    policy = static()
    policy.allocate(wants("a", 2000))
    before = dict(policy.state.pools)
    decision = policy.resize(wants("a", 16000))
    assert (decision.action, decision.grant) == (Action.RESIZE, None)
    assert decision.refusal is not None
    assert dict(policy.state.pools) == before
    assert cpus_of(policy, wants("a", 0)) == "2-3"


def test_the_same_amount_is_no_resize() -> None:
    """Nor is another amount that is shared as well."""
    policy = static()
    policy.allocate(wants("a", 2000))
    policy.allocate(wants("b", 500))
    assert policy.resize(wants("a", 2000)).action is Action.KEEP
    assert policy.resize(wants("b", 700)).action is Action.KEEP


def test_resizing_who_is_not_known_gives_it_what_it_is_due() -> None:
    """As if it came."""
    assert granted(static().resize(wants("a", 2000))) == "2-3"


# -- isolated CPUs


def test_isolated_cpus_leave_their_pool_and_come_back() -> None:
    """They are never shared, so nobody is told."""
    policy = static(f"{N4C16}; isolated 12-15")
    policy.allocate(wants("a", 0))
    assert cpus_of(policy, wants("a", 0)) == "0-11"
    decision = policy.allocate(wants("b", 2000))
    assert (granted(decision), decision.changed) == ("12-13", ())
    assert policy.state.pool("isolated") == cpus("14-15")
    assert policy.release(wants("b", 0).key).changed == ()
    assert policy.state.pool("isolated") == cpus("12-15")


def test_a_container_that_outgrows_its_isolated_cpus_leaves_them() -> None:
    """Unless it asked for them: threads are not spread over isolated CPUs."""
    policy = static(f"{N4C16}; isolated 12-15")
    assert granted(policy.allocate(wants("a", 1000))) == "12"
    assert granted(policy.resize(wants("a", 2000))) == "12-13"
    assert not cpus(granted(policy.resize(wants("a", 3000)))) & cpus("12-15")
    assert policy.state.pool("isolated") == cpus("12-15")
    preferred = {"cri-resource-manager.intel.com/prefer-isolated-cpus": "true"}
    policy.allocate(wants("b", 1000, annotations=preferred))
    assert granted(policy.resize(wants("b", 3000, annotations=preferred))) == "12-14"


def test_a_running_container_keeps_isolated_cpus() -> None:
    """Also beside ordinary ones."""
    policy = static(f"{N4C16}; isolated 12-15")
    assert policy.allocate(wants("a", 3000), Grant(exclusive=cpus("3,13-14"))).action is Action.KEEP
    assert policy.state.pool("isolated") == cpus("12,15")


# -- options


def test_memory_can_be_pinned_next_to_cpus_of_ones_own() -> None:
    """Those that share have no memory nodes written."""
    policy = static(pin_memory=True)
    policy.allocate(wants("a", 2000, annotations={"interpose/numa-nodes": "3"}))
    policy.allocate(wants("b", 500))
    assert policy.state.assignment(wants("a", 0).key) == Assignment(cpus=cpus("12-13"), mems=cpus("3"))
    assert policy.state.assignment(wants("b", 0).key).mems is None


def test_who_no_longer_has_cpus_of_its_own_is_freed_from_its_memory_nodes() -> None:
    """All nodes are written, because writing nothing would leave it where it was."""
    policy = static(pin_memory=True)
    policy.allocate(wants("a", 2000))
    decision = policy.resize(wants("a", 500))
    assert decision.grant == Grant(pools=("shared",), mems=cpus("0-3"))


def test_memory_pinned_by_an_earlier_run_is_freed_too() -> None:
    """When the option is off by now."""
    decision = static().allocate(wants("a", 1000), Grant(exclusive=cpus("3"), mems=cpus("0")))
    assert decision.grant == Grant(exclusive=cpus("3"), mems=cpus("0-3"))


def test_with_full_pcpus_only_nobody_shares_a_core() -> None:
    """Amounts that are no whole cores are invalid; siblings of reserved CPUs are given to nobody."""
    policy = static(full_pcpus_only=True)
    odd = policy.allocate(wants("a", 3000))
    assert odd.refusal is not None
    assert odd.refusal.kind is RefusalKind.INVALID
    assert odd.refusal.message == (
        "CPUs of its own: 3 wanted, and full-pcpus-only gives whole cores: ask for a multiple of 2"
    )
    too_many = policy.allocate(wants("a", 16000))
    assert too_many.refusal is not None
    assert too_many.refusal.message == "CPUs of its own: 16 wanted, 14 free in whole cores"
    assert granted(policy.allocate(wants("a", 14000))) == "2-15"


def test_with_full_pcpus_only_and_unequal_cores_amounts_are_as_the_kubelet_takes_them() -> None:
    """Of two cores one thread is offline: 6 CPUs in 4 cores are one each, so that one CPU can be a whole core."""
    policy = static("1 sockets x 4 cores x 2 threads; offline 1,3", cpus("4-5"), full_pcpus_only=True)
    assert granted(policy.allocate(wants("a", 1000))) == "0"
    assert granted(policy.allocate(wants("b", 1000))) == "2"
    half = policy.allocate(wants("c", 1000)).refusal
    assert half is not None
    assert (half.kind, half.message) == (
        RefusalKind.EXHAUSTED,
        "CPUs of its own: 1 wanted, 2 free in whole cores, which do not come to exactly so many",
    )
    assert granted(policy.allocate(wants("c", 2000))) == "6-7"


def test_a_running_container_that_declines_isolated_cpus_does_not_keep_them() -> None:
    """It goes to ordinary ones, and the isolated ones are free."""
    declines = wants("a", 2000, annotations={"cri-resource-manager.intel.com/prefer-isolated-cpus": "false"})
    policy = static("1 sockets x 8 cores x 1 threads; isolated 6-7")
    assert granted(policy.allocate(declines, Grant(exclusive=cpus("6-7")))) == "1-2"
    assert policy.pools()["isolated"] == cpus("6-7")
    policy = static("1 sockets x 8 cores x 1 threads; isolated 6-7")
    assert granted(policy.allocate(declines, Grant(exclusive=cpus("4,6")))) == "1,4"


def test_with_full_pcpus_only_a_running_container_keeps_whole_cores() -> None:
    """Half of a core is not worth keeping."""
    policy = static(full_pcpus_only=True)
    assert granted(policy.allocate(wants("a", 4000), Grant(exclusive=cpus("7-9,11")))) == "8-11"


def test_with_a_strict_reservation_the_others_do_not_run_on_reserved_cpus() -> None:
    """And the last CPU that is left for them is not given away."""
    policy = static(strict_cpu_reservation=True)
    policy.allocate(wants("a", 0))
    assert cpus_of(policy, wants("a", 0)) == "1-15"
    refused = policy.allocate(wants("b", 15000))
    assert refused.refusal is not None
    assert refused.refusal.message == (
        "CPUs of its own: 15 wanted, 15 free, "
        "one of which stays for containers that share CPUs (strict-cpu-reservation)"
    )
    assert granted(policy.allocate(wants("b", 14000))) == "2-15"
    assert policy.fallback == cpus("1")


def test_a_strict_reservation_holds_for_running_containers_too() -> None:
    """One that had all CPUs is refused rather than leave nothing for the others."""
    policy = static(strict_cpu_reservation=True)
    decision = policy.allocate(wants("a", 15000), Grant(exclusive=cpus("1-15")))
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.EXHAUSTED


def test_cpus_that_are_not_available_are_not_touched() -> None:
    """They are in no pool."""
    topology = machine(N4C16)
    policy = StaticPolicy(Setup(topology=topology, available=cpus("4-11"), reserved=1000), StaticOptions())
    policy.allocate(wants("a", 0))
    assert cpus_of(policy, wants("a", 0)) == "4-11"
    assert policy.allocate(wants("b", 8000)).refusal is not None


def test_an_offline_cpu_is_given_to_nobody() -> None:
    """Not even to who had it."""
    whole = machine(N4C16)
    topology = Topology(cpus=whole.cpus[:-1], nodes=whole.nodes, offline=cpus("15"))
    policy = StaticPolicy(Setup(topology=topology, reserved=cpus("0,15")), StaticOptions())
    decision = policy.allocate(wants("a", 2000), Grant(exclusive=cpus("14-15")))
    assert decision.grant is not None
    assert 14 in decision.grant.exclusive
    assert 15 not in decision.grant.exclusive
    assert policy.state.pool("reserved") == cpus("0")


def test_the_example_of_the_manual() -> None:
    """docs/policy/static.md, step by step."""
    policy = static(pin_memory=True)
    web, db, cache = wants("web", 500, KubeQos.BURSTABLE), wants("db", 4000), "cache"
    policy.allocate(web)
    decision = policy.allocate(db)
    assert decision.grant == Grant(exclusive=cpus("4-7"), mems=cpus("1"))
    assert decision.reason == "4 CPUs of its own: 2 whole cores of package 0, NUMA node 1, where least is left over"
    assert cpus_of(policy, web) == "0-3,8-15"
    named = policy.allocate(wants(cache, 2000, annotations={"interpose/numa-nodes": "3"}))
    assert named.grant == Grant(exclusive=cpus("12-13"), mems=cpus("3"))
    assert policy.allocate(wants("huge", 10000)).reason == "CPUs of its own: 10 wanted, 9 free"
    assert policy.resize(wants(cache, 3000)).grant == Grant(exclusive=cpus("12-14"), mems=cpus("3"))
    assert cpus_of(policy, web) == "0-3,8-11,15"
    assert policy.release(db.key).changed == (web.key,)
    assert cpus_of(policy, web) == "0-11,15"


def test_cpus_of_its_own_have_no_quota() -> None:
    """If there is one and the option is on; what shares CPUs keeps its quota, after a resize as well."""
    policy = static()
    limited = replace(wants("db", 2000), amounts=Amounts(milli=2000, quota=True))
    granted_ = policy.allocate(limited).grant
    assert granted_ is not None
    assert (granted_.quota, policy.state.assignment(limited.key).quota) == (NO_QUOTA, NO_QUOTA)
    assert policy.resize(limited).action is Action.KEEP
    without = replace(limited, amounts=Amounts(milli=2000))
    assert policy.resize(without).action is Action.KEEP
    assert policy.state.assignment(limited.key) == Assignment(cpus=granted_.exclusive)
    policy.resize(replace(limited, amounts=Amounts(milli=1500, quota=True)))
    assert policy.state.assignment(limited.key).quota is None
    policy.resize(limited)
    assert policy.state.assignment(limited.key).quota == NO_QUOTA
    off = static(lift_quota=False)
    assert off.allocate(limited, granted_).action is Action.KEEP
    assert off.state.assignment(limited.key) == Assignment(cpus=granted_.exclusive)


def test_containers_of_a_pod_with_amounts_of_its_own_share() -> None:
    """As under the kubelet's policy: it does not know which of the pod's CPUs are theirs."""
    asked = replace(wants("a", 2000), pod_amounts=Amounts(milli=4000))
    assert exclusive_count(asked) == 0
    decision = static().allocate(asked)
    assert decision.grant is not None
    assert decision.grant.pools == ("shared",)
    assert decision.reason == "shares CPUs: its pod asks for 4000m as a whole"
