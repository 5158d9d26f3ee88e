"""topology-aware: who gets what, who stays where, and what a restart or another policy leaves."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import ColdStarter, LoadFollower, MemoryWidener, Setup
from interpose.core.policy.decision import NO_QUOTA, Action, Assignment, Decision, Grant, RefusalKind
from interpose.core.policy.none import NonePolicy
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.core.policy.topology_aware.policy import TopologyAwarePolicy
from interpose.core.topology.hints import TopologyHint
from interpose.errors import ConfigError
from tests.support.policy.machines import machine

FAMILY = "resource-policy.nri.io"
ISOLATED = "2 sockets x 2 numa x 2 cores x 2 threads; isolated 8-9"
GIB = 1 << 30
BEST_EFFORT = KubeQos.BEST_EFFORT


def policy_of(
    on: str = "n4c16", reserved: CpuSet | int | None = 750, available: CpuSet | None = None, **options: Any
) -> TopologyAwarePolicy:
    """A policy; with 750m CPU 0 is reserved."""
    setup = Setup(topology=machine(on), available=available, reserved=reserved)
    return TopologyAwarePolicy(setup, TopologyAwareOptions(**options))


def ask(
    pod: str,
    milli: int = 0,
    qos: KubeQos = KubeQos.GUARANTEED,
    notes: Mapping[str, str] | None = None,
    *,
    name: str = "app",
    namespace: str = "default",
    hints: tuple[TopologyHint, ...] = (),
    pod_milli: int | None = None,
    **amounts: Any,
) -> Request:
    """A container; `notes` without a slash have no domain."""
    return Request(
        key=Key(pod, name),
        namespace=namespace,
        pod=pod,
        qos=qos,
        amounts=Amounts(milli=milli, **amounts),
        pod_amounts=None if pod_milli is None else Amounts(milli=pod_milli),
        pod_annotations={(key if "/" in key else f"{key}.{FAMILY}"): text for key, text in (notes or {}).items()},
        hints=hints,
    )


def cpus(policy: TopologyAwarePolicy, pod: str, name: str = "app") -> str:
    """What a container runs on."""
    return str(policy.state.assignment(Key(pod, name)).cpus)


def mems(policy: TopologyAwarePolicy, pod: str) -> str:
    """Its memory nodes."""
    return str(policy.state.assignment(Key(pod, "app")).mems)


def refused(decision: Decision) -> str:
    """Why."""
    assert decision.refusal is not None
    assert decision.reason == decision.refusal.message
    return decision.refusal.message


def again(policy: TopologyAwarePolicy, *requests: Request, **options: Any) -> TopologyAwarePolicy:
    """The same after a restart; containers come in this order."""
    other = policy_of(**options)
    for request in requests:
        assert other.allocate(request, policy.state.grants[request.key]).refusal is None
    return other


# -- what there is


def test_pools_are_those_of_the_machine() -> None:
    """Their free CPUs, and the reserved one; isolated ones where there are some."""
    assert {name: str(free) for name, free in policy_of(ISOLATED).pools().items()} == {
        "reserved": "0",
        "root": "1-7,10-15",
        "socket #0": "1-7",
        "NUMA node #0": "1-3",
        "NUMA node #1": "4-7",
        "socket #1": "10-15",
        "NUMA node #2": "10-11",
        "NUMA node #3": "12-15",
        "isolated": "8-9",
    }
    assert "isolated" not in policy_of().pools()


def test_it_is_told_when_a_container_has_started_and_follows_no_load() -> None:
    """By the methods that it has."""
    assert isinstance(policy_of(), ColdStarter)
    assert not isinstance(policy_of(), LoadFollower)
    assert not isinstance(NonePolicy(Setup(topology=machine("n4c16"))), ColdStarter)


def test_without_a_reservation_it_cannot_work() -> None:
    """CPUs for the system are needed."""
    with pytest.raises(ConfigError, match="needs CPUs for the system"):
        policy_of(reserved=None)


def test_a_machine_that_is_reserved_as_a_whole_is_remarked() -> None:
    """Containers that ask for nothing have the reserved CPUs."""
    policy = policy_of("laptop", reserved=2000)
    assert policy.notes == ("CPUs 0-1 are reserved, and no other is there to share",)
    assert str(policy.fallback) == "0-1"
    assert policy_of().notes == ()
    assert str(policy_of().fallback) == "1-15"


# -- exclusive, shared and mixed


def test_whole_cpus_and_a_part_of_one() -> None:
    """Its own, and those that are free in its pool; shares are for the part."""
    policy = policy_of()
    decision = policy.allocate(ask("a", 1500))
    assert decision.grant == Grant(
        exclusive=CpuSet.parse("4"),
        pools=("NUMA node #1",),
        mems=CpuSet.parse("1"),
        shares=512,
        milli=500,
        details={"pool": "NUMA node #1"},
    )
    assert decision.reason == (
        "NUMA node #1: 1 CPU of its own and 500m of shared ones (Guaranteed), the best of 7 pools"
    )
    assert cpus(policy, "a") == "4-7"


def test_shared_pools_shrink_and_grow() -> None:
    """Those who share are told."""
    policy = policy_of()
    policy.allocate(ask("a", 500))
    assert cpus(policy, "a") == "4-7"
    decision = policy.allocate(ask("b", 1500, notes={"resource-policy.nri.io/affinity": "app: [other]"}, name="b"))
    assert (cpus(policy, "b", "b"), decision.changed) == ("8-11", ())
    near = "app: [{scope: {operator: AlwaysTrue}, match: {key: pod/name, operator: Equals, values: [a]}}]"
    decision = policy.allocate(ask("c", 1000, notes={"resource-policy.nri.io/affinity": near}))
    assert (cpus(policy, "c"), cpus(policy, "a"), decision.changed) == ("4", "5-7", (Key("a", "app"),))
    assert policy.release(Key("c", "app")).changed == (Key("a", "app"),)
    assert cpus(policy, "a") == "4-7"


@pytest.mark.parametrize(
    ("milli", "lifts", "expected"), [(2000, True, NO_QUOTA), (1500, True, None), (2000, False, None)]
)
def test_quotas_are_lifted_on_cpus_of_ones_own(milli: int, lifts: bool, expected: int | None) -> None:
    """And only there, if the option says so."""
    decision = policy_of(lift_quota=lifts).allocate(ask("a", milli, quota=True))
    assert decision.grant is not None
    assert decision.grant.quota == expected


def test_what_is_not_pinned_is_accounted_all_the_same() -> None:
    """CPU set, shares and quota are not written."""
    policy = policy_of(pin_cpu=False, pin_memory=False)
    policy.allocate(ask("a", 2000, quota=True))
    assert policy.state.assignment(Key("a", "app")) == Assignment()
    assert str(policy.pools()["NUMA node #1"]) == "6-7"


def test_a_container_that_does_not_fit_is_refused() -> None:
    """Later it may fit; what was wanted and what there is is said, and nothing has changed."""
    policy = policy_of()
    policy.allocate(ask("a", 14000))
    before = dict(policy.pools())
    decision = policy.allocate(ask("b", 2000))
    assert refused(decision) == "2 CPUs of its own cannot be had of any pool; root has 1000m of shared CPUs left"
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.EXHAUSTED
    assert decision.candidates
    assert policy.pools() == before


def test_isolated_cpus_that_are_required_are_not_replaced() -> None:
    """There are two."""
    policy = policy_of(ISOLATED)
    only = {"require-isolated-cpus": "true"}
    policy.allocate(ask("a", 1000))
    assert cpus(policy, "a") == "8"
    assert "2 isolated CPUs of its own cannot be had of any pool" in refused(
        policy.allocate(ask("b", 2000, notes=only))
    )
    policy.allocate(ask("c", 1000, notes=only))
    assert cpus(policy, "c") == "9"
    assert "root has 1 isolated CPU and 13000m" in refused(policy.resize(ask("c", 2000, notes=only)))
    assert cpus(policy, "c") == "9"


def test_an_annotation_that_cannot_be_read_is_refused() -> None:
    """For good: of the container and of its affinities."""
    for notes in ({"memory-type": "tape"}, {"resource-policy.nri.io/affinity": "[x"}):
        decision = policy_of().allocate(ask("a", 1000, notes=notes))
        assert decision.refusal is not None
        assert decision.refusal.kind is RefusalKind.INVALID


def test_annotations_without_effect_are_named() -> None:
    """In the reason."""
    decision = policy_of().allocate(ask("a", 100, notes={"cpu-class": "turbo"}))
    assert decision.reason.endswith("; cpu-class.resource-policy.nri.io has no effect")


# -- the reserved CPUs, and none


def test_the_system_has_the_reserved_cpus() -> None:
    """Until they are in use; then a share of a pool, and if there is none the reserved CPUs all the same."""
    policy = policy_of("laptop", reserved=CpuSet.of((0,)))
    decisions = [policy.allocate(ask(pod, 700, KubeQos.BURSTABLE, namespace="kube-system")) for pod in ("a", "b", "c")]
    assert [cpus(policy, pod) for pod in "abc"] == ["0", "1", "0"]
    assert decisions[0].reason == "namespace kube-system: the reserved CPU 0"
    assert decisions[1].reason == (
        "socket #0: 700m of shared CPUs (namespace kube-system), the reserved CPUs are in use, the only pool"
    )
    assert decisions[2].reason == (
        "namespace kube-system: the reserved CPU 0, which are overbooked, and no pool has room"
    )


def test_a_restart_leaves_the_system_where_it_is() -> None:
    """In whatever order containers come back."""
    policy = policy_of("laptop", reserved=CpuSet.of((0,)))
    requests = [ask(pod, 700, KubeQos.BURSTABLE, namespace="kube-system") for pod in "abc"]
    for request in requests:
        policy.allocate(request)
    other = again(policy, *reversed(requests), on="laptop", reserved=CpuSet.of((0,)))
    assert [cpus(other, pod) for pod in "abc"] == ["0", "1", "0"]
    policy.release(Key("a", "app"))
    assert policy.allocate(ask("d", 600, namespace="kube-system")).reason.endswith("no pool has room")
    policy.release(Key("c", "app"))
    policy.release(Key("d", "app"))
    assert policy.allocate(ask("e", 600, namespace="kube-system")).reason.endswith("the reserved CPU 0")


def test_without_a_cpu_to_share_the_reserved_ones_are() -> None:
    """For containers that ask for nothing, now and after a restart; those that ask for some are refused."""
    policy = policy_of("laptop", reserved=CpuSet.of((0,)))
    policy.allocate(ask("a", 1000))
    decision = policy.allocate(ask("b", 0, BEST_EFFORT))
    assert decision.reason == "it asks for no CPU: no pool has a CPU to share, so the reserved ones"
    assert (cpus(policy, "b"), str(policy.fallback)) == ("0", "0")
    assert "cannot be had" in refused(policy.allocate(ask("c", 100, KubeQos.BURSTABLE)))
    other = again(policy, ask("b", 0, BEST_EFFORT), ask("a", 1000), on="laptop", reserved=CpuSet.of((0,)))
    assert (cpus(other, "a"), cpus(other, "b")) == ("1", "0")
    policy.release(Key("a", "app"))
    assert cpus(policy, "b") == "0-1"  # and those of the pool as soon as there are some


def test_a_pool_keeps_a_cpu_for_those_who_ask_for_nothing() -> None:
    """So that nobody is without."""
    policy = policy_of("laptop", reserved=CpuSet.of((0,)))
    policy.allocate(ask("b", 0, BEST_EFFORT))
    assert "cannot be had" in refused(policy.allocate(ask("a", 1000)))
    assert cpus(policy, "b") == "1"


def test_what_is_preserved_is_left_alone() -> None:
    """CPUs, memory, or both; nothing is used of a pool by that."""
    policy = policy_of()
    both = {"cpu.preserve": "true", "memory.preserve": "true"}
    decision = policy.allocate(ask("a", 2000, notes=both))
    assert policy.state.assignment(Key("a", "app")) == Assignment()
    assert decision.reason == "annotation cpu.preserve.resource-policy.nri.io: its CPUs are left alone"
    policy.allocate(ask("b", 2000, notes={"cpu.preserve": "true"}))
    assert policy.state.assignment(Key("b", "app")) == Assignment(mems=CpuSet.parse("0-3"))
    policy.allocate(ask("c", 2000, notes={"memory.preserve": "true"}))
    assert (cpus(policy, "c"), mems(policy, "c")) == ("4-5", "None")
    assert policy.release(Key("a", "app")).reason == "it had no CPUs of its own"


# -- hyperthreads


def test_siblings_are_hidden() -> None:
    """Of its own CPUs and of those that it shares; nobody else gets them."""
    policy = policy_of()
    hide = {"hide-hyperthreads": "true"}
    policy.allocate(ask("a", 3000, notes=hide))
    assert cpus(policy, "a") == "4,6"
    assert (str(policy.pools()["idle siblings"]), str(policy.pools()["NUMA node #1"])) == ("5", "7")
    policy.allocate(ask("b", 500, notes=hide))
    assert cpus(policy, "b") == "8,10"
    policy.allocate(ask("c", 100, notes=hide, namespace="kube-system"))
    assert cpus(policy, "c") == "0"
    assert not [name for name in policy.pools() if "thread" in name]
    other = again(policy, ask("b", 500, notes=hide), ask("a", 3000, notes=hide))
    assert (cpus(other, "a"), cpus(other, "b"), other.pools()) == ("4,6", "8,10", policy.pools())
    policy.resize(ask("a", 1000, notes=hide))
    assert (cpus(policy, "a"), "idle siblings" in policy.pools()) == ("6", False)  # the whole core is given back


def test_hidden_siblings_of_a_pool_follow_it() -> None:
    """A pool that shrinks has fewer cores."""
    policy = policy_of("1 socket x 2 cores x 2 threads")
    policy.allocate(ask("a", 500, notes={"hide-hyperthreads": "true"}))
    assert cpus(policy, "a") == "1-2"
    policy.allocate(ask("b", 1000))
    assert cpus(policy, "b") == "1"
    assert cpus(policy, "a") == "2"


# -- staying


def test_a_resize_keeps_cpus() -> None:
    """It grows next to them, in the same pool, and shrinks to a part of them."""
    policy = policy_of()
    policy.allocate(ask("a", 2000))
    policy.allocate(ask("b", 1000, notes={"prefer-isolated-cpus": "false"}))
    assert (cpus(policy, "a"), cpus(policy, "b")) == ("4-5", "8")
    decision = policy.resize(ask("a", 3000))
    assert (cpus(policy, "a"), decision.action) == ("4-6", Action.RESIZE)
    assert decision.reason == (
        "NUMA node #1: 3 CPUs of its own (Guaranteed), where it is already, next to the CPUs it has"
    )
    policy.resize(ask("a", 1000))
    assert cpus(policy, "a") == "6"  # the whole core is given back
    policy.resize(ask("a", 500))
    assert (cpus(policy, "a"), policy.state.grants[Key("a", "app")].pools) == ("4-7", ("NUMA node #1",))


def test_a_resize_that_its_pool_has_no_room_for_goes_elsewhere() -> None:
    """With as many of its CPUs as the other pool has."""
    policy = policy_of()
    policy.allocate(ask("a", 2000))
    policy.resize(ask("a", 6000))
    assert policy.state.grants[Key("a", "app")].details == {"pool": "socket #0"} or cpus(policy, "a") == "8-13"
    assert refused(policy.resize(ask("a", 16000)))
    assert len(policy.state.grants[Key("a", "app")].exclusive) == 6


def test_the_same_decision_again_keeps_everything() -> None:
    """As at a restart of the kubelet."""
    policy = policy_of()
    policy.allocate(ask("a", 1500))
    assert policy.allocate(ask("a", 1500)).action is Action.KEEP


def test_a_restart_moves_nobody() -> None:
    """Although in an empty machine others would be better places."""
    policy = policy_of()
    requests = [ask("a", 1000), ask("b", 500), ask("c", 2000), ask("d", 0, BEST_EFFORT)]
    for request in requests:
        policy.allocate(request)
    policy.release(Key("a", "app"))
    other = again(policy, *reversed(requests[1:]))
    assert {key: other.state.assignment(key) for key in other.state.grants} == {
        key: policy.state.assignment(key) for key in policy.state.grants
    }
    assert other.pools() == policy.pools()


def test_a_container_that_was_resized_meanwhile_grows_next_to_what_it_has() -> None:
    """Its pool stays."""
    policy = policy_of()
    policy.allocate(ask("a", 2000))
    other = policy_of()
    other.allocate(ask("a", 3000), policy.state.grants[Key("a", "app")])
    assert cpus(other, "a") == "4-6"


def test_cpus_of_another_policy_are_kept() -> None:
    """The narrowest pool that has them; those that others have by now are not."""
    policy = policy_of()
    decision = policy.allocate(ask("a", 2000), Grant(exclusive=CpuSet.parse("13-14")))
    assert (cpus(policy, "a"), mems(policy, "a")) == ("13-14", "3")
    assert decision.reason == "NUMA node #3: 2 CPUs of its own (Guaranteed), it is there already"
    policy.allocate(ask("b", 2000), Grant(exclusive=CpuSet.parse("7,13")))
    assert cpus(policy, "b") == "6-7"
    policy.allocate(ask("c", 2000), Grant(exclusive=CpuSet.parse("3,8")))
    assert (cpus(policy, "c"), mems(policy, "c")) == ("3,8", "0-3")


def test_details_of_others_mean_nothing() -> None:
    """Neither a pool that is not there, nor text that is no list."""
    policy = policy_of()
    policy.allocate(ask("a", 2000), Grant(details={"pool": "NUMA node #9", "hidden": "x"}))
    assert cpus(policy, "a") == "4-5"


def test_isolated_cpus_are_not_swapped_for_others() -> None:
    """Who has ordinary ones keeps them, and who has isolated ones grows with ordinary ones if need be."""
    policy = policy_of(ISOLATED)
    policy.allocate(ask("a", 1000), Grant(exclusive=CpuSet.parse("5")))
    assert cpus(policy, "a") == "5"
    both = {"prefer-isolated-cpus": "true"}
    policy.allocate(ask("b", 1000, notes=both))
    assert cpus(policy, "b") == "8"
    policy.resize(ask("b", 2000, notes=both))
    assert cpus(policy, "b") == "8-9"
    policy.resize(ask("b", 3000, notes=both))
    assert cpus(policy, "b") == "8-10"
    only = {"require-isolated-cpus": "true"}
    policy.release(Key("b", "app"))
    policy.allocate(ask("c", 1000, notes=only), Grant(exclusive=CpuSet.parse("12")))
    assert cpus(policy, "c") == "8"


# -- affinity, levels, pods


def test_containers_are_drawn_together() -> None:
    """Those of a pod, or of a namespace, if the options say so."""
    policy = policy_of(colocate_pods=True)
    for pod, name in (("a", "x"), ("b", "x"), ("a", "y")):
        policy.allocate(ask(pod, 1000, name=name))
    assert [cpus(policy, "a", "x"), cpus(policy, "b", "x"), cpus(policy, "a", "y")] == ["4", "8", "5"]
    policy = policy_of(colocate_namespaces=True)
    decisions = [policy.allocate(ask(pod, 1000)) for pod in "ab"]
    assert [cpus(policy, pod) for pod in "ab"] == ["4", "5"]
    assert decisions[1].candidates[0].score == "2000m left, affinity 10, memory 1, 1 container"


def test_burstable_containers_without_limit_have_a_socket() -> None:
    """Or what the annotation says."""
    policy = policy_of()
    policy.allocate(ask("a", 500, KubeQos.BURSTABLE))
    assert cpus(policy, "a") == "8-15"
    policy.allocate(ask("b", 500, KubeQos.BURSTABLE, {"unlimited-burstable": "numa"}))
    assert cpus(policy, "b") == "4-7"
    policy.allocate(ask("c", 500, KubeQos.BURSTABLE, limit_milli=6000))
    assert cpus(policy, "c") == "1-7"


def test_a_pod_that_says_what_it_needs_limits_its_containers() -> None:
    """Two of three CPUs are the first one's; the second one shares, and stays so although the first goes."""
    policy = policy_of()
    requests = [ask("a", 2000, name=name, limit_milli=2000, pod_milli=3000) for name in ("x", "y")]
    for request in requests:
        policy.allocate(request)
    grants = policy.state.grants
    assert [len(grants[request.key].exclusive) for request in requests] == [2, 0]
    policy.release(requests[0].key)
    other = again(policy, requests[1])
    assert other.state.assignment(requests[1].key) == policy.state.assignment(requests[1].key)
    idle = ask("b", pod_milli=3000)
    other.allocate(idle)
    assert other.state.assignment(idle.key).shares is None  # the kubelet's are right: they are the pod's


