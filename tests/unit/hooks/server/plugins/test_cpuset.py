"""CPUs of containers: which rule applies to whom, and what happens when no CPU is left."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.core.model.pod import Container, Pod
from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext, Response
from interpose.hooks.server.plugin import CpuPool, CpuPools, NodeInputs, PartialRuleError
from interpose.hooks.server.plugins.cpuset import CpusetPlugin, CpusetRule
from interpose.hooks.server.pods.pod_annotations import RESOURCE_STATUS, SYSTEM_QOS

BURSTABLE, BEST_EFFORT = "/kubepods/burstable/pod1", "/kubepods/besteffort/pod1"
POOLS = CpuPools(
    ls=(CpuPool(socket=0, node=0, cpus="0-7"), CpuPool(socket=1, node=1, cpus="8-15")),
    be=(CpuPool(socket=0, node=0, cpus="4-7"), CpuPool(socket=1, node=1, cpus="12-15")),
)
OWN = {"cpuset": "2-3"}
NODE_1 = {"numaNodeResources": [{"node": 1, "resources": {"cpu": "4"}}]}
NODE_1_BATCH = {"numaNodeResources": [{"node": 1, "resources": {"kubernetes.io/batch-cpu": "4000"}}]}
NODE_1_MEMORY = {"numaNodeResources": [{"node": 1, "resources": {"memory": "4Gi"}}]}
# Memory on both nodes, CPUs on one of them only.
MIXED = {
    "numaNodeResources": [
        {"node": 0, "resources": {"memory": "1Gi", "cpu": "0"}},
        {"node": 1, "resources": {"memory": "1Gi", "cpu": "4"}},
    ]
}


def inputs(pools: CpuPools = POOLS, system: str = "") -> NodeInputs:
    """A node with these pools."""
    return NodeInputs(pools=pools, annotations={SYSTEM_QOS: json.dumps({"cpuset": system})} if system else {})


def pod_of(qos: str, status: Mapping[str, Any] | None, parent: str = BURSTABLE) -> Pod:
    """A pod of this class with this decision of the scheduler."""
    return Pod(
        id="1",
        labels={QOS_LABEL: qos} if qos else {},
        annotations={RESOURCE_STATUS: json.dumps(status)} if status is not None else {},
        cgroup_parent=parent,
    )


def wanted(
    pod: Pod, node: NodeInputs, plugin: CpusetPlugin | None = None, level: Level = Level.CONTAINER
) -> dict[Parameter, Value]:
    """What the plugin wants of a container of this pod, checked against what it says that it serves."""
    plugin = plugin or CpusetPlugin()
    context = ContainerContext(pod=pod, request=Container(id="c"), level=level)
    plugin.container(plugin.rule(node, None), context)
    return values(plugin, level, context.response)


def values(plugin: CpusetPlugin, level: Level, response: Response) -> dict[Parameter, Value]:
    """The values of a response, each of which has a reason."""
    assert set(response.wishes) <= plugin.serves[level]
    assert all(wish.why for wish in response.wishes.values())
    return {parameter: wish.value for parameter, wish in response.wishes.items()}


STATIC = replace(POOLS, cpu_manager_policy="static")


@pytest.mark.parametrize(
    ("qos", "status", "parent", "node", "expected"),
    [
        # koordlet writes "0-7,8-15" where we write the union.
        ("LS", None, BURSTABLE, inputs(), "0-15"),
        ("LS", NODE_1, BURSTABLE, inputs(), "8-15"),
        ("LS", NODE_1_MEMORY, BURSTABLE, inputs(), "0-15"),
        ("LS", MIXED, BURSTABLE, inputs(), "8-15"),  # koordlet: both nodes
        ("LSR", NODE_1, BURSTABLE, inputs(), "8-15"),
        ("BE", None, BEST_EFFORT, inputs(), CLEAR),
        ("", None, BEST_EFFORT, inputs(), CLEAR),
        ("BE", NODE_1_BATCH, BEST_EFFORT, inputs(), CLEAR),
        ("BE", NODE_1_BATCH, BURSTABLE, inputs(), "0-15"),
        ("SYSTEM", None, BURSTABLE, inputs(system="1,0"), "0-1"),
        ("SYSTEM", None, BURSTABLE, inputs(), "0-15"),
        ("LS", None, BURSTABLE, inputs(system="0-1"), "0-15"),
        ("", None, BURSTABLE, inputs(), "0-15"),
        ("", None, "/kubepods/pod1", inputs(), "0-15"),
        ("", None, BURSTABLE, inputs(STATIC), None),
        ("LS", None, BURSTABLE, inputs(STATIC), "0-15"),
        ("LSR", None, BURSTABLE, inputs(), "0-15"),
        ("LSR", None, BURSTABLE, inputs(STATIC), None),
        ("LSE", {}, BURSTABLE, inputs(), "0-15"),
        ("nonsense", None, BURSTABLE, inputs(), "0-15"),
        ("LS", None, BURSTABLE, inputs(CpuPools()), None),
        ("BE", None, BEST_EFFORT, inputs(CpuPools()), None),
    ],
)
def test_a_container_without_cpus_of_its_own(
    qos: str, status: Mapping[str, Any] | None, parent: str, node: NodeInputs, expected: Value | None
) -> None:
    """The share pool of its class or of its NUMA nodes, what its parent has, or nothing; the quota is left alone."""
    for level in (Level.CONTAINER, Level.SANDBOX):
        found = wanted(pod_of(qos, status, parent), node, level=level)
        assert found == ({} if expected is None else {Parameter.CPUSET_CPUS: expected})


@pytest.mark.parametrize("qos", [*QosClass, ""])
@pytest.mark.parametrize("level", [Level.CONTAINER, Level.SANDBOX])
@pytest.mark.parametrize("node", [inputs(), inputs(STATIC), inputs(CpuPools()), inputs(system="0-1")])
def test_cpus_of_its_own_come_first(qos: str, level: Level, node: NodeInputs) -> None:
    """Whatever the class and whatever is known of the node; and then no quota holds it back."""
    found = wanted(pod_of(qos, {**OWN, **NODE_1}, BEST_EFFORT), node, level=level)
    assert found == {Parameter.CPUSET_CPUS: "2-3", Parameter.CPU_QUOTA: UNLIMITED}


def test_cpus_of_its_own_are_normalised() -> None:
    """Two ways to write a set are not two values."""
    assert wanted(pod_of("LSR", {"cpuset": "8,2-3,3-5"}), inputs())[Parameter.CPUSET_CPUS] == "2-5,8"


def test_the_pod_has_no_quota_either() -> None:
    """Only with CPUs of its own; the pod's own directory has no CPU set."""
    plugin = CpusetPlugin()
    rule = plugin.rule(inputs(), None)
    for status, expected in ((OWN, {Parameter.CPU_QUOTA: UNLIMITED}), (NODE_1, {}), (None, {})):
        context = PodContext(request=pod_of("LSR", status))
        plugin.pod(rule, context)
        assert values(plugin, Level.POD, context.response) == expected


