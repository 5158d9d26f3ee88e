"""What a container was given as the text of `resources.sh`: one KEY="value" a line, which a shell can source. Pure.

Keys are those of CRI Resource Manager and its successor: SHARED_CPUS, ISOLATED_CPUS, EXCLUSIVE_CPUS (without the
isolated ones), ALL_MEMS, DRAM_MEMS, PMEM_MEMS and HBM_MEMS (NUMA nodes). What is empty is left out, and so are CPUs
that nothing was decided about.
"""

from collections.abc import Mapping
from typing import Final

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.decision import Assignment, Grant
from interpose.core.topology.topology import MemoryKind, Topology

FILE_NAME: Final = "resources.sh"
_KINDS: Final[Mapping[str, MemoryKind]] = {
    "DRAM_MEMS": MemoryKind.DRAM,
    "PMEM_MEMS": MemoryKind.PMEM,
    "HBM_MEMS": MemoryKind.HBM,
}


def resources_text(grant: Grant | None, assignment: Assignment, topology: Topology) -> str:
    """The text for a container with this assignment; without a grant it has no CPUs of its own."""
    cpus = assignment.cpus or EMPTY
    own = cpus & (EMPTY if grant is None else grant.exclusive)
    nodes = [node for node in topology.nodes if node.memory_bytes]
    mems = assignment.mems or CpuSet.of(node.id for node in nodes)
    values = {
        "SHARED_CPUS": cpus - own,
        "ISOLATED_CPUS": own & topology.isolated,
        "EXCLUSIVE_CPUS": own - topology.isolated,
        "ALL_MEMS": mems,
        **{key: mems & CpuSet.of(node.id for node in nodes if node.memory is kind) for key, kind in _KINDS.items()},
    }
    return "".join(f'{key}="{value}"\n' for key, value in sorted(values.items()) if value)