# -- hints


def device(nodes: str = "", cpus: str = "", provider: str = "device") -> TopologyHint:
    """Where a device is."""
    return TopologyHint(provider=provider, cpus=CpuSet.parse(cpus), nodes=CpuSet.parse(nodes))


def test_a_container_is_near_its_device() -> None:
    """As long as there is room."""
    policy = policy_of()
    policy.allocate(ask("a", 3000, hints=(device("3"),)))
    assert cpus(policy, "a") == "12-14"
    policy.allocate(ask("b", 3000, hints=(device("3"),)))
    assert cpus(policy, "b") == "8-10"  # the same socket


def test_strict_hints_are_kept_or_refused() -> None:
    """CPUs of its own, shared ones, and memory."""
    policy = policy_of()
    strict = {"strict.topologyhints": "true"}
    policy.allocate(ask("a", 3000, notes=strict, hints=(device("3"),)))
    assert (cpus(policy, "a"), mems(policy, "a")) == ("12-14", "3")
    message = refused(policy.allocate(ask("b", 3000, notes=strict, hints=(device("3"),))))
    assert message.endswith("cannot be had where its topology hints say, as strict.topologyhints wants")
    policy.allocate(ask("c", 500, notes=strict, hints=(device("3"),)))
    assert cpus(policy, "c") == "15"
    assert refused(policy.allocate(ask("d", 500, notes=strict, hints=(device("3"), device(cpus="0-3")))))
    policy.allocate(ask("e", 2000, notes=strict, hints=(device(cpus="8-9"),)))
    assert cpus(policy, "e") == "8-9"
    assert refused(policy.allocate(ask("g", 3000, notes=strict, hints=(device(cpus="10-11"),))))
    policy.allocate(ask("f", 2000, notes=strict))
    assert cpus(policy, "f") == "4-5"


