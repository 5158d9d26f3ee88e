"""Core scheduling: which containers may run on the two threads of one core at the same time.

A group is a name; all processes of a group share one cookie of the kernel, and only processes with the same cookie meet
on a core. The name is all that is decided here, who makes cookies is elsewhere. Names begin with what kind they are of,
so that nobody gets into a group of another kind by the choice of a label, whatever is in it. A pod in no group is not
wanted to have one, so that its processes go back to cookie 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final

from interpose.core.model.cgroup import KubeQos, Level, Parameter
from interpose.core.model.pod import Pod
from interpose.core.model.qos import QosClass
from interpose.core.model.text import quoted
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext, Wish
from interpose.hooks.server.node.nodeslo import CpuPolicy, CpuQos, NodeSLO
from interpose.hooks.server.plugin import Input, Kernel, NodeInputs, Plugin

GROUP_LABEL: Final = "koordinator.sh/core-sched-group-id"
POLICY_LABEL: Final = "koordinator.sh/core-sched-policy"
EXCLUSIVE: Final = "exclusive"  # a group of the pod's own
NONE: Final = "none"  # no group
_OWN: Final = "pod:"  # followed by the pod's uid
_NAMED: Final = "group:"  # followed by the label; by nothing for the group of pods that name none
_EXPELLER: Final = "expeller "  # before the name of groups whose class pushes others off its cores


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPolicy:
    """How one class is scheduled; `key` is its name in NodeSLO."""

    key: str
    expeller: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSchedRule:
    """How classes are scheduled. A class that is in no table is left alone; SYSTEM is in none."""

    reason: str = ""  # why it is off; empty if it is on
    by_class: Mapping[QosClass, ClassPolicy] = field(default_factory=dict)
    by_kube: Mapping[KubeQos, ClassPolicy] = field(default_factory=dict)  # pods without a class
    sysctls: tuple[tuple[Parameter, int], ...] = ()  # in the order they have to be set

    def policy_of(self, qos: QosClass | None, kube_qos: KubeQos) -> ClassPolicy | None:
        """The policy for a pod; None if it is left alone."""
        return self.by_kube.get(kube_qos) if qos is None else self.by_class.get(qos)


class CoreSchedPlugin(Plugin[CoreSchedRule]):
    """Gives containers the core scheduling group of their pod."""

    name: ClassVar[str] = "CoreSched"
    switch: ClassVar[str] = "core-sched"
    default: ClassVar[bool] = False
    summary: ClassVar[str] = "let only containers of the same group share a core"
    inputs: ClassVar[frozenset[Input]] = frozenset((Input.NODE_SLO, Input.KERNEL))
    # Only a process can have a cookie, so a new container gets it right after its start; what it forks inherits it.
    stages: ClassVar[frozenset[HookPoint]] = frozenset((HookPoint.POST_START_CONTAINER,))
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        {
            Level.NODE: frozenset((Parameter.SCHED_GROUP_IDENTITY, Parameter.SCHED_CORE)),
            # On pods, not on the directory of a class: the kubelet writes shares there, which an idle cgroup refuses,
            # and then cannot start.
            Level.POD: frozenset((Parameter.CPU_IDLE,)),
            Level.SANDBOX: frozenset((Parameter.CORE_SCHED,)),
            Level.CONTAINER: frozenset((Parameter.CORE_SCHED,)),
        }
    )

    def rule(self, node: NodeInputs, previous: CoreSchedRule | None) -> CoreSchedRule:
        """The tables for this NodeSLO on this kernel."""
        slo = node.slo
        if slo is None:
            return CoreSchedRule(reason="there is no NodeSLO yet")
        if slo.cpu_policy is not CpuPolicy.CORE_SCHED:
            return CoreSchedRule(reason=f"policies.cpuPolicy is {slo.cpu_policy}")
        if not (slo.lsr.enable or slo.ls.enable or slo.be.enable):
            return CoreSchedRule(reason="no class has cpuQOS.enable")
        if not node.kernel.core_sched:
            return CoreSchedRule(reason="this kernel has no core scheduling, or the CPUs have no SMT")
        return CoreSchedRule(by_class=_by_class(slo), by_kube=_by_kube(slo), sysctls=_sysctls(node.kernel))

    def group(self, rule: CoreSchedRule, context: GroupContext) -> None:
        """Set the sysctls of the node."""
        for parameter, value in rule.sysctls:
            context.response.set(parameter, value, "policies.cpuPolicy is coreSched")

    def pod(self, rule: CoreSchedRule, context: PodContext) -> None:
        """Idle for classes that shall only have what nobody else wants; a matter of the class, not of the group."""
        policy = rule.policy_of(context.qos, context.kube_qos)
        if policy is not None and policy.idle:
            subject = context.qos or context.kube_qos
            context.response.set(Parameter.CPU_IDLE, 1, f"{subject}: {policy.key}.cpuQOS.schedIdle 1")

    def container(self, rule: CoreSchedRule, context: ContainerContext) -> None:
        """The group of its pod, for containers and for the sandbox alike."""
        policy = rule.policy_of(context.qos, context.kube_qos)
        if policy is None:
            return
        wish = _group_of(context.pod, policy, context.qos or context.kube_qos)
        if wish is not None:
            context.response.set(Parameter.CORE_SCHED, *wish)


def _group_of(pod: Pod, policy: ClassPolicy, subject: str) -> Wish | None:
    """The name of the pod's group; None if it wants none. ValueError if its labels make no sense."""
    policy_label = pod.labels.get(POLICY_LABEL, "")
    label = pod.labels.get(GROUP_LABEL, "")
    group, why = _NAMED + label, f"label {GROUP_LABEL}" if label else "the group of pods that name none"
    if policy_label == NONE:
        return None
    if policy_label == EXCLUSIVE:
        if not pod.uid:  # all such pods together would be in one group, the opposite of what they ask for
            raise ValueError(f"label {POLICY_LABEL}: {EXCLUSIVE!r} needs the uid of the pod, which is not known")
        group, why = _OWN + pod.uid, f"label {POLICY_LABEL} {EXCLUSIVE}"
    elif policy_label:
        raise ValueError(f"label {POLICY_LABEL}: expected {NONE!r} or {EXCLUSIVE!r}, found {quoted(policy_label)}")
    if policy.expeller:
        return Wish(_EXPELLER + group, f"{subject}: {why}, {policy.key}.cpuQOS.coreExpeller")
    return Wish(group, f"{subject}: {why}")


