"""Requests and limits as the kernel counts them: shares, quota, bytes, OOM scores; and the sums over a pod. Pure.

The formulas are the kubelet's. A sidecar runs beside all that is started after it, so an init container needs its own
amounts and those of the sidecars before it; a pod needs the most of what it needs at any time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Final

from interpose.core.model.cgroup import PERIOD, KubeQos, Special, quota_of, shares_of
from interpose.core.model.quantity import milli, parse_quantity, whole
from interpose.core.model.resources import NO_RESOURCES, LinuxResources
from interpose.node.pods.cri_config.qos import is_sidecar, pod_qos, requested
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements, RestartPolicy, no_amounts

GUARANTEED: Final = -997
BEST_EFFORT: Final = 1000
_LOWEST_BURSTABLE: Final = BEST_EFFORT + GUARANTEED  # a Guaranteed pod that uses everything is still killed after it
_NODE_CRITICAL: Final = "system-node-critical"
HUGE_PAGES: Final = "hugepages-"
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
_NONE: Final = Fraction(0)
# What a container of cgroup v2 has besides: all of it is killed when it runs out of memory, none of it is protected.
_UNIFIED: Final[Mapping[str, str]] = MappingProxyType({"memory.oom.group": "1", "memory.min": "0", "memory.low": "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRules:
    """What of the node bears on the numbers. `swap`: whether the kernel can limit it."""

    memory: int  # bytes of the node
    cgroup_version: int = 1
    cpu_quota: bool = True
    period: int = PERIOD
    hugepage_sizes: tuple[str, ...] = ()
    swap: bool = False


def container_linux_resources(pod: PodSpec, container: ContainerSpec, rules: ResourceRules) -> LinuxResources:
    """What a container is given. A limit that it does not have is the pod's, if that has one."""
    own, of_pod = container.resources, pod.resources or ResourceRequirements()
    memory = whole(own.limits.get("memory", of_pod.limits.get("memory", _NONE)))
    limit = own.limits.get("cpu", of_pod.limits.get("cpu", _NONE))
    basic = _linux(own.requests.get("cpu"), limit, memory, rules)
    unified = {**_UNIFIED, **({"memory.swap.max": "0"} if rules.swap else {})} if rules.cgroup_version > 1 else {}
    return LinuxResources(
        cpu_period=basic.cpu_period,
        cpu_quota=basic.cpu_quota,
        cpu_shares=basic.cpu_shares,
        memory_limit_in_bytes=memory,
        # Memory and swap together: as much as memory alone, so no swap.
        memory_swap_limit_in_bytes=memory if rules.swap and rules.cgroup_version == 1 else 0,
        oom_score_adj=oom_score_adj(pod, container, rules.memory),
        hugepage_limits=_huge_pages(own.limits, rules.hugepage_sizes),
        unified=unified,
    )


def pod_linux_resources(pod: PodSpec, rules: ResourceRules) -> LinuxResources:
    """What the pod is given as a whole, without its overhead."""
    limits = pod_limits(pod)
    memory = whole(limits.get("memory", _NONE))
    return _linux(pod_requests(pod).get("cpu"), limits.get("cpu", _NONE), memory, rules)


def overhead_linux_resources(pod: PodSpec, rules: ResourceRules) -> LinuxResources:
    """What the sandbox itself costs: requests and limits are the same for it."""
    if not pod.overhead:
        return NO_RESOURCES
    cpu = pod.overhead.get("cpu", _NONE)
    return _linux(cpu, cpu, whole(pod.overhead.get("memory", _NONE)), rules)


def pod_cgroup_resources(pod: PodSpec, rules: ResourceRules) -> LinuxResources:
    """What the pod's own cgroup allows, its overhead included: a limit only where everything in the pod has one."""
    requests, limits = _sum(pod_requests(pod), pod.overhead), _sum(pod_limits(pod), pod.overhead)
    found = _linux(
        requests.get("cpu", _NONE),
        limits["cpu"] if _limited(pod, "cpu") else _NONE,
        pod_memory_limit(pod),
        rules,
    )
    return found if found.cpu_quota else replace(found, cpu_period=0)


def pod_memory_limit(pod: PodSpec) -> int:
    """Bytes that all of the pod may have together, its overhead included; 0 if something in it has no limit."""
    limits = _sum(pod_limits(pod), pod.overhead)
    return whole(limits.get("memory", _NONE)) if _limited(pod, "memory") else 0


def _limited(pod: PodSpec, name: str) -> bool:
    if pod.resources is not None and pod.resources.limits.get(name):
        return True
    return all(container.resources.limits.get(name) for container in (*pod.init_containers, *pod.containers))


