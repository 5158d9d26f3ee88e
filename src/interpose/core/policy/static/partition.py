"""What the policies `static` and `static-plus` start with: which CPUs they have, which are reserved, which isolated.

CPUs that the machine has and that are offline are left out: one that was unplugged must not keep a node from starting.
CPUs that the machine does not have are a mistake in the configuration.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.static.options import StaticOptions, contradictions
from interpose.core.topology.topology import MemoryKind, Topology
from interpose.errors import ConfigError

_AVAILABLE: Final = "available resources"
_RESERVED: Final = "reserved resources"
Pick = Callable[[CpuSet, int], CpuSet]  # so many of these CPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPartition:
    """The CPUs that a policy has. Reserved ones are among the ordinary ones, isolated ones are not."""

    ordinary: CpuSet
    reserved: CpuSet
    isolated: CpuSet


def check_options(options: StaticOptions) -> None:
    """Raise ConfigError that names every two options that contradict each other."""
    problems = [f"policy.static.CPUManagerPolicyOptions: {problem}" for problem in contradictions(options)]
    if problems:
        raise ConfigError(problems)


def divide(setup: Setup, pick: Pick, *, strict: bool) -> CpuPartition:
    """Divide the machine; ConfigError if it cannot be.

    `pick` chooses the reserved CPUs if an amount is given; `strict`: reserved ones are not shared, so others must be.
    """
    machine = setup.topology
    available = machine.online
    if setup.available is not None:
        available = _present(machine, setup.available, _AVAILABLE)
    isolated = available & machine.isolated
    ordinary = available - isolated
    if not ordinary:
        raise ConfigError(f"{_AVAILABLE}: all of CPUs {available} are isolated, none is left for the system")
    reserved = _reserved(setup, ordinary, pick)
    if strict and reserved == ordinary:
        raise ConfigError(
            f"{_RESERVED}: {reserved} are all CPUs there are; with strict-cpu-reservation one at least must be left"
        )
    return CpuPartition(ordinary=ordinary, reserved=reserved, isolated=isolated)


def all_memory(topology: Topology) -> CpuSet:
    """Every node with memory, of whatever kind: what a container may use that is bound to none."""
    return CpuSet.of(node.id for node in topology.nodes if node.memory is not MemoryKind.NONE and node.memory_bytes)


def _reserved(setup: Setup, ordinary: CpuSet, pick: Pick) -> CpuSet:
    wanted = setup.reserved
    if not wanted:  # None, no CPUs, or an amount of 0
        raise ConfigError(
            f"{_RESERVED}: this policy needs CPUs for the system, which no container gets alone; "
            "give an amount such as cpu=1 or CPUs such as cpu=cpuset:0-1"
        )
    if isinstance(wanted, int):
        count = -(-wanted // 1000)
        if not 0 < count <= len(ordinary):
            raise ConfigError(
                f"{_RESERVED}: {wanted}m CPUs cannot be reserved of {ordinary}, which are {len(ordinary)}"
            )
        return pick(ordinary, count)
    present = _present(setup.topology, wanted, _RESERVED)
    if isolated := present & setup.topology.isolated:
        raise ConfigError(f"{_RESERVED}: CPUs {isolated} of {wanted} are isolated, the system does not run on them")
    if outside := present - ordinary:
        raise ConfigError(f"{_RESERVED}: CPUs {outside} of {wanted} are not among the available ones, {ordinary}")
    return present


def _present(machine: Topology, cpus: CpuSet, where: str) -> CpuSet:
    """Those that are online; ConfigError if one does not exist or none is online."""
    known = machine.online | machine.offline
    if unknown := cpus - known:
        raise ConfigError(f"{where}: CPUs {unknown} of {cpus} do not exist on this machine, which has {known}")
    if not cpus & machine.online:
        problem = f"all of CPUs {cpus} are offline" if cpus else "the list of CPUs is empty"
        raise ConfigError(f"{where}: {problem}")
    return cpus & machine.online
