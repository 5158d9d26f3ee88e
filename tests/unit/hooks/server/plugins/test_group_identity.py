"""Group identity: who gets which bvt value, and what stands in for it."""

import json

import pytest

from interpose.core.model.cgroup import KubeQos, Level, Parameter
from interpose.core.model.pod import Pod
from interpose.core.model.qos import QOS_LABEL, QosClass
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import GroupContext, PodContext, Wish
from interpose.hooks.server.evaluate import PluginChain
from interpose.hooks.server.node.nodeslo import CpuPolicy, CpuQos, NodeSLO
from interpose.hooks.server.node.rules import PluginRules
from interpose.hooks.server.plugin import Kernel, NodeInputs
from interpose.hooks.server.plugins.group_identity import (
    ANNOTATION,
    Fallback,
    GroupIdentity,
    GroupIdentityRule,
    IdentityBackend,
)

FIRST = CpuQos(enable=True, group_identity=2)
LAST = CpuQos(enable=True, group_identity=-1)
ALL = NodeSLO(lsr=FIRST, ls=FIRST, be=LAST)
BVT = Kernel(parameters=frozenset((Parameter.CPU_BVT, Parameter.CPU_IDLE, Parameter.CPU_SHARES)))
PLAIN = Kernel(parameters=frozenset((Parameter.CPU_IDLE, Parameter.CPU_SHARES)))
PARENTS = {
    KubeQos.GUARANTEED: "/kubepods/pod1",
    KubeQos.BURSTABLE: "/kubepods/burstable/pod1",
    KubeQos.BEST_EFFORT: "/kubepods/besteffort/pod1",
}


def rule_of(slo: NodeSLO | None = ALL, kernel: Kernel = BVT, fallback: Fallback = Fallback.NONE) -> GroupIdentityRule:
    """The rule for these inputs."""
    return GroupIdentity(fallback).rule(NodeInputs(slo=slo, kernel=kernel), None)


def pod_wishes(
    rule: GroupIdentityRule, qos: str = "", kube: KubeQos = KubeQos.BURSTABLE, annotation: str | None = None
) -> dict[Parameter, Wish]:
    """What is wanted of a pod."""
    pod = Pod(
        id="p",
        labels={QOS_LABEL: qos},
        annotations={} if annotation is None else {ANNOTATION: annotation},
        cgroup_parent=PARENTS[kube],
    )
    context = PodContext(request=pod)
    GroupIdentity().pod(rule, context)
    return context.response.wishes


def group_wishes(
    rule: GroupIdentityRule, level: Level, kube: KubeQos | None = None, qos: QosClass | None = None
) -> dict[Parameter, Wish]:
    """What is wanted of the node, a directory or a host application."""
    context = GroupContext(level=level, kube_qos=kube, qos=qos)
    GroupIdentity().group(rule, context)
    return context.response.wishes


# class label (empty: none), class of Kubernetes -> value with everything on, with BE only, with LS only
TABLE = [
    ("LSE", KubeQos.GUARANTEED, 2, 0, 0),
    ("LSR", KubeQos.GUARANTEED, 2, 0, 0),
    ("LS", KubeQos.BURSTABLE, 2, 0, 2),
    ("LS", KubeQos.BEST_EFFORT, 2, 0, 2),
    ("BE", KubeQos.BEST_EFFORT, -1, -1, 0),
    ("BE", KubeQos.BURSTABLE, -1, -1, 0),
    ("SYSTEM", KubeQos.GUARANTEED, 0, 0, 0),
    ("SYSTEM", KubeQos.BEST_EFFORT, 0, 0, 0),
    ("", KubeQos.GUARANTEED, 2, 0, 2),
    ("", KubeQos.BURSTABLE, 2, 0, 2),
    ("", KubeQos.BEST_EFFORT, -1, -1, 0),
    ("nonsense", KubeQos.BEST_EFFORT, -1, -1, 0),
]