def pod_requests(pod: PodSpec) -> Mapping[str, Fraction]:
    """What the pod asks for, without its overhead."""
    return _with_own(_over_time(pod, _filled), pod.resources, _filled)


def pod_limits(pod: PodSpec) -> Mapping[str, Fraction]:
    """The limits of the pod: sums of those that are given."""
    return _with_own(_over_time(pod, _limits), pod.resources, _limits)


def _linux(request: Fraction | None, limit: Fraction, memory: int, rules: ResourceRules) -> LinuxResources:
    quota = quota_of(milli(limit), rules.period)
    return LinuxResources(
        cpu_shares=shares_of(milli(limit if request is None else request)),
        cpu_period=rules.period if rules.cpu_quota else 0,
        cpu_quota=0 if isinstance(quota, Special) or not rules.cpu_quota else quota,
        memory_limit_in_bytes=memory,
    )


def _filled(resources: ResourceRequirements) -> Mapping[str, Fraction]:
    names = dict.fromkeys((*resources.requests, *resources.limits))
    return {name: requested(resources, name) for name in names}


def _limits(resources: ResourceRequirements) -> Mapping[str, Fraction]:
    return resources.limits


def _over_time(
    pod: PodSpec, amounts: Callable[[ResourceRequirements], Mapping[str, Fraction]]
) -> Mapping[str, Fraction]:
    staying = no_amounts()
    early = no_amounts()
    for container in pod.init_containers:
        own = amounts(container.resources)
        if container.restart_policy is RestartPolicy.ALWAYS:
            staying = _sum(staying, own)
            early = _most(early, staying)
        else:
            early = _most(early, _sum(staying, own))
    later = staying
    for container in pod.containers:
        later = _sum(later, amounts(container.resources))
    return _most(early, later)


def _with_own(
    found: Mapping[str, Fraction],
    own: ResourceRequirements | None,
    amounts: Callable[[ResourceRequirements], Mapping[str, Fraction]],
) -> Mapping[str, Fraction]:
    return {**found, **amounts(own)} if own is not None else found


def _sum(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
    return {name: first.get(name, _NONE) + second.get(name, _NONE) for name in (*first, *second)}


def _most(first: Mapping[str, Fraction], second: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
    return {name: max(first.get(name, _NONE), second.get(name, _NONE)) for name in (*first, *second)}


# -- huge pages


def _huge_pages(limits: Mapping[str, Fraction], sizes: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """One limit for every size that the machine has, 0 where none is given; other sizes cannot be had."""
    wanted = {
        page_size_name(whole(parse_quantity(name.removeprefix(HUGE_PAGES)))): ceil(amount)
        for name, amount in limits.items()
        if name.startswith(HUGE_PAGES)
    }
    return tuple((size, wanted.get(size, 0)) for size in sizes)


def page_size_name(size: int) -> str:
    """The name of a page size as cgroups have it: 2097152 is 2MB."""
    unit = 0
    while size and size % 1024 == 0 and unit < len(_UNITS) - 1:
        size, unit = size // 1024, unit + 1
    return f"{size}{_UNITS[unit]}"


# -- OOM scores


def oom_score_adj(pod: PodSpec, container: ContainerSpec, node_memory: int) -> int:
    """The score of a container on a node with so many bytes of memory."""
    qos = pod_qos(pod)
    if pod.priority_class == _NODE_CRITICAL or qos is KubeQos.GUARANTEED:
        return GUARANTEED
    if qos is KubeQos.BEST_EFFORT:
        return BEST_EFFORT
    extra = _left_over(pod)
    score = _by_request(_memory(container) + extra, node_memory)
    if is_sidecar(pod, container):
        # A sidecar must not go before those it serves.
        score = min(score, _by_request(min(map(_memory, pod.containers)) + extra, node_memory))
    return max(min(score, BEST_EFFORT - 1), _LOWEST_BURSTABLE)


def _by_request(memory: int, node_memory: int) -> int:
    return BEST_EFFORT - BEST_EFFORT * memory // node_memory


def _memory(container: ContainerSpec) -> int:
    return whole(requested(container.resources, "memory"))


def _left_over(pod: PodSpec) -> int:
    """What the pod as a whole asks for beyond its containers, for each of them."""
    if pod.resources is None or not (pod.resources.requests or pod.resources.limits):
        return 0
    containers = (*pod.init_containers, *pod.containers)
    rest = whole(requested(pod.resources, "memory")) - sum(map(_memory, containers))
    return max(rest, 0) // len(containers)