def test_cpus_are_picked_near_each_device() -> None:
    """Those that the kubelet has assigned: as many near each, or one and the others anywhere."""
    by_hints = {"pick-resources-by-hints": "true"}
    hints = (device(cpus="4-7", provider="podresourceapi:a"), device(cpus="8-11", provider="podresourceapi:b"))
    policy = policy_of()
    policy.allocate(ask("a", 4000, notes=by_hints, hints=hints))
    assert cpus(policy, "a") == "4-5,8-9"
    policy.allocate(ask("b", 3000, notes=by_hints, hints=hints))
    assert len(CpuSet.parse(cpus(policy, "b")) & CpuSet.parse("6-7")) >= 1
    assert len(CpuSet.parse(cpus(policy, "b")) & CpuSet.parse("10-11")) >= 1
    # One CPU for two devices, and a device without free CPUs near it: as usual.
    policy.allocate(ask("c", 1000, notes=by_hints, hints=hints))
    assert len(CpuSet.parse(cpus(policy, "c"))) == 1
    policy.allocate(ask("d", 3000, notes=by_hints, hints=hints))
    assert len(CpuSet.parse(cpus(policy, "d"))) == 3


# -- memory


def test_memory_is_near_the_cpus() -> None:
    """And those of a lower class make room for who has nowhere else."""
    policy = policy_of()  # nodes of 4 GiB
    first = ask("a", 500, KubeQos.BURSTABLE, {"unlimited-burstable": "numa"}, memory=3 * GIB)
    policy.allocate(first)
    assert mems(policy, "a") == "1"
    near = "app: [{scope: {operator: AlwaysTrue}, match: {key: pod/name, operator: Equals, values: [a]}}]"
    decision = policy.allocate(ask("b", 500, notes={"resource-policy.nri.io/affinity": near}, memory=2 * GIB))
    assert (mems(policy, "a"), mems(policy, "b"), decision.changed) == ("0-1", "1", (Key("a", "app"),))


