"""The configuration of the resource manager: one value, checked as a whole before anything of it takes effect. Pure.

`AgentConfig` is a configuration as an agent sends it: before it is read, and as it is kept for the next start.

Reserved CPUs that are offline are replaced by as many others until they return: the system needs room whichever CPUs
are there, and a relay that does not start, or goes on giving out CPUs that are gone, is worse than other CPUs than
those that were named. CPUs that the machine does not have at all are a mistake of the configuration, and left as they
are for the policy to refuse.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.constraints import ExcludedCpus
from interpose.core.policy.names import NONE
from interpose.core.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A policy with its CPUs and options, for any machine."""

    policy: str  # a name, no alias
    available: CpuSet | ExcludedCpus | None = None
    reserved: CpuSet | ExcludedCpus | int | None = None  # CPUs, or thousandths of one
    options: Any = None  # of this policy, typed and complete
    migrate_memory: bool = False  # whether pages follow when a container gets other memory nodes
    origin: str = ""  # where it comes from, for people
    notes: tuple[str, ...] = ()  # parts of its document that something else overrides
    fallback_reasons: tuple[
        str, ...
    ] = ()  # why another one should be in force and cannot; containers keep what that gave them


def effective_reserved(configuration: Configuration, machine: Topology) -> CpuSet | ExcludedCpus | int | None:
    """What is reserved on a machine: as configured, or as many CPUs if all that were named are offline."""
    named = configuration.reserved
    return 1000 * len(named) if isinstance(named, CpuSet) and _are_offline(named, machine) else named


def describe_offline_reserved(configuration: Configuration, machine: Topology) -> str:
    """A remark about reserved CPUs that are offline; empty if there are none."""
    named = configuration.reserved
    if configuration.policy == NONE or not isinstance(named, CpuSet) or not _are_offline(named, machine):
        return ""
    others = "another CPU is" if len(named) == 1 else f"{len(named)} others are"
    return f"reserved CPUs {named} are offline, {others} reserved until they return"


def _are_offline(named: CpuSet, machine: Topology) -> bool:
    return bool(named) and named <= machine.offline


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """A configuration as an agent sends it: YAML texts by key, and the node that it takes us for."""

    node_name: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
