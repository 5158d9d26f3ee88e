"""Laws of the plugins that size pods and containers, and of what they read: quantities and annotations.

What a plugin wants follows from what was asked for, whatever became of it meanwhile; and a kernel can take it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose.core.model.cgroup import (
    CLEAR,
    CRI_FIELDS,
    MAX_SHARES,
    MIN_QUOTA,
    MIN_SHARES,
    UNLIMITED,
    Parameter,
    to_cri,
)
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import Container, Pod
from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.core.model.quantity import parse_quantity, whole
from interpose.core.model.resources import LinuxResources
from interpose.hooks.server.context import ContainerContext, PodContext
from interpose.hooks.server.evaluate import PluginChain, PluginResults
from interpose.hooks.server.node.nodeslo import NodeSLO, SuppressPolicy
from interpose.hooks.server.node.rules import PluginRules, make_rules
from interpose.hooks.server.plugin import AnyPlugin, CpuPool, CpuPools, NodeInputs
from interpose.hooks.server.plugins.batch_resource import BatchResource
from interpose.hooks.server.plugins.cpu_normalization import CpuNormalization
from interpose.hooks.server.plugins.cpuset import CpusetPlugin
from interpose.hooks.server.pods import pod_annotations

READERS: dict[str, Callable[[Mapping[str, str]], Any]] = {
    pod_annotations.RESOURCE_STATUS: pod_annotations.resource_status,
    pod_annotations.EXTENDED_RESOURCES: pod_annotations.extended_resources,
    pod_annotations.DEVICE_ALLOCATED: pod_annotations.device_allocated,
    pod_annotations.OOM_SCORES: pod_annotations.oom_scores,
    pod_annotations.OOM_SCORE: pod_annotations.oom_score,
    pod_annotations.SYSTEM_QOS: pod_annotations.system_cpuset,
    pod_annotations.NORMALIZATION_RATIO: lambda annotations: pod_annotations.normalization_ratio(annotations, None),
}

milli = st.integers(0, 300_000)
cpus = st.sampled_from(["", "0", "0-3", "2,4-7", "0-15"])
pools = st.lists(cpus, max_size=3).map(
    lambda lists: tuple(CpuPool(socket=0, node=node, cpus=text) for node, text in enumerate(lists))
)
amounts = st.dictionaries(
    st.sampled_from(["kubernetes.io/batch-cpu", "koordinator.sh/batch-cpu", "kubernetes.io/mid-cpu"]), milli
) | st.dictionaries(st.sampled_from(["kubernetes.io/batch-memory", "kubernetes.io/mid-memory"]), st.integers(0, 2**40))
listed = st.dictionaries(
    st.sampled_from(["main", "side"]), st.fixed_dictionaries({"requests": amounts, "limits": amounts})
)
statuses = st.fixed_dictionaries(
    {"cpuset": cpus},
    optional={
        "numaNodeResources": st.lists(
            st.fixed_dictionaries({"node": st.integers(0, 3), "resources": st.dictionaries(st.just("cpu"), milli)}),
            max_size=2,
        )
    },
)
sizes = st.builds(
    LinuxResources,
    cpu_period=st.sampled_from([0, 10_000, 100_000]),
    cpu_quota=st.just(-1) | st.integers(0, 10**7),
    cpu_shares=st.integers(0, 262_144),
    memory_limit_in_bytes=st.integers(-1, 2**40),
    cpuset_cpus=cpus,
)
nodes = st.builds(
    NodeInputs,
    slo=st.none() | st.builds(NodeSLO, suppress_enabled=st.booleans(), suppress_policy=st.sampled_from(SuppressPolicy)),
    annotations=st.dictionaries(
        st.just(pod_annotations.NORMALIZATION_RATIO), st.sampled_from(["0.5", "1", "1.2", "3"])
    ),
    pools=st.builds(CpuPools, ls=pools, be=pools, cpu_manager_policy=st.sampled_from(["", "none", "static"])),
)
plugins = st.builds(
    lambda unset, manager, mems: (
        BatchResource(),
        CpuNormalization(),
        CpusetPlugin(unset_quota=unset, be_cpu_manager=manager, numa_mems=mems),
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod of any class, with or without words of the scheduler and of the webhook."""
    annotations = {}
    if draw(st.booleans()):
        annotations[pod_annotations.RESOURCE_STATUS] = json.dumps(draw(statuses))
    if draw(st.booleans()):
        annotations[pod_annotations.EXTENDED_RESOURCES] = json.dumps({"containers": draw(listed)})
    qos = draw(st.sampled_from([*QosClass, ""]))
    parent = draw(st.sampled_from(["/kubepods/pod1", "/kubepods/burstable/pod1", "/kubepods/besteffort/pod1"]))
    labels = {QOS_LABEL: qos} if qos else {}
    return Pod(id="1", labels=labels, annotations=annotations, cgroup_parent=parent, overhead=draw(sizes))


def hooks_of(chosen: tuple[AnyPlugin, ...], node: NodeInputs) -> PluginChain:
    """These plugins with the rules for this node."""
    rules = make_rules(chosen, node, PluginRules())
    assert not rules.problems
    return PluginChain(chosen, rules)


