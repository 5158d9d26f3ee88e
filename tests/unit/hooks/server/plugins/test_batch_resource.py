"""Batch and mid resources: what becomes of them on pods and containers."""

import json
from typing import Any

import pytest

from interpose.core.model.cgroup import UNLIMITED, Level, Parameter, Value
from interpose.core.model.pod import Container, Pod
from interpose.core.model.qos import QOS_LABEL
from interpose.core.model.resources import LinuxResources
from interpose.hooks.server.context import ContainerContext, PodContext, Response
from interpose.hooks.server.node.nodeslo import NodeSLO, SuppressPolicy
from interpose.hooks.server.plugin import NodeInputs, PartialRuleError
from interpose.hooks.server.plugins.batch_resource import BatchResource, BatchRule
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES, NORMALIZATION_RATIO

PLUGIN = BatchResource()
GI = 1 << 30
PLAIN = BatchRule()
FAST = BatchRule(ratio=1.2)
TOGETHER = NodeSLO(suppress_enabled=True, suppress_policy=SuppressPolicy.CFS_QUOTA)


def resources(tier: str = "kubernetes.io/batch", **amounts: object) -> dict[str, Any]:
    """What the annotation says about a container: request, limit (CPU) and memory (limit)."""
    requests = {f"{tier}-cpu": amounts["request"]} if "request" in amounts else {}
    limits = {
        f"{tier}-{kind}": amounts[key] for key, kind in (("limit", "cpu"), ("memory", "memory")) if key in amounts
    }
    return {"requests": requests, "limits": limits}


A = resources(request="500", limit="1000", memory="1Gi")
B = resources(request="250", limit="500", memory="512Mi")
B_UNLIMITED = resources(request="250")


def pod_of(qos: str = "BE", **containers: Any) -> Pod:
    """A pod with these containers in its annotation."""
    return Pod(
        id="1",
        labels={QOS_LABEL: qos} if qos else {},
        annotations={EXTENDED_RESOURCES: json.dumps({"containers": containers})},
        cgroup_parent="/kubepods/besteffort/pod1",
    )


def of_pod(pod: Pod, rule: BatchRule = PLAIN) -> dict[Parameter, Value]:
    """What the plugin wants of a pod."""
    context = PodContext(request=pod)
    PLUGIN.pod(rule, context)
    return values(Level.POD, context.response)


def of_container(
    pod: Pod,
    name: str,
    rule: BatchRule = PLAIN,
    period: int = 0,
) -> dict[Parameter, Value]:
    """What the plugin wants of a container."""
    request = Container(id="c", name=name, requested=LinuxResources(cpu_period=period, cpu_shares=2))
    context = ContainerContext(pod=pod, request=request)
    PLUGIN.container(rule, context)
    return values(Level.CONTAINER, context.response)


def values(level: Level, response: Response) -> dict[Parameter, Value]:
    """The values of a response, each of which has a reason."""
    assert set(response.wishes) <= PLUGIN.serves[level]
    assert all(wish.why for wish in response.wishes.values())
    return {parameter: wish.value for parameter, wish in response.wishes.items()}


def three(shares: int, quota: Value, memory: Value) -> dict[Parameter, Value]:
    """The three values."""
    return {Parameter.CPU_SHARES: shares, Parameter.CPU_QUOTA: quota, Parameter.MEMORY_LIMIT: memory}


@pytest.mark.parametrize(
    ("milli", "shares", "quota", "on_fast_cpus"),
    [
        (0, 2, UNLIMITED, UNLIMITED),
        (8, 8, 1000, 1000),  # koordlet: 834, which the kernel refuses
        (100, 102, 10_000, 8334),
        (250, 256, 25_000, 20_834),
        (500, 512, 50_000, 41_667),
        (1000, 1024, 100_000, 83_334),
        (1500, 1536, 150_000, 125_000),
        (2000, 2048, 200_000, 166_667),
        (4000, 4096, 400_000, 333_334),
        (256_000, 262_144, 25_600_000, 21_333_334),
    ],
)
def test_cpu_of_a_container(milli: int, shares: int, quota: Value, on_fast_cpus: Value) -> None:
    """Shares of the request, quota of the limit, smaller on fast CPUs and never too small for the kernel."""
    pod = pod_of(main=resources(request=str(milli), limit=milli, memory=4096))
    assert of_container(pod, "main") == three(shares, quota, 4096)
    assert of_container(pod, "main", FAST) == three(shares, on_fast_cpus, 4096)
    assert of_container(pod, "main", BatchRule(ratio=0.8)) == three(shares, quota, 4096)
    assert of_pod(pod, FAST) == three(shares, on_fast_cpus, 4096)