def test_memory_stays_where_it_is_until_other_amounts_are_wanted() -> None:
    """Over a restart and a resize of CPUs."""
    policy = policy_of()
    policy.allocate(ask("a", 1000, memory=GIB))
    held = replace(policy.state.grants[Key("a", "app")], mems=CpuSet.parse("0-1"))
    other = policy_of()
    other.allocate(ask("a", 1000, memory=GIB), held)
    assert mems(other, "a") == "0-1"
    other.resize(ask("a", 2000, memory=GIB))
    assert mems(other, "a") == "0-1"
    other.resize(ask("a", 2000, memory=2 * GIB))
    assert mems(other, "a") == "1"


def test_memory_that_is_not_there_is_no_reason_to_refuse() -> None:
    """Amounts are often estimated: it is near its CPUs all the same."""
    policy = policy_of()
    assert policy.allocate(ask("a", 1000, memory=100 * GIB)).refusal is None
    assert mems(policy, "a") == "1"


def test_who_was_bound_is_not_bound_to_where_he_was() -> None:
    """If memory is not pinned any more, all of it is written; if it is pinned again, it is chosen again."""
    policy = policy_of()
    policy.allocate(ask("a", 1000))
    free = again(policy, ask("a", 1000), pin_memory=False)
    assert mems(free, "a") == "0-3"
    assert mems(again(free, ask("a", 1000), pin_memory=False), "a") == "0-3"
    assert mems(again(free, ask("a", 1000)), "a") == "1"


