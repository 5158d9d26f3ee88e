"""CPU limits mean the same on every node: on CPUs that are faster than one counts on, quotas are smaller.

The quota is always made of the one that was asked for, never of one that was made smaller before. A node without the
annotation, or with a ratio of at most one, wants nothing: quotas are then what was asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

from interpose.core.model.cgroup import Level, Parameter, scaled_quota
from interpose.core.model.qos import QosClass
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext
from interpose.hooks.server.plugin import Input, NodeInputs, Plugin
from interpose.hooks.server.pods.pod_annotations import (
    NORMALIZATION_RATIO,
    ExtendedResources,
    colocated_amounts,
    extended_resources,
    normalization_ratio,
    resource_status,
)

_CLASSES: Final = frozenset((QosClass.LS, None))
_NOTHING: Final = ExtendedResources()


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalizationRule:
    """How much faster the node's CPUs are; None if nobody says so."""

    ratio: float | None = None


class CpuNormalization(Plugin[NormalizationRule]):
    """Decides `cpu.cfs_quota_us` of containers of LS pods and of pods without a class."""

    name: ClassVar[str] = "CPUNormalization"
    switch: ClassVar[str] = "cpu-normalization"
    summary: ClassVar[str] = "CPU limits that mean the same on fast and slow nodes"
    inputs: ClassVar[frozenset[Input]] = frozenset((Input.NODE_METADATA,))
    stages: ClassVar[frozenset[HookPoint]] = frozenset(
        (HookPoint.PRE_CREATE_CONTAINER, HookPoint.PRE_UPDATE_CONTAINER_RESOURCES)
    )
    # Not of pods: a pod's quota above the sum of its containers' never holds anything back, and one below it makes the
    # kernel refuse the next container.
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        {Level.CONTAINER: frozenset((Parameter.CPU_QUOTA,))}
    )

    def rule(self, node: NodeInputs, previous: NormalizationRule | None) -> NormalizationRule:
        """The ratio of the node's annotation."""
        in_force = previous.ratio if previous is not None else None
        return NormalizationRule(ratio=normalization_ratio(node.annotations, in_force))

    def container(self, rule: NormalizationRule, context: ContainerContext) -> None:
        """A container with a CPU limit, unless its pod has CPUs of its own or its limit is one of another kind."""
        requested = context.request.requested.cpu_quota
        if rule.ratio is None or rule.ratio <= 1 or requested <= 0 or context.qos not in _CLASSES:
            return
        if resource_status(context.annotations).cpuset:
            return
        extended = extended_resources(context.annotations).get(context.request.name, _NOTHING)
        if colocated_amounts(context.qos, extended) is None:
            why = f"{requested} on CPUs {rule.ratio:g} times as fast: annotation {NORMALIZATION_RATIO} of the node"
            context.response.set(Parameter.CPU_QUOTA, scaled_quota(requested, rule.ratio), why)
