"""The options of the policy topology-aware in a document: kinds of values, and what becomes of them. Pure.

Keys that other programs have besides are those of classes of CPUs, of scheduling and of interrupts. They are accepted,
and a warning says that nothing follows from them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from interpose.config.documents.dynamic_pools import Words
from interpose.config.documents.fields import Choice, FieldReader, FlagField, Unread
from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.policy.expressions import glob_problem
from interpose.core.policy.topology_aware.options import PoolLevel, TopologyAwareOptions

# Keys in documents -> names of the options.
TOPOLOGY_AWARE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PinCPU": "pin_cpu",
        "PinMemory": "pin_memory",
        "PreferIsolatedCPUs": "prefer_isolated",
        "PreferSharedCPUs": "prefer_shared",
        "ColocatePods": "colocate_pods",
        "ColocateNamespaces": "colocate_namespaces",
        "ReservedPoolNamespaces": "reserved_namespaces",
        "DefaultCPUPriority": "cpu_priority",
        "UnlimitedBurstable": "unlimited_burstable",
        "DisableCPUQuotaWithExclusiveCPUs": "lift_quota",
    }
)
_WITHOUT_EFFECT: Final = (
    "SchedulingClasses",
    "NamespaceSchedulingClasses",
    "PodQoSSchedulingClasses",
    "CPUClasses",
    "SharedPoolCPUClass",
    "ReservedPoolCPUClass",
    "DefaultExclusiveCPUClass",
    "ControllableInterrupts",
)
_KINDS: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {
        "ReservedPoolNamespaces": Words(),
        "DefaultCPUPriority": Choice({kind.value: kind for kind in CpuPriority}),
        "UnlimitedBurstable": Choice({level.value: level for level in PoolLevel}),
    }
)
TOPOLOGY_AWARE_KEYS: Final[Mapping[str, FieldReader]] = MappingProxyType(
    {key: _KINDS.get(key, FlagField()) for key in TOPOLOGY_AWARE} | dict.fromkeys(_WITHOUT_EFFECT, Unread())
)


def make_topology_aware(values: Mapping[str, Any]) -> TopologyAwareOptions:
    """The options of their keys; ValueError if a namespace is no pattern."""
    options = TopologyAwareOptions(**{TOPOLOGY_AWARE[key]: value for key, value in values.items()})
    if problems := [problem for pattern in options.reserved_namespaces if (problem := glob_problem(pattern))]:
        raise ValueError(f"ReservedPoolNamespaces: {'; '.join(problems)}")
    return options
