"""Core scheduling: which group a pod is in."""

import pytest

from interpose.core.model.cgroup import KubeQos, Level, Parameter
from interpose.core.model.pod import Container, Pod
from interpose.core.model.qos import QOS_LABEL
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext, Wish
from interpose.hooks.server.evaluate import PluginChain
from interpose.hooks.server.node.nodeslo import CpuPolicy, CpuQos, NodeSLO
from interpose.hooks.server.node.rules import PluginRules
from interpose.hooks.server.plugin import Kernel, NodeInputs
from interpose.hooks.server.plugins.core_sched import GROUP_LABEL, POLICY_LABEL, CoreSchedPlugin, CoreSchedRule

EXPELLER = CpuQos(enable=True, core_expeller=True)
MEEK = CpuQos(enable=True)
IDLE = CpuQos(enable=True, sched_idle=1)
OFF = CpuQos()
ALL = NodeSLO(cpu_policy=CpuPolicy.CORE_SCHED, lsr=EXPELLER, ls=EXPELLER, be=MEEK)
KERNEL = Kernel(core_sched=True)
PARENTS = {
    KubeQos.GUARANTEED: "/kubepods/pod1",
    KubeQos.BURSTABLE: "/kubepods/burstable/pod1",
    KubeQos.BEST_EFFORT: "/kubepods/besteffort/pod1",
}


def rule_of(slo: NodeSLO | None = ALL, kernel: Kernel = KERNEL) -> CoreSchedRule:
    """The rule for these inputs."""
    return CoreSchedPlugin().rule(NodeInputs(slo=slo, kernel=kernel), None)


def policy(*, lsr: CpuQos = OFF, ls: CpuQos = OFF, be: CpuQos = OFF) -> CoreSchedRule:
    """The rule for these classes."""
    return rule_of(NodeSLO(cpu_policy=CpuPolicy.CORE_SCHED, lsr=lsr, ls=ls, be=be))


def pod_of(qos: str = "", kube: KubeQos = KubeQos.BURSTABLE, uid: str = "uid-1", **labels: str) -> Pod:
    """A pod with labels `group` and `policy`."""
    names = {"group": GROUP_LABEL, "policy": POLICY_LABEL}
    named = {names[name]: value for name, value in labels.items()}
    return Pod(id="p", uid=uid, labels={QOS_LABEL: qos, **named}, cgroup_parent=PARENTS[kube])


def wish_of(rule: CoreSchedRule, pod: Pod, level: Level = Level.CONTAINER) -> Wish | None:
    """What is wanted of a container of a pod."""
    context = ContainerContext(pod=pod, request=Container(id="c"), level=level)
    CoreSchedPlugin().container(rule, context)
    assert set(context.response.wishes) <= {Parameter.CORE_SCHED}
    return context.response.wishes.get(Parameter.CORE_SCHED)


def group_of(rule: CoreSchedRule, pod: Pod) -> object:
    """The group of a pod; None if it has none."""
    wish = wish_of(rule, pod)
    return None if wish is None else wish.value


def idle_of(rule: CoreSchedRule, pod: Pod) -> Wish | None:
    """What is wanted of cpu.idle of a pod."""
    context = PodContext(request=pod)
    CoreSchedPlugin().pod(rule, context)
    return context.response.wishes.get(Parameter.CPU_IDLE)


