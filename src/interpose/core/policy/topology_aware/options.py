"""Options of the policy topology-aware."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from interpose.core.cpuallocator.priority import CpuPriority


class PoolLevel(StrEnum):
    """A level of the tree of pools, from wide to narrow."""

    SYSTEM = "system"
    PACKAGE = "package"
    DIE = "die"
    NUMA = "numa"
    L3_CACHE = "l3cache"

    @property
    def depth(self) -> int:
        """Its place among the levels: 0 is the widest."""
        return _DEPTHS[self]


_DEPTHS: Final[Mapping[PoolLevel, int]] = MappingProxyType({level: depth for depth, level in enumerate(PoolLevel)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyAwareOptions:
    """Options of the policy topology-aware."""

    pin_cpu: bool = True  # PinCPU
    pin_memory: bool = True  # PinMemory
    prefer_isolated: bool = True  # PreferIsolatedCPUs: for containers that ask for one CPU
    prefer_shared: bool = False  # PreferSharedCPUs: CPUs of one's own on request only
    colocate_pods: bool = False  # ColocatePods: containers of a pod near each other
    colocate_namespaces: bool = False  # ColocateNamespaces
    reserved_namespaces: tuple[str, ...] = ()  # ReservedPoolNamespaces, patterns; kube-system always is
    cpu_priority: CpuPriority = CpuPriority.NONE  # DefaultCPUPriority, of CPUs of one's own
    unlimited_burstable: PoolLevel = PoolLevel.PACKAGE  # UnlimitedBurstable
    lift_quota: bool = True  # DisableCPUQuotaWithExclusiveCPUs