def with_wishes(resources: LinuxResources, verdict: PluginResults) -> LinuxResources:
    """Resources after the wishes were carried out."""
    fields: dict[str, Any] = {
        CRI_FIELDS[parameter]: to_cri(parameter, wish.value) for parameter, (_, wish) in verdict.values.items()
    }
    return replace(resources, **fields)


@given(plugins, nodes, pods(), sizes, st.sampled_from(["main", "side", "other"]))
def test_applying_twice_is_applying_once(
    chosen: tuple[AnyPlugin, ...], node: NodeInputs, pod: Pod, asked: LinuxResources, name: str
) -> None:
    """What a container has been given is not the base of what it is given next: nothing is scaled again and again."""
    hooks = hooks_of(chosen, node)
    container = Container(id="c", name=name, resources=asked, requested=asked)
    first = hooks.container(ContainerContext(pod=pod, request=container))
    changed = replace(container, resources=with_wishes(asked, first))
    second = hooks.container(ContainerContext(pod=pod, request=changed))
    assert second.values == first.values
    assert with_wishes(changed.resources, second) == changed.resources


@given(plugins, nodes, pods(), sizes, st.sampled_from(["main", "other"]))
def test_every_wish_is_one_a_kernel_takes(
    chosen: tuple[AnyPlugin, ...], node: NodeInputs, pod: Pod, asked: LinuxResources, name: str
) -> None:
    """On pods and containers; and nobody sets what it does not serve."""
    hooks = hooks_of(chosen, node)
    request = Container(id="c", name=name, requested=asked)
    for verdict in (hooks.container(ContainerContext(pod=pod, request=request)), hooks.pod(PodContext(request=pod))):
        assert all("no CPU is left" in failure.text for failure in verdict.failures)
        for parameter, (_, wish) in verdict.values.items():
            assert wish.why
            assert acceptable(parameter, wish.value)


def acceptable(parameter: Parameter, value: Any) -> bool:
    """Whether a kernel takes it: in range, a list in its normal form."""
    if parameter is Parameter.CPU_SHARES:
        return bool(MIN_SHARES <= value <= MAX_SHARES)
    if parameter is Parameter.CPU_QUOTA:
        return value is UNLIMITED or value >= MIN_QUOTA
    if parameter is Parameter.MEMORY_LIMIT:
        return value is UNLIMITED or value > 0
    return value is CLEAR or (bool(value) and str(CpuSet.parse(value)) == value)


@given(st.integers(1000, 10**7), st.floats(0.1, 10), st.floats(0.1, 10))
def test_faster_cpus_never_mean_more_time(asked: int, one: float, other: float) -> None:
    """And never more than was asked for."""
    plugin = CpuNormalization()
    quotas: list[Any] = []
    for ratio in sorted((one, other)):
        node = NodeInputs(annotations={pod_annotations.NORMALIZATION_RATIO: f"{ratio:.6f}"})
        request = Container(id="c", requested=LinuxResources(cpu_quota=asked))
        context = ContainerContext(pod=Pod(id="1"), request=request)
        plugin.container(plugin.rule(node, None), context)
        wish = context.response.wishes.get(Parameter.CPU_QUOTA)
        quotas.append(asked if wish is None else wish.value)
    assert asked >= quotas[0] >= quotas[1] >= MIN_QUOTA


@given(st.integers(0, 10**9), st.integers(0, 9), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "e3", "E-2"]))
def test_quantities_are_exact(number: int, places: int, suffix: str) -> None:
    """Where the point is and what the suffix is change the amount by exact factors; rounding up adds less than one."""
    factors: dict[str, Fraction | int] = {
        "": 1,
        "m": Fraction(1, 1000),
        "k": 1000,
        "M": 10**6,
        "Ki": 1024,
        "Mi": 2**20,
        "e3": 1000,
    }
    digits = str(number).rjust(places + 1, "0")
    text = (f"{digits[:-places]}.{digits[-places:]}" if places else digits) + suffix
    amount = parse_quantity(text)
    assert amount == Fraction(number, 10**places) * factors.get(suffix, Fraction(1, 100))
    assert 0 <= whole(text) - amount < 1
    assert parse_quantity(f"-{text}") == -amount


@given(st.text(max_size=70) | st.from_regex(r"[+-]?[0-9.]{0,40}[eEinumkKMGTP]{0,2}[+-]?[0-9]{0,4}", fullmatch=True))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    """No other exception, no number of absurd size."""
    complaint = ""
    try:
        assert abs(parse_quantity(text)) < 2**63
    except ValueError as error:
        complaint = str(error)
    assert not complaint or repr(text)[:20] in complaint


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "cpuset",
                    "numaNodeResources",
                    "node",
                    "resources",
                    "cpu",
                    "containers",
                    "requests",
                    "limits",
                    "gpu",
                    "minor",
                    "id",
                ]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("annotation", READERS)
@given(st.text(max_size=30) | anything.map(json.dumps))
def test_any_annotation_is_read_or_named(annotation: str, text: str) -> None:
    """Whatever somebody writes into it."""
    complaint = ""
    try:
        READERS[annotation]({annotation: text})
    except ValueError as error:
        complaint = str(error)
    assert not complaint or complaint.startswith(f"annotation {annotation}")