def test_memory_that_runs_short_gets_further_nodes() -> None:
    """The nearest first, as long as there are some; none where the policy does not choose them."""
    policy = policy_of()
    policy.allocate(ask("a", 1000))
    key = Key("a", "app")
    assert isinstance(policy, MemoryWidener)
    assert (policy.widen(key), mems(policy, "a")) == ((key,), "0-1")
    assert (policy.widen(key), mems(policy, "a")) == ((key,), "0-3")
    assert policy.widen(key) == ()
    policy.allocate(ask("b", 1000, notes={"memory.preserve": "true"}))
    assert policy.widen(Key("b", "app")) == ()
    assert mems(again(policy, ask("a", 1000)), "a") == "0-3"


def test_kinds_of_memory() -> None:
    """Fast memory for those who name it; the others have ordinary and persistent memory."""
    policy = policy_of("c8hbm")
    policy.allocate(ask("a", 1000))
    policy.allocate(ask("b", 1000, notes={"memory-type": "hbm"}))
    policy.allocate(ask("c", 1000, notes={"memory-type": "mixed"}))
    assert [mems(policy, pod) for pod in "abc"] == ["1", "2", "1,3"]
    pmem = policy_of("c4pmem4", reserved=CpuSet.of((0,)))
    pmem.allocate(ask("a", 1000))
    assert mems(pmem, "a") == "1,3"


