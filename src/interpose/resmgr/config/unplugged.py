"""Reserved CPUs that are offline: as many others take their place until they return. Pure.

The system needs room whichever CPUs are there, and a relay that does not start, or goes on giving out CPUs that are
gone, is worse than other CPUs than those that were named. CPUs that the machine does not have at all are a mistake of
whoever wrote them down, and left as they are for the policy to refuse.
"""

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.names import NONE
from interpose.core.topology.topology import Topology
from interpose.resmgr.config.configuration import Configuration


def reserved_now(configuration: Configuration, machine: Topology) -> CpuSet | int | None:
    """What is reserved on a machine: what was said, or as many CPUs if all that were named are offline."""
    named = configuration.reserved
    return 1000 * len(named) if isinstance(named, CpuSet) and _are_gone(named, machine) else named


def unplugged(configuration: Configuration, machine: Topology) -> str:
    """What there is to say about it; nothing if it is as it was said."""
    named = configuration.reserved
    if configuration.policy == NONE or not isinstance(named, CpuSet) or not _are_gone(named, machine):
        return ""
    others = "another CPU is" if len(named) == 1 else f"{len(named)} others are"
    return f"reserved CPUs {named} are offline, {others} reserved until they return"


def _are_gone(named: CpuSet, machine: Topology) -> bool:
    return bool(named) and named <= machine.offline
