"""NodeSLO: the node's co-location policy as typed values. How a document becomes one is in `nodedocument`.

A class that is switched off has neutral values (`NEUTRAL_CPU`), so nobody who reads a value has to ask first.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interpose.core.model.qos import QosClass


class CpuPolicy(StrEnum):
    """Which feature of the kernel ranks classes."""

    GROUP_IDENTITY = "groupIdentity"
    CORE_SCHED = "coreSched"


class SuppressPolicy(StrEnum):
    """How best-effort pods are kept small when the node is busy."""

    CPUSET = "cpuset"
    CFS_QUOTA = "cfsQuota"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuQos:
    """How one class competes for CPU time."""

    enable: bool = False
    group_identity: int = 0  # -1 to 2
    sched_idle: int = 0  # 0 or 1
    core_expeller: bool = False


NEUTRAL_CPU: Final = CpuQos()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostApplication:
    """A program of the node that is no pod. `directory` is its cgroup below the root, without a leading slash."""

    name: str
    qos: QosClass | None = None
    base: str = ""  # CgroupRoot, Kubepods, KubepodsBurstable, KubepodsBesteffort; empty: by its class
    directory: str = ""  # below the base


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSLO:
    """The parts of a NodeSLO that plugins read, with defaults filled in."""

    cpu_policy: CpuPolicy = CpuPolicy.GROUP_IDENTITY
    lsr: CpuQos = NEUTRAL_CPU
    ls: CpuQos = NEUTRAL_CPU
    be: CpuQos = NEUTRAL_CPU
    suppress_enabled: bool = False  # resourceUsedThresholdWithBE.enable
    suppress_policy: SuppressPolicy = SuppressPolicy.CPUSET
    host_applications: tuple[HostApplication, ...] = ()