@pytest.mark.parametrize(
    ("b", "node", "of_the_pod", "of_a", "of_b"),
    [
        # The sum of its containers, requests and limits.
        (
            B,
            NodeInputs(),
            three(768, 150_000, 1_610_612_736),
            three(512, 100_000, GI),
            three(256, 50_000, GI // 2),
        ),
        # One without limits leaves the pod without: else the pod's limit would be its limit.
        (
            B_UNLIMITED,
            NodeInputs(),
            three(768, UNLIMITED, UNLIMITED),
            three(512, 100_000, GI),
            three(256, UNLIMITED, UNLIMITED),
        ),
        # Each limit for itself.
        (
            resources(limit=500),
            NodeInputs(),
            three(512, 150_000, UNLIMITED),
            three(512, 100_000, GI),
            three(2, 50_000, UNLIMITED),
        ),
        # No quotas while best-effort pods are limited together; shares and memory stay.
        (
            B,
            NodeInputs(slo=TOGETHER, annotations={NORMALIZATION_RATIO: "1.2"}),
            three(768, UNLIMITED, 1_610_612_736),
            three(512, UNLIMITED, GI),
            three(256, UNLIMITED, GI // 2),
        ),
    ],
)
def test_a_pod_and_its_containers(
    b: object,
    node: NodeInputs,
    of_the_pod: dict[Parameter, Value],
    of_a: dict[Parameter, Value],
    of_b: dict[Parameter, Value],
) -> None:
    """Container `a` is always the same one."""
    rule, pod = PLUGIN.rule(node, None), pod_of(a=A, b=b)
    assert of_pod(pod, rule) == of_the_pod
    assert of_container(pod, "a", rule) == of_a
    assert of_container(pod, "b", rule) == of_b


def init(request: int, limit: int, memory: int) -> dict[str, Any]:
    """An init container."""
    return {**resources(request=request, limit=limit, memory=memory), "init": True}


def stays(request: int, limit: int, memory: int) -> dict[str, Any]:
    """A container that stays: an ordinary one, or a sidecar."""
    return resources(request=request, limit=limit, memory=memory)


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        # One after the other, and then the others together.
        ([init(1000, 1000, 4 * GI), init(1000, 1000, 4 * GI), stays(1000, 1000, GI)], three(1024, 100_000, 4 * GI)),
        # The largest counts for each resource by itself.
        ([init(2000, 4000, GI), stays(500, 1000, GI), stays(500, 500, 2 * GI)], three(2048, 400_000, 3 * GI)),
        # A sidecar runs beside those that start after it, also beside init containers.
        ([stays(500, 500, GI), init(1000, 1000, 4 * GI), stays(250, 250, GI)], three(1536, 150_000, 5 * GI)),
        ([init(1000, 1000, 4 * GI), stays(500, 500, GI), stays(250, 250, GI)], three(1024, 100_000, 4 * GI)),
        # Nobody's limit is the limit of somebody without.
        ([init(100, 0, 0), stays(250, 250, GI)], three(256, UNLIMITED, UNLIMITED)),
        ([init(1000, 1000, 4 * GI), stays(250, 0, 0)], three(1024, UNLIMITED, UNLIMITED)),
    ],
)
def test_init_containers_are_gone_when_the_others_run(
    containers: list[dict[str, Any]], expected: dict[Parameter, Value]
) -> None:
    """A pod has what its containers need at the same time, as Kubernetes counts; they are listed as they start."""
    assert of_pod(pod_of("BE", **{f"c{number}": one for number, one in enumerate(containers)})) == expected


def test_an_init_container_has_its_own_values() -> None:
    """Like any other."""
    assert of_container(pod_of(prepare=init(500, 1000, GI), main=A), "prepare") == three(512, 100_000, GI)


@pytest.mark.parametrize("document", [{}, {"containers": {}}, {"containers": None}, {"containers": {"main": {}}}])
def test_a_pod_that_lists_nothing_is_left_alone(document: object) -> None:
    """koordlet gives it a memory limit of zero."""
    pod = Pod(id="1", labels={QOS_LABEL: "BE"}, annotations={EXTENDED_RESOURCES: json.dumps(document)})
    assert of_pod(pod) == of_container(pod, "main") == {}


def test_without_the_annotation_nothing_is_wanted() -> None:
    """A BE pod may have ordinary resources."""
    pod = Pod(id="1", labels={QOS_LABEL: "BE"})
    assert of_pod(pod) == of_container(pod, "main") == {}


def test_a_container_that_is_not_listed_is_left_alone() -> None:
    """Its limits are ordinary ones, if any."""
    assert of_container(pod_of(a=A), "sidecar") == {}


@pytest.mark.parametrize(
    ("qos", "served"), [("BE", True), ("LS", False), ("", False), ("LSR", False), ("SYSTEM", False)]
)
def test_batch_is_for_best_effort_pods(qos: str, served: bool) -> None:
    """By label."""
    pod = pod_of(qos, a=A)
    assert bool(of_pod(pod)) is bool(of_container(pod, "a")) is served


@pytest.mark.parametrize(
    ("qos", "served"), [("BE", True), ("LS", True), ("", True), ("LSR", False), ("LSE", False), ("SYSTEM", False)]
)
def test_mid_is_for_those_below_lsr(qos: str, served: bool) -> None:
    """Units and formulas are those of batch; koordlet leaves such pods without values."""
    pod = pod_of(qos, a=resources("kubernetes.io/mid", request=500, limit=1000, memory=GI))
    assert of_container(pod, "a") == (three(512, 100_000, GI) if served else {})