def test_the_quota_can_be_kept() -> None:
    """For those who want limits on pods with CPUs of their own too."""
    plugin = CpusetPlugin(unset_quota=False)
    assert wanted(pod_of("LSR", OWN), inputs(), plugin) == {Parameter.CPUSET_CPUS: "2-3"}
    context = PodContext(request=pod_of("LSR", OWN))
    plugin.pod(CpusetRule(), context)
    assert context.response.wishes == {}


def test_best_effort_pods_can_be_put_on_numa_nodes() -> None:
    """If somebody turns it on: the BE pools of the nodes where they have CPUs."""
    plugin = CpusetPlugin(be_cpu_manager=True)
    assert wanted(pod_of("BE", NODE_1_BATCH, BEST_EFFORT), inputs(), plugin) == {Parameter.CPUSET_CPUS: "12-15"}
    assert wanted(pod_of("BE", None, BEST_EFFORT), inputs(), plugin) == {Parameter.CPUSET_CPUS: CLEAR}


@pytest.mark.parametrize(
    ("qos", "status", "mems"),
    [
        ("LSR", {**OWN, **NODE_1}, "1"),
        ("LSE", {**OWN, **NODE_1_MEMORY}, "1"),
        ("", {**OWN, **MIXED}, "0-1"),
        ("LS", {**OWN, **NODE_1}, None),
        ("LSR", OWN, None),
        ("LSR", NODE_1, None),
    ],
)
def test_memory_nodes_follow_if_asked(qos: str, status: Mapping[str, Any], mems: str | None) -> None:
    """Only for pods with CPUs of their own that the scheduler put on NUMA nodes; not for the sandbox container."""
    asked = CpusetPlugin(numa_mems=True)
    assert wanted(pod_of(qos, status), inputs(), asked).get(Parameter.CPUSET_MEMS) == mems
    assert Parameter.CPUSET_MEMS not in wanted(pod_of(qos, status), inputs(), asked, Level.SANDBOX)
    assert Parameter.CPUSET_MEMS not in wanted(pod_of(qos, status), inputs())


