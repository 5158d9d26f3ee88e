"""Laws of group identity: any pod gets one valid value, or an error that names the annotation."""

import json

from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cgroup import Parameter
from interpose.core.model.pod import Pod
from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.hooks.server.context import PodContext, Wish
from interpose.hooks.server.node.nodeslo import CpuPolicy, CpuQos, NodeSLO
from interpose.hooks.server.plugin import Kernel, NodeInputs
from interpose.hooks.server.plugins.core_sched import CoreSchedPlugin
from interpose.hooks.server.plugins.group_identity import ANNOTATION, Fallback, GroupIdentity

classes = st.builds(CpuQos, enable=st.booleans(), group_identity=st.integers(-1, 2), sched_idle=st.integers(0, 1))
policies = st.builds(NodeSLO, cpu_policy=st.sampled_from(CpuPolicy), lsr=classes, ls=classes, be=classes)
kernels = st.builds(
    Kernel,
    parameters=st.frozensets(st.sampled_from([Parameter.CPU_BVT, Parameter.CPU_IDLE, Parameter.CPU_SHARES])),
    group_identity=st.none() | st.integers(0, 1),
    sched_core=st.none() | st.integers(0, 1),
    core_sched=st.booleans(),
)
inputs = st.builds(NodeInputs, slo=st.none() | policies, kernel=kernels)
fallbacks = st.sampled_from(Fallback)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
keys = st.sampled_from(["enable", "groupIdentity", "GROUPIDENTITY", "other"])
documents = st.dictionaries(keys, scalars | st.lists(scalars, max_size=2), max_size=4)
annotations = st.text(max_size=20) | st.builds(json.dumps, documents | scalars)
pods = st.builds(
    lambda qos, annotation, parent: Pod(
        id="p", labels={QOS_LABEL: qos}, annotations={ANNOTATION: annotation}, cgroup_parent=parent
    ),
    st.sampled_from([*QosClass, ""]),
    annotations,
    st.sampled_from(["/kubepods/p", "/kubepods/burstable/p", "/kubepods/besteffort/p"]),
)
VALID = {Parameter.CPU_BVT: {-1, 0, 1, 2}, Parameter.CPU_IDLE: {1}, Parameter.CPU_SHARES: {2}}


def ask(plugin: GroupIdentity, node: NodeInputs, pod: Pod) -> dict[Parameter, Wish] | str:
    """What is wanted of a pod, or the error."""
    context = PodContext(request=pod)
    try:
        plugin.pod(plugin.rule(node, None), context)
    except ValueError as error:
        return str(error)
    return context.response.wishes


@given(inputs, fallbacks, pods)
def test_a_pod_gets_at_most_one_valid_value(node: NodeInputs, fallback: Fallback, pod: Pod) -> None:
    """The same one each time; only LS pods can be at fault themselves."""
    plugin = GroupIdentity(fallback)
    found = ask(plugin, node, pod)
    assert found == ask(plugin, node, pod)
    if isinstance(found, str):
        assert found.startswith(f"annotation {ANNOTATION}")
        assert pod.labels[QOS_LABEL] == "LS"
    else:
        assert len(found) <= 1
        assert all(wish.value in VALID[parameter] for parameter, wish in found.items())


@given(inputs, fallbacks)
def test_group_identity_and_core_scheduling_are_never_both_on(node: NodeInputs, fallback: Fallback) -> None:
    """A kernel that has both locks up."""
    assert not (GroupIdentity(fallback).rule(node, None).enable and not CoreSchedPlugin().rule(node, None).reason)