@pytest.mark.parametrize("qos", ["LS", "", "LSR", "SYSTEM"])
def test_only_best_effort_pods_get_values_themselves(qos: str) -> None:
    """Others may have ordinary containers too, which the sum of those in the annotation would throttle or kill."""
    mid = resources("kubernetes.io/mid", request=500, limit=1000, memory=GI)
    assert of_pod(pod_of(qos, side=mid)) == {}
    assert of_pod(pod_of("BE", side=mid)) == three(512, 100_000, GI)


def test_old_names_count() -> None:
    """As older versions of the webhook write them."""
    assert of_container(pod_of(a=resources("koordinator.sh/batch", limit=1000)), "a") == three(2, 100_000, UNLIMITED)


def test_overhead_is_added_to_the_limits_of_the_pod() -> None:
    """What the pod needs besides its containers; it is no reason for a limit that was not there."""
    overhead = LinuxResources(cpu_quota=25_000, cpu_period=100_000, memory_limit_in_bytes=4096)
    limited = Pod(id="1", labels={QOS_LABEL: "BE"}, annotations=pod_of(a=A).annotations, overhead=overhead)
    assert of_pod(limited) == three(512, 125_000, GI + 4096)
    free = Pod(id="1", labels={QOS_LABEL: "BE"}, annotations=pod_of(b=B_UNLIMITED).annotations, overhead=overhead)
    assert of_pod(free) == three(256, UNLIMITED, UNLIMITED)
    negative = LinuxResources(cpu_quota=-1, memory_limit_in_bytes=-1)
    none = Pod(id="1", labels={QOS_LABEL: "BE"}, annotations=pod_of(a=A).annotations, overhead=negative)
    assert of_pod(none) == three(512, 100_000, GI)


def test_another_period_has_another_quota() -> None:
    """A kubelet may use periods other than 100 ms; the limit is a part of the period."""
    pod = pod_of(a=A)
    assert of_container(pod, "a", period=20_000)[Parameter.CPU_QUOTA] == 20_000
    assert of_container(pod, "a", period=-1)[Parameter.CPU_QUOTA] == 100_000
    sized = Pod(
        id="1",
        labels=pod.labels,
        annotations=pod.annotations,
        resources=LinuxResources(cpu_period=20_000, cpu_shares=2),
    )
    assert of_pod(sized)[Parameter.CPU_QUOTA] == 20_000


def test_an_annotation_that_cannot_be_read_is_an_error_of_that_pod() -> None:
    """Nothing is set, and it is seen."""
    pod = Pod(id="1", labels={QOS_LABEL: "BE"}, annotations={EXTENDED_RESOURCES: "[]"})
    with pytest.raises(ValueError, match=EXTENDED_RESOURCES):
        of_pod(pod)
    with pytest.raises(ValueError, match=EXTENDED_RESOURCES):
        of_container(pod, "main")


@pytest.mark.parametrize(
    ("slo", "quota"),
    [
        (None, True),
        (NodeSLO(), True),
        (NodeSLO(suppress_enabled=True), True),
        (NodeSLO(suppress_policy=SuppressPolicy.CFS_QUOTA), True),
        (TOGETHER, False),
    ],
)
def test_when_pods_have_quotas(slo: NodeSLO | None, quota: bool) -> None:
    """Unless best-effort pods are suppressed by a common quota."""
    assert PLUGIN.rule(NodeInputs(slo=slo), None) == BatchRule(quota=quota)


def test_the_ratio_in_force_stays_while_the_change_is_small() -> None:
    """And goes when the annotation goes."""
    first = PLUGIN.rule(NodeInputs(annotations={NORMALIZATION_RATIO: "1.2"}), None)
    assert first == FAST
    assert PLUGIN.rule(NodeInputs(annotations={NORMALIZATION_RATIO: "1.205"}), first) == FAST
    assert PLUGIN.rule(NodeInputs(annotations={NORMALIZATION_RATIO: "1.3"}), first) == BatchRule(ratio=1.3)
    assert PLUGIN.rule(NodeInputs(), first) == BatchRule()


def test_a_bad_ratio_does_not_keep_the_rest_from_being_followed() -> None:
    """The ratio before stays, or none; and the problem is known."""
    bad = NodeInputs(slo=TOGETHER, annotations={NORMALIZATION_RATIO: "fast"})
    for previous, ratio in ((FAST, 1.2), (PLAIN, None), (None, None)):
        with pytest.raises(PartialRuleError, match=f"annotation {NORMALIZATION_RATIO}: .*found 'fast'") as caught:
            PLUGIN.rule(bad, previous)
        assert caught.value.rule == BatchRule(quota=False, ratio=ratio)


def test_sums_fit_into_the_number_of_cri() -> None:
    """More memory than there is in the world is still a limit."""
    most = resources(memory=2**63 - 1)
    assert of_pod(pod_of(a=most, b=most))[Parameter.MEMORY_LIMIT] == 2**63 - 1
