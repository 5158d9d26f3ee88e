"""What topology-aware tells of its pools."""

from collections.abc import Mapping

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.pool_report import PoolReport
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.topology_aware.options import TopologyAwareOptions
from interpose.core.policy.topology_aware.policy import TopologyAwarePolicy
from interpose.core.topology.synthetic import parse_text

# NUMA node 0 has CPUs 0-3, node 1 4-7; CPU 0 is reserved.
MACHINE = "1 socket x 2 numa x 4 cores; isolated 7"
GUARANTEED = KubeQos.GUARANTEED


def policy_of(text: str = MACHINE) -> TopologyAwarePolicy:
    """A policy on this machine."""
    setup = Setup(topology=parse_text(text), reserved=CpuSet.of((0,)))
    return TopologyAwarePolicy(setup, TopologyAwareOptions())


def add(
    policy: TopologyAwarePolicy,
    name: str,
    milli: int,
    qos: KubeQos = KubeQos.BURSTABLE,
    namespace: str = "default",
    notes: Mapping[str, str] | None = None,
) -> Key:
    """A container that comes."""
    amounts = Amounts(milli=milli, limit_milli=milli)
    request = Request(
        key=Key(name, "app"), namespace=namespace, pod=name, qos=qos, amounts=amounts, pod_annotations=notes or {}
    )
    assert policy.allocate(request).refusal is None
    return request.key


def by_name(policy: TopologyAwarePolicy) -> Mapping[str, PoolReport]:
    """Its reports."""
    return {report.name: report for report in policy.report_pools()}


def test_the_tree_of_an_empty_machine() -> None:
    """The reserved CPUs, then each pool before those inside of it; isolated CPUs and reserved ones are not shared."""
    rows = [
        (one.name, one.kind, one.parent, str(one.cpus), str(one.isolated), str(one.mems), one.granted, one.free)
        for one in policy_of().report_pools()
    ]
    assert rows == [
        ("reserved", "reserved", "", "0", "", "", 0, 1000),
        ("socket #0", "package", "", "1-6", "7", "0-1", 0, 6000),
        ("NUMA node #0", "numa", "socket #0", "1-3", "", "0", 0, 3000),
        ("NUMA node #1", "numa", "socket #0", "4-6", "7", "1", 0, 3000),
    ]


def test_own_cpus_leave_all_pools_that_they_are_in() -> None:
    """And stay in them as CPUs that somebody has alone; the container is in the narrowest of them."""
    policy = policy_of()
    own = add(policy, "own", 2000, GUARANTEED)
    mine = policy.state.grants[own].exclusive
    reports = by_name(policy)
    pool = next(report for report in reports.values() if report.containers == (own,))
    assert pool.kind == "numa"
    assert pool.own == reports["socket #0"].own == mine
    assert (len(mine), mine & (pool.cpus | reports["socket #0"].cpus)) == (2, CpuSet())
    assert (pool.granted, pool.free) == (0, 1000)
    assert (reports["socket #0"].containers, reports["socket #0"].free) == ((), 4000)


def test_shares_are_granted_of_the_pools_above_too() -> None:
    """1500m of a node are 1500m of its socket."""
    policy = policy_of()
    shares = add(policy, "shares", 1500)
    reports = by_name(policy)
    pool = next(report for report in reports.values() if report.containers == (shares,))
    assert (pool.kind, pool.granted, pool.free) == ("numa", 1500, 1500)
    assert (reports["socket #0"].granted, reports["socket #0"].free) == (1500, 4500)


def test_containers_on_reserved_cpus() -> None:
    """What they ask for is granted of these."""
    policy = policy_of()
    dns = add(policy, "dns", 300, namespace="kube-system")
    reserved = by_name(policy)["reserved"]
    assert (reserved.containers, reserved.granted, reserved.free) == ((dns,), 300, 700)


def test_who_shares_with_the_system_as_nothing_else_is_left() -> None:
    """It is with the reserved CPUs, and uses none of them by its request."""
    policy = policy_of("1 socket x 2 cores")
    add(policy, "own", 1000, GUARANTEED)
    late = add(policy, "late", 0, KubeQos.BEST_EFFORT)
    reserved = by_name(policy)["reserved"]
    assert (reserved.containers, reserved.granted) == ((late,), 0)


def test_a_container_that_is_left_alone_is_in_no_pool() -> None:
    """Its pod has asked for that."""
    policy = policy_of()
    add(policy, "left", 300, notes={"cpu.preserve.resource-policy.nri.io": "true"})
    assert not any(report.containers for report in policy.report_pools())
