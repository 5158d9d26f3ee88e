"""What can be set on a cgroup or on the processes in it: names, values, and the formulas behind the values.

A value is a number, a text, or one of two words: `UNLIMITED` (never a magic -1) and `CLEAR` (take the restriction away
and have what the parent has). "Not wanted" is no value at all. How a value is written on a given kernel is not known
here; see `host.cgroup`.

Also the names systemd gives to parent cgroups (slices).
"""

from collections.abc import Mapping
from enum import Enum, StrEnum
from itertools import pairwise
from math import ceil
from types import MappingProxyType
from typing import Final

from interpose.core.model.resources import LinuxResources

CGROUP_ROOT: Final = "/sys/fs/cgroup"


class Parameter(StrEnum):
    """What can be set. Names are those of cgroup v1 where it has one; the others are ours."""

    CPU_SHARES = "cpu.shares"
    CPU_QUOTA = "cpu.cfs_quota_us"
    CPU_PERIOD = "cpu.cfs_period_us"
    CPU_BURST = "cpu.cfs_burst_us"
    CPU_IDLE = "cpu.idle"
    CPU_BVT = "cpu.bvt_warp_ns"
    CPUSET_CPUS = "cpuset.cpus"
    CPUSET_MEMS = "cpuset.mems"
    MEMORY_LIMIT = "memory.limit_in_bytes"
    OOM_SCORE_ADJ = "oom_score_adj"  # of every process in a container
    CORE_SCHED = "core_sched_group"  # the group whose cookie every process of a container has
    RESCTRL = "resctrl"  # schemata of a group that holds every task of a pod
    SCHED_GROUP_IDENTITY = "kernel.sched_group_identity_enabled"  # of the node
    SCHED_CORE = "kernel.sched_core"  # of the node


class Special(Enum):
    """Values that are neither number nor text."""

    UNLIMITED = "unlimited"
    CLEAR = "clear"

    def __str__(self) -> str:
        return self.value


UNLIMITED: Final = Special.UNLIMITED
CLEAR: Final = Special.CLEAR
Value = int | str | Special


class Level(StrEnum):
    """What a value is set on, from the top of the tree to its leaves."""

    NODE = "node"
    QOS = "qos"  # the directory of a Kubernetes QoS class
    HOST_APP = "host application"
    POD = "pod"
    SANDBOX = "sandbox"  # the container that holds a pod together
    CONTAINER = "container"


class KubeQos(StrEnum):
    """The QoS class of Kubernetes, which decides where a pod is in the tree."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


_PODS: Final = "kubepods"
_SLICE: Final = ".slice"
_CLASSES: Final[Mapping[str, KubeQos]] = MappingProxyType(
    {"besteffort": KubeQos.BEST_EFFORT, "burstable": KubeQos.BURSTABLE}
)


def find_kube_qos(cgroup_parent: str) -> KubeQos | None:
    """The class whose directory a pod is in, by either cgroup driver; None if the path is not one of a kubelet's pods.

    Nothing but the directory below kubepods counts, so no name above or below it can be taken for a class.
    """
    words: list[str] = []
    for part in cgroup_parent.split("/"):
        # The name of a slice is its path: a-b-c.slice is c in b in a.
        words = part.removesuffix(_SLICE).split("-") if part.endswith(_SLICE) else [*words, part]
    for above, below in pairwise(words):
        if above == _PODS and (below in _CLASSES or below.startswith("pod")):
            return _CLASSES.get(below, KubeQos.GUARANTEED)
    return None


def kube_qos_of(cgroup_parent: str) -> KubeQos:
    """The class whose directory a pod is in; one that is in neither of the two is Guaranteed."""
    return find_kube_qos(cgroup_parent) or KubeQos.GUARANTEED


# -- formulas; thousandths of a CPU in, what the kernel counts in out

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262_144
MIN_QUOTA: Final = 1_000  # microseconds; the kernel refuses less
PERIOD: Final = 100_000


def shares_of(milli: int) -> int:
    """CPU shares for so many thousandths of a CPU."""
    return MIN_SHARES if milli <= 0 else min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES)


def quota_of(milli: int, period: int = PERIOD) -> int | Special:
    """CFS quota for so many thousandths of a CPU; none asked for is unlimited."""
    quota = milli * period // 1000
    return UNLIMITED if quota <= 0 else max(quota, MIN_QUOTA)


def scaled_quota(quota: int | Special, ratio: float) -> int | Special:
    """A quota on CPUs that are `ratio` times as fast; never more than before, never less than the kernel takes."""
    if not isinstance(quota, int) or ratio <= 1.0:
        return quota
    return max(ceil(quota / ratio), MIN_QUOTA)


# -- CRI

# What UpdateContainerResources and CreateContainer carry. The OOM score is in the create request only.
CRI_FIELDS: Final[Mapping[Parameter, str]] = MappingProxyType(
    {
        Parameter.CPU_SHARES: "cpu_shares",
        Parameter.CPU_QUOTA: "cpu_quota",
        Parameter.CPUSET_CPUS: "cpuset_cpus",
        Parameter.CPUSET_MEMS: "cpuset_mems",
        Parameter.MEMORY_LIMIT: "memory_limit_in_bytes",
    }
)
# What CreateContainer carries besides.
CREATE_FIELDS: Final[Mapping[Parameter, str]] = MappingProxyType(
    {**CRI_FIELDS, Parameter.OOM_SCORE_ADJ: "oom_score_adj"}
)
_WITH_UNLIMITED: Final = frozenset((Parameter.CPU_QUOTA, Parameter.MEMORY_LIMIT))


def cri_value(resources: LinuxResources, parameter: Parameter) -> Value | None:
    """The value of a parameter in CRI's resources; None if they do not set it."""
    raw: int | str = getattr(resources, CREATE_FIELDS[parameter])
    if parameter is Parameter.OOM_SCORE_ADJ:
        return raw  # zero is a score
    if parameter in _WITH_UNLIMITED and isinstance(raw, int) and raw < 0:
        return UNLIMITED
    return raw or None


def to_cri(parameter: Parameter, value: Value) -> int | str:
    """A value as CRI writes it: -1 for unlimited, empty for a cleared text, zero for a cleared number."""
    if not isinstance(value, Special):
        return value
    if value is UNLIMITED:
        return -1
    return "" if parameter in (Parameter.CPUSET_CPUS, Parameter.CPUSET_MEMS) else 0


SUFFIX: Final = ".slice"


def slice_path(name: str) -> str:
    """Where systemd puts a slice: each dash is a level (`a-b.slice` is `/a.slice/a-b.slice`).

    What is not a name of a slice is returned as it is.
    """
    stem = name.removesuffix(SUFFIX)
    if stem == name or not stem.strip("-"):
        return name
    words = stem.split("-")
    return "".join(f"/{'-'.join(words[: count + 1])}{SUFFIX}" for count in range(len(words)))