@pytest.mark.parametrize(("qos", "kube", "everything", "only_be", "only_ls"), TABLE)
def test_pods_get_the_value_of_their_class(
    qos: str, kube: KubeQos, everything: int, only_be: int, only_ls: int
) -> None:
    """A class that is off has 0; SYSTEM has 0 wherever Kubernetes files it."""
    for slo, expected in ((ALL, everything), (NodeSLO(be=LAST), only_be), (NodeSLO(ls=FIRST), only_ls)):
        wishes = pod_wishes(rule_of(slo), qos, kube)
        assert {parameter: wish.value for parameter, wish in wishes.items()} == {Parameter.CPU_BVT: expected}


def test_a_guaranteed_pod_without_a_class_counts_as_lsr_before_ls() -> None:
    """If both are enabled, with different values."""
    rule = rule_of(NodeSLO(lsr=CpuQos(enable=True, group_identity=1), ls=FIRST))
    assert pod_wishes(rule, "", KubeQos.GUARANTEED)[Parameter.CPU_BVT].value == 1


@pytest.mark.parametrize(
    ("kube", "everything", "only_be"),
    [(KubeQos.GUARANTEED, 0, 0), (KubeQos.BURSTABLE, 2, 0), (KubeQos.BEST_EFFORT, -1, -1)],
)
def test_directories_get_the_value_of_their_class(kube: KubeQos, everything: int, only_be: int) -> None:
    """That of all pods stays at 0."""
    assert group_wishes(rule_of(), Level.QOS, kube)[Parameter.CPU_BVT].value == everything
    assert group_wishes(rule_of(NodeSLO(be=LAST)), Level.QOS, kube)[Parameter.CPU_BVT].value == only_be


@pytest.mark.parametrize(
    ("qos", "value"),
    [(QosClass.LSE, 2), (QosClass.LSR, 2), (QosClass.LS, 2), (QosClass.BE, -1), (QosClass.SYSTEM, 0), (None, 0)],
)
def test_host_applications_get_the_value_of_their_class(qos: QosClass | None, value: int) -> None:
    """One without a class has 0."""
    assert group_wishes(rule_of(), Level.HOST_APP, qos=qos)[Parameter.CPU_BVT].value == value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ({"enable": True, "groupIdentity": -1}, -1),
        ({"groupIdentity": -1}, 0),
        ({"enable": False}, 0),
        ({"enable": False, "groupIdentity": 1}, 0),
        ({"enable": None, "groupIdentity": None}, 0),
        ({}, 0),
        ({"enable": True}, 2),
        ({"enable": True, "groupIdentity": None}, 2),
        ({"ENABLE": True, "groupidentity": 1, "schedIdle": "what is not ours is not read"}, 1),
    ],
)
def test_an_ls_pod_may_say_its_own_value(annotation: object, value: int) -> None:
    """It has to enable it as well."""
    assert pod_wishes(rule_of(), "LS", annotation=json.dumps(annotation))[Parameter.CPU_BVT].value == value


@pytest.mark.parametrize("annotation", ['{"enable":true,"groupIdentity":1}', '{"enable":false}', "{"])
@pytest.mark.parametrize(("qos", "value"), [("LSE", 2), ("LSR", 2), ("BE", -1), ("SYSTEM", 0), ("", 2)])
def test_the_annotation_is_for_ls_pods_only(qos: str, value: int, annotation: str) -> None:
    """Others have the value of their class, and nobody looks whether their annotation makes sense."""
    wishes = pod_wishes(rule_of(), qos, annotation=annotation)
    assert wishes == pod_wishes(rule_of(), qos)
    assert wishes[Parameter.CPU_BVT].value == value


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        ('{"enable":true,"groupIdentity":3}', "groupIdentity: expected a number from -1 to 2, found '3'"),
        ('{"groupIdentity":-2}', "groupIdentity: expected a number from -1 to 2, found '-2'"),
        ('{"groupIdentity":1.5}', "groupIdentity: expected a whole number, found a number with a fraction ('1.5')"),
        ('{"groupIdentity":"1"}', "groupIdentity: expected a whole number, found text ('1')"),
        ('{"enable":"yes"}', "enable: expected true or false, found text ('yes')"),
        ("[]", "expected a group of keys, found a list"),
        ("", "is empty"),
        ('{"enable":', "is not valid JSON"),
        (" " * 20_000, "has 20000 characters, more than 16384"),
    ],
)
def test_an_annotation_that_makes_no_sense_is_an_error(annotation: str, said: str) -> None:
    """Which names annotation, key and value."""
    with pytest.raises(ValueError) as caught:
        pod_wishes(rule_of(), "LS", annotation=annotation)
    assert str(caught.value).startswith(f"annotation {ANNOTATION}")
    assert said in str(caught.value)