@pytest.mark.parametrize(
    ("pod", "koordlet", "ours"),
    [
        (pod_of("LS"), "-expeller", "expeller group:"),
        (pod_of("BE"), "", "group:"),
        (pod_of("BE", group="a"), "a", "group:a"),
        (pod_of("LS", group="a"), "a-expeller", "expeller group:a"),
        (pod_of("LSR", policy="exclusive"), "uid-1-expeller", "expeller pod:uid-1"),
        (pod_of("BE", policy="exclusive", group="a"), "uid-1", "pod:uid-1"),
        (pod_of("LS", policy="", group="a"), "a-expeller", "expeller group:a"),
        (pod_of("LS", policy="none"), None, None),
        (pod_of("BE", policy="none", group="a"), None, None),
    ],
)
def test_labels_and_class_name_the_group(pod: Pod, koordlet: str | None, ours: str | None) -> None:
    """The empty label is a group as well, none is none. Without our marks the names are those of koordlet."""
    found = group_of(rule_of(), pod)
    assert found == ours
    if found is not None:
        suffix = "-expeller" if str(found).startswith("expeller ") else ""
        found = str(found).removeprefix("expeller ").partition(":")[2] + suffix
    assert found == koordlet


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # koordlet has one name for both of each line, so that they share cores.
        (pod_of("LS", policy="exclusive"), pod_of("LS", group="uid-1", uid="uid-2")),
        (pod_of("LS", policy="exclusive"), pod_of("BE", group="uid-1-expeller", uid="uid-2")),
        (pod_of("LS", group="shop"), pod_of("BE", group="shop-expeller")),
        (pod_of("LS"), pod_of("BE", group="-expeller")),
        # No label can be like this in Kubernetes, and not every runtime is used by Kubernetes.
        (pod_of("LS", group="shop"), pod_of("BE", group="expeller group:shop")),
        (pod_of("BE", policy="exclusive"), pod_of("BE", group="pod:uid-1", uid="uid-2")),
    ],
)
def test_no_label_leads_into_a_group_of_another_kind(one: Pod, other: Pod) -> None:
    """Neither into the one that a pod has alone, nor into that of another class."""
    assert group_of(rule_of(), one) != group_of(rule_of(), other)


@pytest.mark.parametrize(
    ("qos", "kube", "everything", "without_lsr", "only_be"),
    [
        ("LSE", KubeQos.GUARANTEED, "expeller group:", None, None),
        ("LSR", KubeQos.GUARANTEED, "expeller group:", None, None),
        ("LS", KubeQos.BEST_EFFORT, "expeller group:", "expeller group:", None),
        ("BE", KubeQos.BURSTABLE, "group:", None, "group:"),
        ("SYSTEM", KubeQos.BURSTABLE, None, None, None),
        ("", KubeQos.GUARANTEED, "expeller group:", "expeller group:", None),
        ("", KubeQos.BURSTABLE, "expeller group:", "expeller group:", None),
        ("", KubeQos.BEST_EFFORT, "group:", None, "group:"),
    ],
)
def test_only_pods_of_enabled_classes_have_a_group(
    qos: str, kube: KubeQos, everything: str | None, without_lsr: str | None, only_be: str | None
) -> None:
    """SYSTEM is never one of them; without a class that of Kubernetes decides."""
    pod = pod_of(qos, kube)
    assert group_of(rule_of(), pod) == everything
    assert group_of(policy(ls=EXPELLER), pod) == without_lsr
    assert group_of(policy(be=MEEK), pod) == only_be


def test_the_sandbox_is_in_the_group_of_its_pod() -> None:
    """Under the same name as the containers."""
    pod = pod_of("LS", group="a")
    assert wish_of(rule_of(), pod, Level.SANDBOX) == wish_of(rule_of(), pod) is not None


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (pod_of("BE"), "BE: the group of pods that name none"),
        (pod_of("", group="a"), "Burstable: label koordinator.sh/core-sched-group-id, lsClass.cpuQOS.coreExpeller"),
        (pod_of("BE", policy="exclusive"), "BE: label koordinator.sh/core-sched-policy exclusive"),
    ],
)
def test_reasons_name_what_decided(pod: Pod, why: str) -> None:
    """The class, the label, and the key in NodeSLO."""
    wish = wish_of(rule_of(), pod)
    assert wish is not None
    assert wish.why == why


def test_an_unknown_policy_is_an_error() -> None:
    """A pod with a typing error must not end up with strangers on its core."""
    with pytest.raises(ValueError, match=r"label koordinator\.sh/core-sched-policy: expected .* found 'exclusiv'"):
        group_of(rule_of(), pod_of("LS", policy="exclusiv"))


def test_a_group_of_its_own_needs_a_uid() -> None:
    """Two pods whose uid is unknown would share it."""
    with pytest.raises(ValueError, match=r"core-sched-policy: 'exclusive' needs the uid of the pod"):
        group_of(rule_of(), pod_of("LS", policy="exclusive", uid=""))


