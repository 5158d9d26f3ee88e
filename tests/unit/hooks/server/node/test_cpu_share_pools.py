"""Share pools: who takes which CPUs from whom."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet, KubeletCpus, NumaCpus
from interpose.core.model.pod import Pod
from interpose.core.model.qos import QOS_LABEL
from interpose.hooks.server.node.cpu_share_pools import (
    BE_POOLS,
    CPU_MANAGER,
    LS_POOLS,
    RESERVATION,
    SYSTEM_QOS,
    ComputedPools,
    compute_pools,
)
from interpose.hooks.server.plugin import CpuPool, CpuPools
from interpose.hooks.server.pods.pod_annotations import RESOURCE_STATUS

CPUS = (
    NumaCpus(socket=0, node=0, cpus=CpuSet.parse("0-7")),
    NumaCpus(socket=1, node=1, cpus=CpuSet.parse("8-15")),
)


def pod(cpuset: str = "", qos: str = "", *, uid: str = "u", ready: bool = True) -> Pod:
    """A pod bound to these CPUs."""
    annotations = {RESOURCE_STATUS: json.dumps({"cpuset": cpuset})} if cpuset else {}
    labels = {QOS_LABEL: qos} if qos else {}
    return Pod(id=uid, uid=uid, name="web", namespace="shop", labels=labels, annotations=annotations, ready=ready)


def lists(found: ComputedPools) -> tuple[list[str], list[str]]:
    """The CPUs of both kinds of pools; nothing went wrong."""
    assert found.problems == ()
    return [pool.cpus for pool in found.pools.ls], [pool.cpus for pool in found.pools.be]


def static(**assigned: Mapping[str, str]) -> KubeletCpus:
    """A kubelet that gave CPUs away: pod uid -> container -> CPUs."""
    return KubeletCpus(
        policy="static",
        assigned={uid: {name: CpuSet.parse(cpus) for name, cpus in given.items()} for uid, given in assigned.items()},
    )


def test_without_pods_everything_is_shared() -> None:
    """By socket and node, sorted."""
    found = compute_pools(tuple(reversed(CPUS)), [], {})
    pools = (CpuPool(socket=0, node=0, cpus="0-7"), CpuPool(socket=1, node=1, cpus="8-15"))
    assert found == ComputedPools(CpuPools(ls=pools, be=pools), ())


def test_without_cpus_there_are_no_pools() -> None:
    """Nothing is known about the machine."""
    assert compute_pools([], [pod("0-1", "LSR")], {}) == ComputedPools(CpuPools(), ())


@pytest.mark.parametrize("qos", ["LSR", "LS", "SYSTEM", ""])
def test_bound_pods_take_cpus_from_latency_sensitive_ones_only(qos: str) -> None:
    """Best-effort pods may use what they leave."""
    assert lists(compute_pools(CPUS, [pod("2-3,8", qos)], {})) == (["0-1,4-7", "9-15"], ["0-7", "8-15"])


def test_lse_pods_take_cpus_from_everybody() -> None:
    """That is what the E is for."""
    taken = ["0-1,4-7", "8-15"]
    assert lists(compute_pools(CPUS, [pod("2-3", "LSE")], {})) == (taken, taken)


def test_pods_that_ended_take_nothing() -> None:
    """Their annotation outlives them."""
    assert lists(compute_pools(CPUS, [pod("2-3", "LSE", ready=False)], {})) == (["0-7", "8-15"], ["0-7", "8-15"])


def test_a_pool_of_which_nothing_is_left_stays() -> None:
    """Empty, and never an empty element of a list."""
    found = lists(compute_pools(CPUS, [], {RESERVATION: '{"reservedCPUs":"0-7"}'}))
    assert found == (["", "8-15"], ["", "8-15"])


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (RESERVATION, '{"reservedCPUs":"0-1","resources":{"cpu":"2"},"applyPolicy":"Default"}', "2-7"),
        (RESERVATION, '{"RESERVEDcpus":"0-1"}', "2-7"),
        (RESERVATION, '{"resources":{"cpu":"2"}}', "0-7"),
        (RESERVATION, '{"reservedCPUs":null}', "0-7"),
        (RESERVATION, " ", "0-7"),
        (SYSTEM_QOS, '{"cpuset":"0-1"}', "2-7"),
        (SYSTEM_QOS, '{"cpuset":"0-1","cpusetExclusive":true}', "2-7"),
        (SYSTEM_QOS, '{"cpuset":"0-1","cpusetExclusive":null}', "2-7"),
        (SYSTEM_QOS, '{"cpuset":"0-1","cpusetExclusive":false}', "0-7"),
    ],
)
def test_reserved_and_exclusive_cpus_are_for_nobody(name: str, text: str, expected: str) -> None:
    """Of either kind."""
    found = lists(compute_pools(CPUS, [], {name: text}))
    assert found == ([expected, "8-15"], [expected, "8-15"])


# -- the kubelet


@pytest.mark.parametrize(
    ("pods", "left"),
    [
        ([], "4-7"),
        ([pod(uid="a")], "4-7"),
        ([pod(uid="a", ready=False)], "4-7"),
        ([pod(uid="a", qos="LSR")], "4-7"),
        ([pod(uid="a", qos="LS")], "0-7"),
        ([pod(uid="a", qos="BE")], "0-7"),
        ([pod(uid="other", qos="BE")], "4-7"),
    ],
)
def test_the_kubelets_cpus_are_taken_unless_the_pod_is_ours(pods: Sequence[Pod], left: str) -> None:
    """LS and BE pods get their CPUs from us, whatever the kubelet wrote down for them."""
    found = compute_pools(CPUS, pods, {}, kubelet=static(a={"main": "0-1", "side": "2-3"}))
    assert lists(found) == ([left, "8-15"], [left, "8-15"])
    assert found.pools.cpu_manager_policy == "static"


def test_a_bound_pod_has_the_schedulers_cpus_not_the_kubelets() -> None:
    """Only the annotation counts for it."""
    found = compute_pools(CPUS, [pod("6-7", "LSR", uid="a")], {}, kubelet=static(a={"main": "0-1"}))
    assert lists(found) == (["0-5", "8-15"], ["0-7", "8-15"])


def test_assignments_of_old_kubelets_belong_to_nobody_we_know() -> None:
    """Not even to a pod without a uid."""
    found = compute_pools(CPUS, [pod(uid="", qos="LS")], {}, kubelet=static(**{"": {"container": "0-1"}}))
    assert lists(found)[0] == ["2-7", "8-15"]


def test_only_the_static_policy_gives_cpus_away() -> None:
    """What another policy left in the file is old. The topology knows the policy better than the file."""
    given = static(a={"main": "0-1"})
    assert lists(compute_pools(CPUS, [], {CPU_MANAGER: '{"policy":"none"}'}, given))[0] == ["0-7", "8-15"]
    unknown = KubeletCpus(assigned=given.assigned)
    found = compute_pools(CPUS, [], {CPU_MANAGER: '{"policy":"static","reservedCPUs":"4"}'}, unknown)
    assert lists(found)[0] == ["2-7", "8-15"]
    assert found.pools.cpu_manager_policy == "static"


# -- the topology


def test_pools_in_the_topology_beat_ours() -> None:
    """Each kind for itself; normalised and sorted."""
    written = '[{"socket":1,"node":1,"cpuset":"9,8"},{"socket":0,"node":0,"cpuset":""}]'
    found = compute_pools(CPUS, [pod("2-3", "LSE")], {LS_POOLS: written})
    assert found.pools.ls == (CpuPool(socket=0, node=0, cpus=""), CpuPool(socket=1, node=1, cpus="8-9"))
    assert lists(found)[1] == ["0-1,4-7", "8-15"]
    found = compute_pools(CPUS, [], {BE_POOLS: written})
    assert lists(found) == (["0-7", "8-15"], ["", "8-9"])


EVERYTHING = '[{"socket":0,"node":0,"cpuset":"0-15"}]'


@pytest.mark.parametrize(
    ("pods", "annotations", "kubelet", "ls", "be"),
    [
        ([pod("0-1", "LSR"), pod("2-3", "LSE", uid="e")], {}, KubeletCpus(), "4-15", "0-1,4-15"),
        ([], {RESERVATION: '{"reservedCPUs":"0-1"}'}, KubeletCpus(), "2-15", "2-15"),
        ([], {SYSTEM_QOS: '{"cpuset":"0-1"}'}, KubeletCpus(), "2-15", "2-15"),
        ([], {}, static(a={"main": "0-1"}), "2-15", "2-15"),
    ],
)
def test_nobodys_cpus_are_given_away_by_pools_in_the_topology(
    pods: Sequence[Pod], annotations: Mapping[str, str], kubelet: KubeletCpus, ls: str, be: str
) -> None:
    """Whoever wrote them may not have known yet."""
    written = {LS_POOLS: EVERYTHING, BE_POOLS: EVERYTHING}
    assert lists(compute_pools(CPUS, pods, {**annotations, **written}, kubelet)) == ([ls], [be])


def test_no_pools_in_the_topology_are_pools_without_cpus() -> None:
    """Somebody said that there is nothing to share; that is not the same as to say nothing."""
    found = compute_pools(CPUS, [], {LS_POOLS: "[]", BE_POOLS: " [ ] "})
    empty = (CpuPool(socket=0, node=0, cpus=""),)
    assert found == ComputedPools(CpuPools(ls=empty, be=empty), ())


# -- mistakes


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (RESERVATION, "{", ": is not valid JSON: '{'"),
        (RESERVATION, "[" * 100_000, ": is not valid JSON: '[[["),
        (RESERVATION, "9" * 10_000, ": is not valid JSON: '999"),
        (RESERVATION, "[]", ": expected a group of keys, found a list"),
        (RESERVATION, "true", ": expected a group of keys, found 'true'"),
        (RESERVATION, '{"reservedCPUs":{}}', ": reservedCPUs: expected text, found a group of keys"),
        (RESERVATION, '{"reservedCPUs":",4"}', ": reservedCPUs: ',4' is not a list of CPUs"),
        (SYSTEM_QOS, '{"cpuset":3}', ": cpuset: expected text, found '3'"),
        (SYSTEM_QOS, '{"cpuset":"0","cpusetExclusive":"yes"}', ": cpusetExclusive: expected true or false, found "),
        (CPU_MANAGER, '{"policy":1}', ": policy: expected text, found '1'"),
        (LS_POOLS, "{}", ": expected a list, found a group of keys"),
        (BE_POOLS, "[1]", ": expected a group of keys, found '1'"),
        (LS_POOLS, '[{"cpuset":"a"}]', ": cpuset: 'a' is not a list of CPUs"),
        (LS_POOLS, '[{"node":-1}]', ": node: expected a number from 0 to 8191, found '-1'"),
        (LS_POOLS, '[{"socket":true}]', ": socket: expected a number from 0 to 8191, found 'true'"),
        (LS_POOLS, '[{"socket":NaN}]', ": socket: expected a number, found 'NaN'"),
    ],
)
def test_a_bad_annotation_is_named_and_left_out(name: str, text: str, said: str) -> None:
    """The pools are those without it, and say so: they may have CPUs that it would have taken away."""
    found = compute_pools(CPUS, [], {name: text})
    (problem,) = found.problems
    assert problem.startswith(f"annotation {name}{said}")
    assert len(problem) < 400
    assert found.pools == replace(compute_pools(CPUS, [], {}).pools, problem=problem)


def test_what_could_not_be_found_out_is_a_problem_of_the_pools() -> None:
    """All problems of the node are in one text."""
    found = compute_pools(CPUS, [], {RESERVATION: "{"}, unread=["file cpu_manager_state: no JSON"])
    assert found.problems == ("file cpu_manager_state: no JSON", f"annotation {RESERVATION}: is not valid JSON: '{{'")
    assert found.pools.problem == "; ".join(found.problems)


def test_a_bad_annotation_of_a_pod_is_named_with_the_pod() -> None:
    """The other pods count, and the pools are good: no pod can stop those of the node."""
    bad = Pod(id="b", name="db", namespace="shop", annotations={RESOURCE_STATUS: '{"cpuset":"x"}'})
    found = compute_pools(CPUS, [bad, pod("0-1", "LSR")], {})
    assert [pool.cpus for pool in found.pools.ls] == ["2-7", "8-15"]
    (problem,) = found.problems
    assert problem.startswith("pod shop/db: ")
    assert found.pools.problem == ""
    assert RESOURCE_STATUS in problem