# -- the tables


def _policy(key: str, qos: CpuQos) -> ClassPolicy | None:
    if not qos.enable:
        return None
    return ClassPolicy(key=key, expeller=qos.core_expeller, idle=qos.sched_idle == 1)


def _by_class(slo: NodeSLO) -> dict[QosClass, ClassPolicy]:
    lsr = _policy("lsrClass", slo.lsr)
    rows = {
        QosClass.LSE: lsr,
        QosClass.LSR: lsr,
        QosClass.LS: _policy("lsClass", slo.ls),
        QosClass.BE: _policy("beClass", slo.be),
    }
    return {qos: policy for qos, policy in rows.items() if policy is not None}


def _by_kube(slo: NodeSLO) -> dict[KubeQos, ClassPolicy]:
    ls = _policy("lsClass", slo.ls)
    rows = {
        KubeQos.GUARANTEED: _policy("lsrClass", slo.lsr) or ls,
        KubeQos.BURSTABLE: ls,
        KubeQos.BEST_EFFORT: _policy("beClass", slo.be),
    }
    return {qos: policy for qos, policy in rows.items() if policy is not None}


def _sysctls(kernel: Kernel) -> tuple[tuple[Parameter, int], ...]:
    """Group identity off, then core scheduling on: with both, a kernel that has a group at -1 locks up."""
    found = []
    if kernel.group_identity is not None:
        found.append((Parameter.SCHED_GROUP_IDENTITY, 0))
    if kernel.sched_core is not None:
        found.append((Parameter.SCHED_CORE, 1))
    return tuple(found)
