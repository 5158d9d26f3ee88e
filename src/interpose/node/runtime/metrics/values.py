"""Inputs for the metrics of a pod and of a container. Values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interpose.node.runtime.cgroups.usage import CgroupStats, InterfaceCounters
from interpose.node.runtime.metrics.cgroup_counters import CgroupCounters, HugePages


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCounts:
    """Counts of processes in a container. `states` are threads by cAdvisor's word for their state."""

    processes: int
    threads: int
    descriptors: int
    sockets: int
    states: Mapping[str, int]
    open_files_limit: int | None = None  # the soft limit of its first process


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSpace:
    """The file system that containers write to."""

    device: str  # what is mounted, as /dev/vda1
    number: str  # major:minor
    bytes: int
    inodes: int
    inodes_free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecLimits:
    """Resources in force with CRI's values: 0 is not set, which is no limit."""

    cpu_shares: int = 0
    cpu_period: int = 0
    cpu_quota: int = 0
    memory: int = 0
    memory_and_swap: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerFigures:
    """The figures of a running container. `written` is its disk usage in bytes; `devices` are names by major:minor."""

    now: int  # nanoseconds, as `started_at`
    started_at: int
    used: CgroupStats = field(default_factory=CgroupStats)
    counters: CgroupCounters = field(default_factory=CgroupCounters)
    huge_pages: tuple[HugePages, ...] = ()
    processes: ProcessCounts | None = None
    space: FilesystemSpace | None = None
    written: int | None = None
    limits: SpecLimits = SpecLimits()
    devices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFigures:
    """The figures of a ready pod: the counters of its interfaces."""

    network: Mapping[str, InterfaceCounters] = field(default_factory=dict)
