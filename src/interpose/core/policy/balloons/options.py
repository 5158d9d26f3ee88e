"""Options of the policy balloons: types of balloons, and what holds for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.policy.expressions import Expression
from interpose.core.topology.hints import TopologyHint
from interpose.core.topology.topology import MemoryKind

RESERVED: Final = "reserved"  # containers of the system
DEFAULT: Final = "default"  # containers that no type is for
SYSTEM_NAMESPACE: Final = "kube-system"
UNLIMITED: Final = 0  # as maxCPUs and maxBalloons
NONE_FIT: Final = -1  # as maxCPUs
POD_RESOURCES: Final = "podresourceapi:"  # before the name of a resource, in place of the path of a device


class ComponentCreation(StrEnum):
    """Which components a composite balloon is made of."""

    ALL = "all"  # one of each
    BALANCE = "balance-balloons"  # one, of the type that has the fewest


class ShareLevel(StrEnum):
    """Where idle CPUs are near enough to a balloon to be used by its containers."""

    SYSTEM = "system"
    PACKAGE = "package"
    DIE = "die"
    NUMA = "numa"
    L2_CACHE = "l2cache"
    CORE = "core"
    THREAD = "thread"


class LoadLevel(StrEnum):
    """The part of the machine that a load is heavy for."""

    CORE = "core"
    L2_CACHE = "l2cache"


class CoreType(StrEnum):
    """The kind of cores that a balloon would rather have."""

    EFFICIENT = "efficient"
    PERFORMANCE = "performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadClass:
    """A kind of load, and where balloons with such a load are in each other's way."""

    name: str
    level: LoadLevel
    overloads_in_balloon: bool = False  # overloadsLevelInBalloon: CPUs of one balloon are, too


@dataclass(frozen=True, slots=True, kw_only=True)
class BalloonType:
    """A type of balloons as configured; names of keys of documents are in comments where they differ."""

    name: str
    components: tuple[str, ...] = ()  # types; such a balloon is a composite of them
    component_creation: ComponentCreation | None = None
    namespaces: tuple[str, ...] = ()  # globs
    group_by: str = ""  # a template
    match_expressions: tuple[Expression, ...] = ()
    min_cpus: int = 0
    max_cpus: int = UNLIMITED
    min_balloons: int = 0
    max_balloons: int = UNLIMITED
    memory_types: frozenset[MemoryKind] = frozenset()  # none: any
    pin_memory: bool | None = None  # None: as the policy
    priority: CpuPriority = CpuPriority.HIGH  # allocatorPriority
    spread_on_cores: bool | None = None  # preferSpreadOnPhysicalCores
    balance: bool | None = None  # allocatorTopologyBalancing
    hide_hyperthreads: bool = False
    loads: tuple[str, ...] = ()
    spread_pods: bool = False  # preferSpreadingPods
    per_namespace: bool = False  # preferPerNamespaceBalloon
    prefer_new: bool = False  # preferNewBalloons
    share_idle: ShareLevel | None = None  # shareIdleCPUsInSame
    close_to_devices: tuple[str, ...] = ()  # preferCloseToDevices
    prefer_isolated: bool = False  # preferIsolCpus
    core_type: CoreType | None = None  # preferCoreType
    # For controllers of frequencies, schedulers and interrupts, which there are none of.
    cpu_class: str = ""
    scheduling_class: str = ""
    irq_claim: tuple[str, ...] = ()
    irq_mode: str = ""
    show_containers: bool | None = None  # showContainersInNrt


@dataclass(frozen=True, slots=True, kw_only=True)
class BalloonsOptions:
    """Options of the policy balloons."""

    pin_cpu: bool = True
    pin_memory: bool = True
    reserved_namespaces: tuple[str, ...] = ()  # reservedPoolNamespaces, besides kube-system
    balance: bool = False  # allocatorTopologyBalancing
    spread_on_cores: bool = False  # preferSpreadOnPhysicalCores
    lift_quota: bool = True  # DisableCPUQuotaWithExclusiveCPUs
    types: tuple[BalloonType, ...] = ()  # balloonTypes
    preserve: tuple[Expression, ...] = ()  # preserve.matchExpressions
    load_classes: tuple[LoadClass, ...] = ()
    # Where the devices are that types want to be close to, by path; those that were not found are not here.
    devices: Mapping[str, tuple[TopologyHint, ...]] = field(default_factory=lambda: MappingProxyType({}))
    # As of types.
    idle_cpu_class: str = ""
    cpu_classes: tuple[str, ...] = ()  # names
    scheduling_classes: tuple[str, ...] = ()
    turbo_domain: str = ""
    controllable_interrupts: tuple[str, ...] = ()
    show_containers: bool = False
