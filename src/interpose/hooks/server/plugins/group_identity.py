"""Group identity: which pods get a CPU first when both want it, by the kernel's bvt values (2 first, -1 last).

Everything that is decided is in the rule, a table by class; functions look up. While the rule is off nothing is wanted
anywhere, so that whatever was set goes back to what was found. A kernel without bvt gets what the user chose for that
case, and nothing unless somebody chose.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final

from interpose.config.strict_json import Whole, expect
from interpose.core.model.cgroup import MIN_SHARES, KubeQos, Level, Parameter
from interpose.core.model.qos import QosClass
from interpose.core.model.text import quoted
from interpose.errors import ConfigError
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import GroupContext, PodContext, Response, Wish
from interpose.hooks.server.node.nodeslo import CpuPolicy, CpuQos, NodeSLO
from interpose.hooks.server.plugin import Input, Kernel, NodeInputs, Plugin
from interpose.hooks.server.pods.pod_annotations import read_annotation

ANNOTATION: Final = "koordinator.sh/cpuQOS"
LAST: Final = -1  # the value of those who get a CPU only if nobody else wants it
_ALLOWED: Final = ("-1", "0", "1", "2")


class Fallback(StrEnum):
    """What pods with value -1 get on a kernel without bvt. Values are those of the setting."""

    NONE = "none"
    IDLE = "idle"
    SHARES = "shares"


class IdentityBackend(StrEnum):
    """What the kernel is told in."""

    OFF = "off"
    BVT = "bvt"
    IDLE = "idle"
    SHARES = "shares"


# For kernels without bvt: the backend, what it needs, and the value that pods with -1 get.
_FALLBACKS: Final[Mapping[Fallback, tuple[IdentityBackend, Parameter, int]]] = MappingProxyType(
    {
        Fallback.IDLE: (IdentityBackend.IDLE, Parameter.CPU_IDLE, 1),
        Fallback.SHARES: (IdentityBackend.SHARES, Parameter.CPU_SHARES, MIN_SHARES),
    }
)
_LAST_ONLY: Final = MappingProxyType({backend: (parameter, value) for backend, parameter, value in _FALLBACKS.values()})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupIdentityRule:
    """Who gets which bvt value and why, and how the kernel is told. The tables are complete unless it is off."""

    backend: IdentityBackend = IdentityBackend.OFF
    reason: str = ""  # why it is off
    by_class: Mapping[QosClass, Wish] = field(default_factory=dict)
    by_kube: Mapping[KubeQos, Wish] = field(default_factory=dict)  # pods without a class
    by_directory: Mapping[KubeQos, Wish] = field(default_factory=dict)
    sysctls: tuple[tuple[Parameter, int], ...] = ()  # in the order they have to be set

    @property
    def enable(self) -> bool:
        """Whether anything is wanted at all."""
        return self.backend is not IdentityBackend.OFF


class GroupIdentity(Plugin[GroupIdentityRule]):
    """Ranks pods by their class with cpu.bvt_warp_ns."""

    name: ClassVar[str] = "GroupIdentity"
    switch: ClassVar[str] = "group-identity"
    default: ClassVar[bool] = True
    summary: ClassVar[str] = "rank pods by their QoS class: who gets a CPU first when several want it"
    inputs: ClassVar[frozenset[Input]] = frozenset((Input.NODE_SLO, Input.KERNEL))
    # When a pod is run its cgroup may not exist yet; when its first container is created it does.
    stages: ClassVar[frozenset[HookPoint]] = frozenset((HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER))
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        {
            Level.NODE: frozenset((Parameter.SCHED_CORE, Parameter.SCHED_GROUP_IDENTITY)),
            Level.QOS: frozenset((Parameter.CPU_BVT,)),
            Level.HOST_APP: frozenset((Parameter.CPU_BVT,)),
            # Idle and shares never on the directory of a class: the kubelet writes shares there, which an idle
            # cgroup refuses, and then cannot start.
            Level.POD: frozenset((Parameter.CPU_BVT, Parameter.CPU_IDLE, Parameter.CPU_SHARES)),
        }
    )

    def __init__(self, fallback: Fallback = Fallback.NONE) -> None:
        self._fallback = fallback

    def rule(self, node: NodeInputs, previous: GroupIdentityRule | None) -> GroupIdentityRule:
        """The tables for this NodeSLO on this kernel."""
        slo = node.slo
        if slo is None:
            return GroupIdentityRule(reason="there is no NodeSLO yet")
        if slo.cpu_policy is not CpuPolicy.GROUP_IDENTITY:
            return GroupIdentityRule(reason=f"policies.cpuPolicy is {slo.cpu_policy}")
        if not (slo.lsr.enable or slo.ls.enable or slo.be.enable):
            return GroupIdentityRule(reason="no class has cpuQOS.enable")
        backend, reason = self._backend(node.kernel)
        if backend is IdentityBackend.OFF:
            return GroupIdentityRule(reason=reason)
        return GroupIdentityRule(
            backend=backend,
            by_class=_by_class(slo),
            by_kube=_by_kube(slo),
            by_directory=_by_directory(slo),
            sysctls=_sysctls(node.kernel) if backend is IdentityBackend.BVT else (),
        )

    def group(self, rule: GroupIdentityRule, context: GroupContext) -> None:
        """The node's switches, the value of a directory or of a host application; only bvt has those."""
        if rule.backend is not IdentityBackend.BVT:
            return
        if context.level is Level.NODE:
            for parameter, value in rule.sysctls:
                context.response.set(parameter, value, "policies.cpuPolicy is groupIdentity")
        elif context.kube_qos is not None:
            context.response.set(Parameter.CPU_BVT, *rule.by_directory[context.kube_qos])
        else:
            unknown = Wish(0, "a host application without a QoS class: always 0")
            wish = unknown if context.qos is None else rule.by_class[context.qos]
            context.response.set(Parameter.CPU_BVT, *wish)

    def pod(self, rule: GroupIdentityRule, context: PodContext) -> None:
        """The value of a pod: of its class, unless it is LS and says otherwise itself."""
        if not rule.enable:
            return
        wish = rule.by_kube[context.kube_qos] if context.qos is None else rule.by_class[context.qos]
        text = context.request.annotations.get(ANNOTATION)
        if text is not None and context.qos is QosClass.LS:
            wish = _annotation_value(text, wish)
        _set_identity(context.response, rule.backend, wish)

    def _backend(self, kernel: Kernel) -> tuple[IdentityBackend, str]:
        """What to use on this kernel, or why nothing can be used."""
        if Parameter.CPU_BVT in kernel.parameters or kernel.group_identity is not None:
            return IdentityBackend.BVT, ""
        missing = f"this kernel has no {Parameter.CPU_BVT}"
        if self._fallback not in _FALLBACKS:
            return IdentityBackend.OFF, f"{missing}, and nothing was chosen instead"
        backend, needed, _ = _FALLBACKS[self._fallback]
        if needed not in kernel.parameters:
            return IdentityBackend.OFF, f"{missing}, and no {needed} either"
        return backend, ""


