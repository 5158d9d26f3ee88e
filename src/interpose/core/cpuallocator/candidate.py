"""One of the ways there were when CPUs were chosen: kept so that people can see why."""

from dataclasses import dataclass

from interpose.core.model.cpuset import EMPTY, CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One of the ways there were."""

    name: str  # "NUMA node 1", "isolated CPUs", "pool shared"
    cpus: CpuSet = EMPTY
    score: str = ""  # comparable at a glance, best first in the list
    chosen: bool = False
    why: str = ""  # why it was taken or passed over
