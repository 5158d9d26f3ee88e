"""Which CPUs containers run on: those the scheduler gave a pod, else the share pool that its class may use.

Lists are normalised unions. A pod that shall share a pool in which no CPU is left is an error, never a pod without
restriction. Nor are CPUs given to everybody because what keeps them from the pools cannot be read: then the pools stay
as they were, and if nobody knows how they were, so does each pod.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, Final

from interpose.core.model.cgroup import CLEAR, UNLIMITED, KubeQos, Level, Parameter
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.qos import QosClass
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext, GroupContext, PodContext, Response, Wish
from interpose.hooks.server.plugin import CpuPool, Input, NodeInputs, PartialRuleError, Plugin
from interpose.hooks.server.pods.pod_annotations import (
    RESOURCE_STATUS,
    SYSTEM_QOS,
    NumaResources,
    ResourceStatus,
    resource_status,
    system_cpuset,
)

_STATIC: Final = "static"  # the kubelet's policy that hands out CPUs itself
_CPU: Final = ("cpu", "kubernetes.io/batch-cpu", "koordinator.sh/batch-cpu")
_MEMORY: Final = ("memory", "kubernetes.io/batch-memory", "koordinator.sh/batch-memory")
# Pods with CPUs of their own; one without a class that has such is treated as LSR.
_OWN_CPUS: Final = frozenset((QosClass.LSE, QosClass.LSR, None))
_SHARING_APPS: Final = frozenset((QosClass.LSE, QosClass.LSR, QosClass.LS))


@dataclass(frozen=True, slots=True, kw_only=True)
class CpusetRule:
    """Share pools by NUMA node, the CPUs of SYSTEM pods, and whether the kubelet hands out CPUs itself."""

    ls: tuple[CpuPool, ...] = ()
    be: tuple[CpuPool, ...] = ()
    system: str = ""
    kubelet_static: bool = False
    unknown: str = ""  # why there are no pools, if somebody could say so


class CpusetPlugin(Plugin[CpusetRule]):
    """Decides `cpuset.cpus`, and takes the CPU quota away from pods whose CPUs nobody else may use."""

    name: ClassVar[str] = "CPUSetAllocator"
    switch: ClassVar[str] = "cpuset"
    default: ClassVar[bool] = True
    summary: ClassVar[str] = "CPUs of the scheduler's choice, or of the share pool of the pod's class"
    inputs: ClassVar[frozenset[Input]] = frozenset((Input.CPU_POOLS, Input.NODE_METADATA))
    # The last two: CPUs that a pod has alone leave the pools of others, and come back to them.
    stages: ClassVar[frozenset[HookPoint]] = frozenset(
        (
            HookPoint.PRE_RUN_POD_SANDBOX,
            HookPoint.PRE_CREATE_CONTAINER,
            HookPoint.PRE_UPDATE_CONTAINER_RESOURCES,
            HookPoint.POST_START_CONTAINER,
            HookPoint.POST_STOP_POD_SANDBOX,
        )
    )
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        {
            Level.CONTAINER: frozenset((Parameter.CPUSET_CPUS, Parameter.CPUSET_MEMS, Parameter.CPU_QUOTA)),
            Level.SANDBOX: frozenset((Parameter.CPUSET_CPUS, Parameter.CPU_QUOTA)),
            Level.POD: frozenset((Parameter.CPU_QUOTA,)),
            Level.HOST_APP: frozenset((Parameter.CPUSET_CPUS,)),
        }
    )

    def __init__(self, *, unset_quota: bool = True, be_cpu_manager: bool = False, numa_mems: bool = False) -> None:
        self._unset_quota = unset_quota
        self._be_cpu_manager = be_cpu_manager
        self._numa_mems = numa_mems

    def rule(self, node: NodeInputs, previous: CpusetRule | None) -> CpusetRule:
        """The pools as they are, or as they were if those cannot be trusted; ValueError if a list in them is none."""
        pools, problems = node.pools, []
        try:
            system = system_cpuset(node.annotations)
        except ValueError as error:
            system = previous.system if previous is not None else ""
            problems.append(str(error))
        if pools.problem:
            problems.append(pools.problem)
            if previous is not None and not previous.unknown:
                rule = replace(previous, system=system)
            else:
                rule = CpusetRule(system=system, unknown=pools.problem)
        else:
            rule = CpusetRule(
                ls=tuple(_normalised(pool) for pool in pools.ls),
                be=tuple(_normalised(pool) for pool in pools.be),
                system=system,
                kubelet_static=pools.cpu_manager_policy == _STATIC,
            )
        if problems:
            raise PartialRuleError(rule, "; ".join(problems))
        return rule

    def group(self, rule: CpusetRule, context: GroupContext) -> None:
        """A host application shares with the pods of its class; one that is BE or of no class is left alone."""
        if context.qos in _SHARING_APPS and _has_pools(rule):
            context.response.wishes[Parameter.CPUSET_CPUS] = _share_pool_value(
                rule.ls, f"{context.qos}: all LS share pools"
            )

    def pod(self, rule: CpusetRule, context: PodContext) -> None:
        """Only the quota: containers have the CPUs."""
        self._lift_quota(resource_status(context.request.annotations), context.response)

    def container(self, rule: CpusetRule, context: ContainerContext) -> None:
        """The CPUs, also of the sandbox container, so that nothing of a pod runs elsewhere."""
        status = resource_status(context.annotations)
        wish = self._cpus(rule, context, status)
        if wish is not None:
            context.response.wishes[Parameter.CPUSET_CPUS] = wish
        self._lift_quota(status, context.response)
        if self._numa_mems and context.level is Level.CONTAINER and status.cpuset and context.qos in _OWN_CPUS:
            nodes = _nodes_with(status.numa, (*_CPU, *_MEMORY))
            if nodes:
                context.response.set(
                    Parameter.CPUSET_MEMS, _format_nodes(nodes), f"NUMA nodes in annotation {RESOURCE_STATUS}"
                )

    def _lift_quota(self, status: ResourceStatus, response: Response) -> None:
        if status.cpuset and self._unset_quota:
            response.set(Parameter.CPU_QUOTA, UNLIMITED, f"has CPUs of its own: annotation {RESOURCE_STATUS}")

    def _cpus(self, rule: CpusetRule, context: ContainerContext, status: ResourceStatus) -> Wish | None:
        """The first of these that applies; the order is the policy."""
        if status.cpuset:
            return Wish(status.cpuset, f"annotation {RESOURCE_STATUS}")
        if not _has_pools(rule):
            return None
        qos = context.qos
        nodes = _nodes_with(status.numa, _CPU)
        if nodes and (qos is not QosClass.BE or self._be_cpu_manager):
            pools, name = (rule.be, "BE") if qos is QosClass.BE else (rule.ls, "LS")
            selected = tuple(pool for pool in pools if pool.node in nodes)
            why = f"{name} share pools of NUMA nodes {_format_nodes(nodes)}: annotation {RESOURCE_STATUS}"
            return _share_pool_value(selected, why)
        if qos is QosClass.SYSTEM and rule.system:
            return Wish(rule.system, f"SYSTEM: annotation {SYSTEM_QOS} of the node")
        if qos is QosClass.LS:
            return _share_pool_value(rule.ls, "LS: all LS share pools")
        if context.kube_qos is KubeQos.BEST_EFFORT:
            # Whatever limits best-effort pods together does it in their parent; a wider set of one's own would collide.
            return Wish(CLEAR, "BestEffort: the CPUs of its parent")
        if rule.kubelet_static:
            return None
        return _share_pool_value(rule.ls, f"{qos or 'no class'}, no CPUs of its own: all LS share pools")


def _has_pools(rule: CpusetRule) -> bool:
    """Whether there are pools; False if nobody knows this node's CPUs (yet). ValueError if something is wrong.

    An error and not just no wish, which would take the restriction off those who have one.
    """
    if rule.unknown:
        raise ValueError(f"the share pools are not known: {rule.unknown}")
    return bool(rule.ls)


def _share_pool_value(pools: tuple[CpuPool, ...], why: str) -> Wish:
    union = EMPTY
    for pool in pools:
        union |= CpuSet.parse(pool.cpus)
    if not union:
        raise ValueError(f"no CPU is left in the share pools; wanted: {why}")
    return Wish(str(union), why)


def _normalised(pool: CpuPool) -> CpuPool:
    try:
        return CpuPool(socket=pool.socket, node=pool.node, cpus=str(CpuSet.parse(pool.cpus)))
    except ValueError as error:
        raise ValueError(f"share pool of NUMA node {pool.node}: {error}") from None


def _nodes_with(numa: tuple[NumaResources, ...], names: tuple[str, ...]) -> frozenset[int]:
    return frozenset(part.node for part in numa if any(part.resources.get(name, Fraction(0)) > 0 for name in names))


def _format_nodes(nodes: frozenset[int]) -> str:
    return str(CpuSet.of(nodes))