def test_an_empty_pool_is_skipped() -> None:
    """koordlet writes ",8-15", which the kernel refuses."""
    emptied = CpuPools(ls=(CpuPool(socket=0, node=0, cpus=""), CpuPool(socket=1, node=1, cpus="8-15")))
    assert wanted(pod_of("LS", None), inputs(emptied)) == {Parameter.CPUSET_CPUS: "8-15"}


NODE_7 = {"numaNodeResources": [{"node": 7, "resources": {"cpu": "1"}}]}


@pytest.mark.parametrize(
    ("status", "node_1", "words"),
    [
        (None, "", "LS: all LS share pools"),
        (NODE_1, "", "LS share pools of NUMA nodes 1: annotation"),
        (NODE_7, "8-15", "LS share pools of NUMA nodes 7: annotation"),
    ],
)
def test_no_cpu_left_is_an_error(status: Mapping[str, Any] | None, node_1: str, words: str) -> None:
    """Never a container without restriction: that would run on the CPUs of others."""
    pools = CpuPools(ls=(CpuPool(socket=0, node=0, cpus=""), CpuPool(socket=1, node=1, cpus=node_1)))
    with pytest.raises(ValueError, match=f"no CPU is left in the share pools; wanted: {words}"):
        wanted(pod_of("LS", status), inputs(pools))
    # Those with CPUs of their own have them all the same.
    assert wanted(pod_of("LSR", OWN), inputs(pools))[Parameter.CPUSET_CPUS] == "2-3"


@pytest.mark.parametrize(
    ("qos", "expected"),
    [(QosClass.LSE, "0-15"), (QosClass.LSR, "0-15"), (QosClass.LS, "0-15"), (QosClass.BE, None), (None, None)],
)
def test_host_applications(qos: QosClass | None, expected: str | None) -> None:
    """LSE, LSR and LS share with LS pods; koordlet fails for the first two."""
    plugin = CpusetPlugin()
    context = GroupContext(level=Level.HOST_APP, qos=qos, name="nginx")
    plugin.group(plugin.rule(inputs(), None), context)
    assert values(plugin, Level.HOST_APP, context.response).get(Parameter.CPUSET_CPUS) == expected
    unknown = GroupContext(level=Level.HOST_APP, qos=qos, name="nginx")
    plugin.group(plugin.rule(inputs(CpuPools()), None), unknown)
    assert unknown.response.wishes == {}


def test_what_cannot_be_read_is_an_error_of_that_pod() -> None:
    """The message names the annotation."""
    pod = Pod(id="1", annotations={RESOURCE_STATUS: "{"})
    with pytest.raises(ValueError, match=RESOURCE_STATUS):
        wanted(pod, inputs())
    with pytest.raises(ValueError, match=RESOURCE_STATUS):
        CpusetPlugin().pod(CpusetRule(), PodContext(request=pod))


def test_inputs_that_cannot_be_used_are_named() -> None:
    """A pool that is not a list."""
    with pytest.raises(ValueError, match="share pool of NUMA node 3: ',4-7'") as caught:
        CpusetPlugin().rule(inputs(CpuPools(ls=(CpuPool(socket=0, node=3, cpus=",4-7"),))), None)
    assert not isinstance(caught.value, PartialRuleError)


