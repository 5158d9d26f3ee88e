"""Which CPUs a policy may use and which are reserved, on a machine: configured CPUs and exclusions become a `Setup`.

An exclusion depends on the machine: for available CPUs it is about those that are online, for reserved CPUs about those
that are available. Pure. Invariant: an exclusion that leaves nothing is a mistake of the configuration, never silence.
"""

from dataclasses import dataclass

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ExcludedCpus:
    """All CPUs but these."""

    cpus: CpuSet

    def __str__(self) -> str:
        return f"exclude-cpuset:{self.cpus}"


def make_setup(
    topology: Topology, available: CpuSet | ExcludedCpus | None, reserved: CpuSet | int | ExcludedCpus | None
) -> Setup:
    """The setup of a policy; ConfigError if an exclusion leaves no CPUs."""
    problems: list[str] = []

    def rest(excluded: ExcludedCpus, base: CpuSet, what: str, whose: str) -> CpuSet:
        left = base - excluded.cpus
        if not left:
            problems.append(f"{what} CPUs: {excluded} leaves none of the {whose} CPUs {base}")
        return left

    if isinstance(available, ExcludedCpus):
        available = rest(available, topology.online, "available", "online")
    if isinstance(reserved, ExcludedCpus) and not problems:
        usable = topology.online if available is None else available & topology.online
        reserved = rest(reserved, usable, "reserved", "available")
    if problems or isinstance(reserved, ExcludedCpus):
        raise ConfigError(problems)
    return Setup(topology=topology, available=available, reserved=reserved)