def test_reasons_name_what_decided() -> None:
    """The class, and the key in NodeSLO or the annotation."""
    rule = rule_of(NodeSLO(ls=FIRST, be=LAST))
    own = '{"enable":true,"groupIdentity":1}'
    wishes = [
        pod_wishes(rule, "LS"),
        pod_wishes(rule, "LSE"),
        pod_wishes(rule, "", KubeQos.GUARANTEED),
        pod_wishes(rule, "SYSTEM"),
        pod_wishes(rule, "LS", annotation=own),
        pod_wishes(rule, "LS", annotation="{}"),
        group_wishes(rule, Level.QOS, KubeQos.BEST_EFFORT),
        group_wishes(rule, Level.QOS, KubeQos.GUARANTEED),
        group_wishes(rule, Level.HOST_APP),
    ]
    assert [each[Parameter.CPU_BVT].why for each in wishes] == [
        "LS: lsClass.cpuQOS.groupIdentity 2",
        "LSE: lsrClass.cpuQOS is off",
        "Guaranteed: lsClass.cpuQOS.groupIdentity 2",
        "SYSTEM: always 0",
        "annotation koordinator.sh/cpuQOS",
        "annotation koordinator.sh/cpuQOS, not enabled",
        "directory of BestEffort: beClass.cpuQOS.groupIdentity -1",
        "directory of all pods: always 0",
        "a host application without a QoS class: always 0",
    ]


@pytest.mark.parametrize(
    ("slo", "kernel", "reason"),
    [
        (None, BVT, "there is no NodeSLO yet"),
        (NodeSLO(), BVT, "no class has cpuQOS.enable"),
        (NodeSLO(cpu_policy=CpuPolicy.CORE_SCHED, be=LAST), BVT, "policies.cpuPolicy is coreSched"),
        (ALL, PLAIN, "this kernel has no cpu.bvt_warp_ns, and nothing was chosen instead"),
    ],
)
def test_off_means_no_wish_at_all(slo: NodeSLO | None, kernel: Kernel, reason: str) -> None:
    """What was set is put back by others; an annotation nobody acts on is no error."""
    rule = rule_of(slo, kernel)
    assert (rule.backend, rule.reason, rule.enable) == (IdentityBackend.OFF, reason, False)
    assert pod_wishes(rule, "LS", annotation="{") == {}
    assert group_wishes(rule, Level.NODE) == {}
    assert group_wishes(rule, Level.QOS, KubeQos.BEST_EFFORT) == {}


@pytest.mark.parametrize(
    ("group_identity", "sched_core", "expected"),
    [
        (None, None, []),
        (0, None, [(Parameter.SCHED_GROUP_IDENTITY, 1)]),
        (1, 1, [(Parameter.SCHED_CORE, 0), (Parameter.SCHED_GROUP_IDENTITY, 1)]),
        (None, 0, [(Parameter.SCHED_CORE, 0)]),
    ],
)
def test_the_nodes_switches_are_set_where_they_exist(
    group_identity: int | None, sched_core: int | None, expected: list[tuple[Parameter, int]]
) -> None:
    """Core scheduling goes off before group identity goes on."""
    kernel = Kernel(parameters=BVT.parameters, group_identity=group_identity, sched_core=sched_core)
    wishes = group_wishes(rule_of(kernel=kernel), Level.NODE)
    assert [(parameter, wish.value) for parameter, wish in wishes.items()] == expected