def partial(node: NodeInputs, previous: CpusetRule | None, said: str) -> CpusetRule:
    """The rule that is made although part of the inputs cannot be used."""
    with pytest.raises(PartialRuleError, match=said) as caught:
        CpusetPlugin().rule(node, previous)
    rule = caught.value.rule
    assert isinstance(rule, CpusetRule)
    return rule


def test_bad_cpus_of_system_pods_leave_those_before() -> None:
    """The pools are followed all the same."""
    before = CpusetPlugin().rule(inputs(CpuPools(), system="0-1"), None)
    assert partial(inputs(system="x"), before, SYSTEM_QOS) == CpusetPlugin().rule(inputs(system="0-1"), None)
    assert partial(inputs(system="x"), None, SYSTEM_QOS) == CpusetPlugin().rule(inputs(), None)


# What cannot be read might be a reservation: these pools have all CPUs.
DOUBTFUL = CpuPools(
    ls=(CpuPool(socket=0, node=0, cpus="0-15"),),
    be=(CpuPool(socket=0, node=0, cpus="0-15"),),
    problem="annotation reservation: 'x'",
)


def test_pools_that_cannot_be_trusted_leave_those_before() -> None:
    """And the kubelet's policy. CPUs of SYSTEM pods are followed."""
    before = CpusetPlugin().rule(inputs(STATIC), None)
    frozen = partial(inputs(DOUBTFUL, system="0-1"), before, "annotation reservation: 'x'")
    assert frozen == replace(before, system="0-1")
    # However often.
    assert partial(inputs(DOUBTFUL, system="0-1"), frozen, "reservation") == frozen
    assert CpusetPlugin().rule(inputs(), frozen) == CpusetPlugin().rule(inputs(), None)


def test_every_problem_is_named() -> None:
    """When there are two."""
    partial(inputs(DOUBTFUL, system="x"), None, f"{SYSTEM_QOS}.*; annotation reservation")


@pytest.mark.parametrize(
    ("qos", "parent"), [("LS", BURSTABLE), ("", BURSTABLE), ("", BEST_EFFORT), ("BE", BEST_EFFORT), ("LSR", BURSTABLE)]
)
@pytest.mark.parametrize("level", [Level.CONTAINER, Level.SANDBOX])
def test_without_pools_that_can_be_trusted_pods_stay_as_they_are(qos: str, parent: str, level: Level) -> None:
    """An error, so that nobody takes away what they have; a wish for nothing would."""
    rule = partial(inputs(DOUBTFUL), None, "reservation")
    assert rule == partial(inputs(DOUBTFUL), rule, "reservation")
    context = ContainerContext(pod=pod_of(qos, None, parent), request=Container(id="c"), level=level)
    with pytest.raises(ValueError, match="the share pools are not known: annotation reservation: 'x'"):
        CpusetPlugin().container(rule, context)


def test_cpus_of_the_schedulers_choice_need_no_pools() -> None:
    """They are the pod's, whatever else is wrong."""
    rule = partial(inputs(DOUBTFUL), None, "reservation")
    context = ContainerContext(pod=pod_of("LSR", OWN), request=Container(id="c"))
    CpusetPlugin().container(rule, context)
    assert {one: wish.value for one, wish in context.response.wishes.items()} == {
        Parameter.CPUSET_CPUS: "2-3",
        Parameter.CPU_QUOTA: UNLIMITED,
    }


def test_host_applications_stay_as_they_are_too() -> None:
    """Those that share with pods; others are nobody's business here."""
    rule = partial(inputs(DOUBTFUL), None, "reservation")
    with pytest.raises(ValueError, match="the share pools are not known"):
        CpusetPlugin().group(rule, GroupContext(level=Level.HOST_APP, qos=QosClass.LS, name="nginx"))
    CpusetPlugin().group(rule, GroupContext(level=Level.HOST_APP, qos=QosClass.BE, name="batch"))


def test_a_rule_of_the_same_inputs_is_equal() -> None:
    """Also if pools are written another way, so that nobody is refreshed for nothing."""
    other = replace(POOLS, ls=(CpuPool(socket=0, node=0, cpus="0-3,4-7"), POOLS.ls[1]))
    assert CpusetPlugin().rule(inputs(other), None) == CpusetPlugin().rule(inputs(), None)
