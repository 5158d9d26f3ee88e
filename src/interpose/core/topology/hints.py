"""Topology hints: which CPUs and memory a device is near to, as its folders in sysfs tell.

A device rarely says it itself: the first folder above it counts that names CPUs. A folder that names a NUMA node and no
CPUs is known for numbers that are those of packages; it counts as a NUMA node only if a folder above has CPUs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.topology import Topology

CPU_LISTS: Final = ("local_cpulist", "cpulistaffinity", "cpulist", "shared_cpu_list")  # the first one with CPUs counts
NODE: Final = "numa_node"  # -1: none
HINT_FILES: Final = (*CPU_LISTS, NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyHint:
    """What a device that a container uses is near to."""

    provider: str  # the folder of sysfs that says so
    cpus: CpuSet = EMPTY
    nodes: CpuSet = EMPTY  # NUMA nodes
    packages: CpuSet = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFolder:
    """A folder of sysfs, and those of its files that say where it is."""

    path: str
    files: Mapping[str, str]


def device_hint(folders: Sequence[DeviceFolder]) -> TopologyHint | None:
    """The hint of a device, by its folder and all above it; None if none of them says anything."""
    for index, folder in enumerate(folders):
        cpus = next(filter(None, (_numbers(folder.files.get(name, "")) for name in CPU_LISTS)), EMPTY)
        nodes = _numbers(folder.files.get(NODE, ""))
        if cpus:
            return TopologyHint(provider=folder.path, cpus=cpus, nodes=nodes)
        if nodes:
            above = device_hint(folders[index + 1 :])
            if above is not None and above.cpus:
                return replace(above, provider=folder.path, nodes=above.nodes or nodes)
            return TopologyHint(provider=folder.path, packages=nodes)
    return None


def useful_hints(hints: Iterable[TopologyHint], topology: Topology) -> tuple[TopologyHint, ...]:
    """What of these hints helps to choose on a machine, one of each provider, in their order.

    A device that is near to all CPUs, or all nodes, is near to none: it would draw containers out of their NUMA nodes.
    """
    found: dict[str, TopologyHint] = {}
    for hint in hints:
        chosen = TopologyHint(
            provider=hint.provider,
            cpus=_part(hint.cpus, topology.online),
            nodes=_part(hint.nodes, CpuSet.of(node.id for node in topology.nodes)),
            packages=_part(hint.packages, CpuSet.of(topology.packages)),
        )
        if chosen.cpus or chosen.nodes or chosen.packages:
            found.setdefault(hint.provider, chosen)
    return tuple(found.values())


def hint_record(hint: TopologyHint) -> dict[str, Any]:
    """A hint as plain values; sets are texts."""
    return {
        "provider": hint.provider,
        "cpus": str(hint.cpus),
        "nodes": str(hint.nodes),
        "packages": str(hint.packages),
    }


def _part(numbers: CpuSet, there_are: CpuSet) -> CpuSet:
    numbers &= there_are
    return EMPTY if numbers == there_are else numbers


def _numbers(text: str) -> CpuSet:
    """The numbers in a file; none of what is no list, such as -1."""
    try:
        return CpuSet.parse(text.strip())
    except ValueError:
        return EMPTY