def _set_identity(response: Response, backend: IdentityBackend, wish: Wish) -> None:
    if backend is IdentityBackend.BVT:
        response.set(Parameter.CPU_BVT, *wish)
    elif wish.value == LAST:  # what stands in for bvt can only put pods behind, not rank the others
        parameter, value = _LAST_ONLY[backend]
        response.set(parameter, value, f"{wish.why}; in place of {Parameter.CPU_BVT}")


# -- the tables


def _identity(who: str, key: str, qos: CpuQos) -> Wish:
    """The value of a class in NodeSLO."""
    if not qos.enable:
        return Wish(0, f"{who}: {key}.cpuQOS is off")
    return Wish(qos.group_identity, f"{who}: {key}.cpuQOS.groupIdentity {qos.group_identity}")


def _by_class(slo: NodeSLO) -> dict[QosClass, Wish]:
    return {
        QosClass.LSE: _identity("LSE", "lsrClass", slo.lsr),
        QosClass.LSR: _identity("LSR", "lsrClass", slo.lsr),
        QosClass.LS: _identity("LS", "lsClass", slo.ls),
        QosClass.BE: _identity("BE", "beClass", slo.be),
        # The node's own daemons are neither put first nor last, wherever Kubernetes files them.
        QosClass.SYSTEM: Wish(0, "SYSTEM: always 0"),
    }


def _by_kube(slo: NodeSLO) -> dict[KubeQos, Wish]:
    guaranteed = ("lsClass", slo.ls) if slo.ls.enable and not slo.lsr.enable else ("lsrClass", slo.lsr)
    return {
        KubeQos.GUARANTEED: _identity(KubeQos.GUARANTEED, *guaranteed),
        KubeQos.BURSTABLE: _identity(KubeQos.BURSTABLE, "lsClass", slo.ls),
        KubeQos.BEST_EFFORT: _identity(KubeQos.BEST_EFFORT, "beClass", slo.be),
    }


def _by_directory(slo: NodeSLO) -> dict[KubeQos, Wish]:
    return {
        # It holds the other two directories as well.
        KubeQos.GUARANTEED: Wish(0, "directory of all pods: always 0"),
        KubeQos.BURSTABLE: _identity("directory of Burstable", "lsClass", slo.ls),
        KubeQos.BEST_EFFORT: _identity("directory of BestEffort", "beClass", slo.be),
    }


def _sysctls(kernel: Kernel) -> tuple[tuple[Parameter, int], ...]:
    """Core scheduling off, then group identity on: with both, a kernel that has a group at -1 locks up."""
    found = []
    if kernel.sched_core is not None:
        found.append((Parameter.SCHED_CORE, 0))
    if kernel.group_identity is not None:
        found.append((Parameter.SCHED_GROUP_IDENTITY, 1))
    return tuple(found)


# -- the annotation


def _annotation_value(text: str, class_value: Wish) -> Wish:
    """What the annotation of an LS pod says; ValueError if it makes no sense.

    Keys match without regard to case, others are ignored, null is as good as not there. Without `enable` it is 0.
    """
    where = f"annotation {ANNOTATION}"
    fields: dict[str, object] = {}
    try:
        for key, value in read_annotation(text, where).pairs:
            fields[key.lower()] = value
        enable, identity = fields.get("enable"), fields.get("groupidentity")
        if enable is not None:
            expect(enable, f"{where}: enable", bool)
        if identity is not None:
            expect(identity, f"{where}: groupIdentity", Whole)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    if identity is not None and str(identity) not in _ALLOWED:
        raise ValueError(f"{where}: groupIdentity: expected a number from -1 to 2, found {quoted(str(identity))}")
    if not enable:
        return Wish(0, f"{where}, not enabled")
    return class_value if identity is None else Wish(int(str(identity)), where)