def test_the_switch_of_the_node_is_a_sign_of_support() -> None:
    """Also when no cgroup with the file was found yet."""
    assert rule_of(kernel=Kernel(group_identity=0)).backend is IdentityBackend.BVT


def test_support_is_looked_at_each_time() -> None:
    """The file may appear with the first pod."""
    plugin = GroupIdentity()
    before = plugin.rule(NodeInputs(slo=ALL), None)
    after = plugin.rule(NodeInputs(slo=ALL, kernel=BVT), before)
    assert (before.backend, after.backend) == (IdentityBackend.OFF, IdentityBackend.BVT)


@pytest.mark.parametrize(
    ("fallback", "parameter", "value"),
    [(Fallback.IDLE, Parameter.CPU_IDLE, 1), (Fallback.SHARES, Parameter.CPU_SHARES, 2)],
)
def test_without_bvt_pods_can_be_put_last_by_other_means(fallback: Fallback, parameter: Parameter, value: int) -> None:
    """Those with -1, on the pod and nowhere else."""
    kernel = Kernel(parameters=PLAIN.parameters, sched_core=1)
    rule = rule_of(kernel=kernel, fallback=fallback)
    why = "beClass.cpuQOS.groupIdentity -1; in place of cpu.bvt_warp_ns"
    assert pod_wishes(rule, "BE") == {parameter: Wish(value, f"BE: {why}")}
    assert pod_wishes(rule, "", KubeQos.BEST_EFFORT) == {parameter: Wish(value, f"BestEffort: {why}")}
    assert set(pod_wishes(rule, "LS", annotation='{"enable":true,"groupIdentity":-1}')) == {parameter}
    assert pod_wishes(rule, "LS") == {}
    assert group_wishes(rule, Level.NODE) == {}
    assert group_wishes(rule, Level.QOS, KubeQos.BEST_EFFORT) == {}
    assert group_wishes(rule, Level.HOST_APP, qos=QosClass.BE) == {}


@pytest.mark.parametrize("fallback", Fallback)
def test_bvt_comes_before_what_was_chosen_instead(fallback: Fallback) -> None:
    """A choice for kernels without it does nothing on kernels with it."""
    assert rule_of(fallback=fallback) == rule_of()


def test_a_fallback_needs_the_kernel_as_well() -> None:
    """And says what is missing."""
    rule = rule_of(kernel=Kernel(), fallback=Fallback.IDLE)
    assert rule.reason == "this kernel has no cpu.bvt_warp_ns, and no cpu.idle either"


@pytest.mark.parametrize("fallback", Fallback)
@pytest.mark.parametrize("kernel", [BVT, PLAIN, Kernel(group_identity=0, sched_core=1)])
def test_only_what_is_listed_is_set(fallback: Fallback, kernel: Kernel) -> None:
    """The runner finds nothing to complain about."""
    rules = PluginRules(by_plugin={"GroupIdentity": rule_of(kernel=kernel, fallback=fallback)})
    hooks = PluginChain([GroupIdentity(fallback)], rules)
    verdicts = [hooks.group(GroupContext(level=Level.NODE)), hooks.group(GroupContext(level=Level.HOST_APP))]
    verdicts += [hooks.group(GroupContext(level=Level.QOS, kube_qos=kube)) for kube in KubeQos]
    verdicts += [hooks.pod(PodContext(request=Pod(id="p", cgroup_parent=parent))) for parent in PARENTS.values()]
    assert [verdict.failures for verdict in verdicts] == [[]] * len(verdicts)


def test_it_is_asked_again_when_the_cgroup_of_the_pod_exists() -> None:
    """A sandbox that is only asked for has none yet."""
    assert GroupIdentity.stages == {HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER}
