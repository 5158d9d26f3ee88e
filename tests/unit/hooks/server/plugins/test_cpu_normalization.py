"""CPU normalization: whose quota becomes smaller, and by how much."""

import json
from collections.abc import Mapping

import pytest

from interpose.core.model.cgroup import Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.core.model.qos import QOS_LABEL
from interpose.core.model.resources import LinuxResources
from interpose.hooks.server.context import ContainerContext
from interpose.hooks.server.plugin import NodeInputs
from interpose.hooks.server.plugins.cpu_normalization import CpuNormalization, NormalizationRule
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES, NORMALIZATION_RATIO, RESOURCE_STATUS

PLUGIN = CpuNormalization()
NONE: Mapping[str, str] = {}
FAST = NormalizationRule(ratio=1.2)


def quota(
    asked: int,
    rule: NormalizationRule = FAST,
    qos: str = "LS",
    period: int = 100_000,
    annotations: Mapping[str, str] = NONE,
) -> object:
    """The quota that the plugin wants for a container that asked for this one; None if it wants nothing."""
    pod = Pod(id="1", labels={QOS_LABEL: qos} if qos else {}, annotations=annotations)
    had = LinuxResources(cpu_quota=777, cpu_period=period)  # what somebody made of it must not matter
    request = Container(
        id="c", name="main", resources=had, requested=LinuxResources(cpu_quota=asked, cpu_period=period)
    )
    context = ContainerContext(pod=pod, request=request)
    PLUGIN.container(rule, context)
    assert set(context.response.wishes) <= PLUGIN.serves[Level.CONTAINER]
    wish = context.response.wishes.get(Parameter.CPU_QUOTA)
    return wish.value if wish is not None else None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (1000, 1000),  # koordlet: 834, which the kernel refuses
        (10_000, 8334),
        (25_000, 20_834),
        (50_000, 41_667),
        (100_000, 83_334),
        (150_000, 125_000),
        (200_000, 166_667),
        (400_000, 333_334),
        (25_600_000, 21_333_334),
        (0, None),
        (-1, None),
    ],
)
def test_a_limit_on_fast_cpus(asked: int, expected: int | None) -> None:
    """Rounded up, never too small for the kernel; without a limit there is nothing to scale. Any period will do."""
    assert quota(asked) == expected
    assert quota(asked, period=20_000) == expected


@pytest.mark.parametrize("ratio", [None, 0.5, 1.0])
def test_no_faster_cpus_no_wish(ratio: float | None) -> None:
    """What was made smaller goes back to what was asked for; koordlet leaves it."""
    assert quota(100_000, NormalizationRule(ratio=ratio)) is None


@pytest.mark.parametrize(
    ("qos", "served"),
    [("LS", True), ("", True), ("what", True), ("LSR", False), ("LSE", False), ("BE", False), ("SYSTEM", False)],
)
def test_whose_limits_are_scaled(qos: str, served: bool) -> None:
    """LS and pods without a class."""
    assert (quota(100_000, qos=qos) is not None) is served


@pytest.mark.parametrize("qos", ["LS", ""])
def test_pods_with_cpus_of_their_own_are_left_alone(qos: str) -> None:
    """They have no quota, or one that is wanted as it is. NUMA nodes alone are no CPUs of one's own."""
    assert quota(100_000, qos=qos, annotations={RESOURCE_STATUS: '{"cpuset": "0-1"}'}) is None
    assert quota(100_000, qos=qos, annotations={RESOURCE_STATUS: '{"numaNodeResources": [{"node": 0}]}'}) == 83_334


def test_containers_with_mid_resources_are_left_alone() -> None:
    """Their limit is another one. Other containers of the pod are scaled."""
    mid = {"limits": {"kubernetes.io/mid-cpu": "1000"}}
    assert quota(100_000, annotations={EXTENDED_RESOURCES: json.dumps({"containers": {"main": mid}})}) is None
    assert quota(100_000, annotations={EXTENDED_RESOURCES: json.dumps({"containers": {"other": mid}})}) == 83_334


@pytest.mark.parametrize("annotation", [RESOURCE_STATUS, EXTENDED_RESOURCES])
def test_an_annotation_that_cannot_be_read_is_an_error_of_that_pod(annotation: str) -> None:
    """Nobody knows then whether the pod is one to scale."""
    with pytest.raises(ValueError, match=annotation):
        quota(100_000, annotations={annotation: "{"})


def test_the_rule_is_the_annotation_of_the_node() -> None:
    """Small changes are none, a bad one is named."""
    assert PLUGIN.rule(NodeInputs(), None) == NormalizationRule()
    assert PLUGIN.rule(NodeInputs(annotations={NORMALIZATION_RATIO: "1.2"}), None) == FAST
    assert PLUGIN.rule(NodeInputs(annotations={NORMALIZATION_RATIO: "1.209"}), FAST) == FAST
    assert PLUGIN.rule(NodeInputs(), FAST) == NormalizationRule()
    with pytest.raises(ValueError, match=f"{NORMALIZATION_RATIO}.*'fast'"):
        PLUGIN.rule(NodeInputs(annotations={NORMALIZATION_RATIO: "fast"}), FAST)