@pytest.mark.parametrize(
    ("qos", "kube", "why"),
    [
        ("BE", KubeQos.BURSTABLE, "BE: beClass.cpuQOS.schedIdle 1"),
        ("", KubeQos.BEST_EFFORT, "BestEffort: beClass.cpuQOS.schedIdle 1"),
        ("LS", KubeQos.BURSTABLE, None),
        ("SYSTEM", KubeQos.BEST_EFFORT, None),
    ],
)
def test_idle_is_set_on_pods_of_the_class(qos: str, kube: KubeQos, why: str | None) -> None:
    """Where it is 1; others keep what they have."""
    expected = None if why is None else Wish(1, why)
    assert idle_of(policy(ls=EXPELLER, be=IDLE), pod_of(qos, kube)) == expected


def test_a_pod_without_a_group_can_be_idle() -> None:
    """One is about who shares a core, the other about who gets it."""
    pod = pod_of("BE", policy="none")
    assert group_of(policy(be=IDLE), pod) is None
    assert idle_of(policy(be=IDLE), pod) is not None


@pytest.mark.parametrize(
    ("slo", "kernel", "reason"),
    [
        (None, KERNEL, "there is no NodeSLO yet"),
        (NodeSLO(ls=EXPELLER), KERNEL, "policies.cpuPolicy is groupIdentity"),
        (NodeSLO(cpu_policy=CpuPolicy.CORE_SCHED), KERNEL, "no class has cpuQOS.enable"),
        (ALL, Kernel(sched_core=0), "this kernel has no core scheduling, or the CPUs have no SMT"),
    ],
)
def test_off_means_no_wish_at_all(slo: NodeSLO | None, kernel: Kernel, reason: str) -> None:
    """What was set is put back by others; labels nobody acts on are no error."""
    rule = rule_of(slo, kernel)
    node = GroupContext(level=Level.NODE)
    CoreSchedPlugin().group(rule, node)
    assert rule.reason == reason
    assert node.response.wishes == {}
    assert group_of(rule, pod_of("LS", policy="nonsense")) is None
    assert idle_of(rule, pod_of("BE")) is None


@pytest.mark.parametrize(
    ("group_identity", "sched_core", "expected"),
    [
        (None, None, []),
        (None, 0, [(Parameter.SCHED_CORE, 1)]),
        (1, 0, [(Parameter.SCHED_GROUP_IDENTITY, 0), (Parameter.SCHED_CORE, 1)]),
        (0, None, [(Parameter.SCHED_GROUP_IDENTITY, 0)]),
    ],
)
def test_the_nodes_switches_are_set_where_they_exist(
    group_identity: int | None, sched_core: int | None, expected: list[tuple[Parameter, int]]
) -> None:
    """Group identity goes off before core scheduling goes on."""
    kernel = Kernel(core_sched=True, group_identity=group_identity, sched_core=sched_core)
    node = GroupContext(level=Level.NODE)
    CoreSchedPlugin().group(rule_of(kernel=kernel), node)
    assert [(parameter, wish.value) for parameter, wish in node.response.wishes.items()] == expected


def test_only_what_is_listed_is_set() -> None:
    """The runner finds nothing to complain about, and does not ask about directories at all."""
    slo = NodeSLO(cpu_policy=CpuPolicy.CORE_SCHED, lsr=IDLE, ls=IDLE, be=IDLE)
    kernel = Kernel(core_sched=True, group_identity=1, sched_core=0)
    hooks = PluginChain([CoreSchedPlugin()], PluginRules(by_plugin={"CoreSched": rule_of(slo, kernel)}))
    pod = pod_of("BE")
    directory = hooks.group(GroupContext(level=Level.QOS, kube_qos=KubeQos.BEST_EFFORT))
    verdicts = [hooks.group(GroupContext(level=Level.NODE)), hooks.pod(PodContext(request=pod))]
    for level in (Level.SANDBOX, Level.CONTAINER):
        verdicts.append(hooks.container(ContainerContext(pod=pod, request=Container(id="c"), level=level)))
    assert [(len(verdict.values), verdict.failures) for verdict in verdicts] == [(2, []), (1, []), (1, []), (1, [])]
    assert (directory.values, directory.failures) == ({}, [])


def test_it_is_asked_when_there_are_processes() -> None:
    """Right after the start, not at the next round of somebody."""
    assert CoreSchedPlugin.stages == {HookPoint.POST_START_CONTAINER}