def test_a_cold_start_ends() -> None:
    """First persistent memory, then ordinary memory as well; a restart in between changes nothing."""
    policy = policy_of("c4pmem4")
    cold = ask("a", 1000, notes={"cold-start": "{duration: 60s}"})
    policy.allocate(cold)
    key = Key("a", "app")
    assert (mems(policy, "a"), dict(policy.cold_starts())) == ("3", {key: 60})
    other = again(policy, cold, on="c4pmem4")
    assert (mems(other, "a"), dict(other.cold_starts())) == ("3", {key: 60})
    assert other.end_cold_start(key) == (key,)
    assert (mems(other, "a"), dict(other.cold_starts())) == ("1,3", {})
    assert other.end_cold_start(key) == ()
    third = again(other, cold, on="c4pmem4")
    assert (mems(third, "a"), dict(third.cold_starts())) == ("1,3", {})
    third.resize(replace(cold, amounts=Amounts(milli=500)))
    assert mems(third, "a") == "1,3"


def test_a_container_that_goes_has_no_cold_start() -> None:
    """Nor one whose memory is not pinned."""
    policy = policy_of("c4pmem4")
    cold = ask("a", 1000, notes={"cold-start": "{duration: 60s}"})
    policy.allocate(cold)
    policy.release(cold.key)
    assert not policy.cold_starts()
    unpinned = policy_of("c4pmem4", pin_memory=False)
    unpinned.allocate(cold)
    assert not unpinned.cold_starts()
    assert "cold-start" not in unpinned.state.grants[cold.key].details


def test_who_held_nothing_gives_nothing_back() -> None:
    """Twice released, or never known."""
    assert policy_of().release(Key("nobody", "app")).reason == "it held nothing"
    policy = policy_of()
    policy.allocate(ask("a", 2000))
    assert policy.release(Key("a", "app")).reason == "CPUs 4-5 are free again"
    assert policy.pools() == policy_of().pools()
