"""Pods on resources that others leave over: batch and mid amounts become shares, CPU quota and memory limit.

CRI knows nothing of these amounts, so without this plugin such a container has neither weight nor limit. They come in
an annotation; what it does not mention is not touched. Only pods of class BE get values themselves: others may have
ordinary containers beside such ones, of which nothing is known here and which the sum of the listed ones would starve.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

from interpose.core.model.cgroup import PERIOD, UNLIMITED, Level, Parameter, Special, quota_of, scaled_quota, shares_of
from interpose.core.model.qos import QosClass
from interpose.core.model.quantity import MAX_QUANTITY
from interpose.core.model.resources import LinuxResources
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.server.context import ContainerContext, PodContext, Response
from interpose.hooks.server.node.nodeslo import SuppressPolicy
from interpose.hooks.server.plugin import Input, NodeInputs, PartialRuleError, Plugin
from interpose.hooks.server.pods.pod_annotations import (
    EXTENDED_RESOURCES,
    ColocatedAmounts,
    colocated_amounts,
    extended_resources,
    normalization_ratio,
)

_SOURCE: Final = f"in annotation {EXTENDED_RESOURCES}"
_SERVED: Final = frozenset((Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.MEMORY_LIMIT))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRule:
    """Whether such pods have quotas at all, and how fast the node's CPUs are; None if nobody says so."""

    quota: bool = True
    ratio: float | None = None


class BatchResource(Plugin[BatchRule]):
    """Decides `cpu.shares`, `cpu.cfs_quota_us` and `memory.limit_in_bytes` of pods with batch or mid resources."""

    name: ClassVar[str] = "BatchResource"
    switch: ClassVar[str] = "batch-resource"
    default: ClassVar[bool] = True
    summary: ClassVar[str] = "CPU weight, CPU limit and memory limit of pods with batch or mid resources"
    inputs: ClassVar[frozenset[Input]] = frozenset((Input.NODE_SLO, Input.NODE_METADATA))
    stages: ClassVar[frozenset[HookPoint]] = frozenset(
        (HookPoint.PRE_RUN_POD_SANDBOX, HookPoint.PRE_CREATE_CONTAINER, HookPoint.PRE_UPDATE_CONTAINER_RESOURCES)
    )
    serves: ClassVar[Mapping[Level, frozenset[Parameter]]] = MappingProxyType(
        {Level.POD: _SERVED, Level.CONTAINER: _SERVED}
    )

    def rule(self, node: NodeInputs, previous: BatchRule | None) -> BatchRule:
        """No quotas while best-effort pods are limited together, by a quota on their common directory."""
        slo = node.slo
        together = slo is not None and slo.suppress_enabled and slo.suppress_policy is SuppressPolicy.CFS_QUOTA
        in_force = previous.ratio if previous is not None else None
        try:
            ratio = normalization_ratio(node.annotations, in_force)
        except ValueError as error:
            raise PartialRuleError(BatchRule(quota=not together, ratio=in_force), str(error)) from None
        return BatchRule(quota=not together, ratio=ratio)

    def pod(self, rule: BatchRule, context: PodContext) -> None:
        """What its containers need at the same time; it has a limit only if each of them has one."""
        if context.qos is not QosClass.BE:
            return
        pod = context.request
        listed = extended_resources(pod.annotations).values()
        parts = [
            (part, resources.init)
            for resources in listed
            if (part := colocated_amounts(context.qos, resources)) is not None
        ]
        if parts:
            cpu, memory = _overhead(pod.overhead)
            total = ColocatedAmounts(
                cpu_request=_concurrent_sum([(part.cpu_request, init) for part, init in parts]),
                cpu_limit=_limit([(part.cpu_limit, init) for part, init in parts], cpu),
                memory_limit=_limit([(part.memory_limit, init) for part, init in parts], memory),
            )
            _set(context.response, rule, total, pod.resources.cpu_period)

    def container(self, rule: BatchRule, context: ContainerContext) -> None:
        """What the annotation says about this container."""
        extended = extended_resources(context.annotations).get(context.request.name)
        part = colocated_amounts(context.qos, extended) if extended is not None else None
        if part is not None:
            _set(context.response, rule, part, context.request.requested.cpu_period)


def _set(response: Response, rule: BatchRule, amounts: ColocatedAmounts, period: int) -> None:
    quota, why = _quota(rule, amounts.cpu_limit, period if period > 0 else PERIOD)
    response.set(Parameter.CPU_SHARES, shares_of(amounts.cpu_request), f"CPU request {amounts.cpu_request}m {_SOURCE}")
    response.set(Parameter.CPU_QUOTA, quota, why)
    if amounts.memory_limit:
        response.set(Parameter.MEMORY_LIMIT, amounts.memory_limit, f"memory limit {_SOURCE}")
    else:
        response.set(Parameter.MEMORY_LIMIT, UNLIMITED, f"no memory limit {_SOURCE}")


def _quota(rule: BatchRule, limit: int, period: int) -> tuple[int | Special, str]:
    if not rule.quota:
        return UNLIMITED, "cpuSuppressPolicy cfsQuota: best-effort pods are limited together"
    if not limit:
        return UNLIMITED, f"no CPU limit {_SOURCE}"
    quota, why = quota_of(limit, period), f"CPU limit {limit}m {_SOURCE}"
    if rule.ratio is None or rule.ratio <= 1:
        return quota, why
    return scaled_quota(quota, rule.ratio), f"{why}, on CPUs {rule.ratio:g} times as fast"


def _concurrent_sum(amounts: Sequence[tuple[int, bool]]) -> int:
    """The most that is needed at one time, as Kubernetes counts; of containers in the order of their start.

    An init container runs beside those before it that stay, and is gone when the next one starts.
    """
    staying = most = 0
    for amount, init in amounts:
        most = max(most, staying + amount)
        staying += 0 if init else amount
    return most


def _limit(limits: Sequence[tuple[int, bool]], overhead: int) -> int:
    """The limit of all; none if one of them has none."""
    return min(_concurrent_sum(limits) + overhead, MAX_QUANTITY) if all(limit for limit, _ in limits) else 0


def _overhead(resources: LinuxResources) -> tuple[int, int]:
    """What the pod itself needs besides its containers: thousandths of a CPU, and bytes."""
    quota, period = resources.cpu_quota, resources.cpu_period if resources.cpu_period > 0 else PERIOD
    return max(-(-quota * 1000 // period), 0), max(resources.memory_limit_in_bytes, 0)
