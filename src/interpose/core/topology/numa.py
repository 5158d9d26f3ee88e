"""NUMA nodes out of the files of a machine: who is near which memory, and what the memory is.

The kernel does not say what memory is made of. The rule, first match wins:

1. A node without memory has none.
2. The memory of a node with CPUs, even if they are all offline, is ordinary memory (dram); so is all memory if no node
   with CPUs has any.
3. A node without CPUs is compared with the nearest node of ordinary memory. If the kernel knows the bandwidth of both
   (`access0/initiators/read_bandwidth`): more is hbm, less is pmem, the same is dram.
4. Otherwise by size: less than the neighbour is hbm, which is on the package and small; anything else is pmem. Memory
   behind a CXL link counts as pmem, too: slow and large.

That such a node is in `has_normal_memory` means nothing: persistent memory that was there at boot is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.text import quoted
from interpose.core.topology.files import NODES, Files
from interpose.core.topology.topology import MemoryKind, NumaNode

SELF_DISTANCE: Final = 10
UNKNOWN_DISTANCE: Final = 20  # what kernels assume between two nodes if the firmware does not say
MAX_DISTANCE: Final = 255
_TOTAL: Final = re.compile(r"MemTotal:\s*([0-9]{1,15}) kB", re.ASCII)


def node_of_cpus(files: Files, packages: Mapping[int, int]) -> Mapping[int, int]:
    """The node of every CPU (`packages` has their packages): by its link, else by the lists of the nodes, else that of
    the first CPU of its package which has one, else the lowest one there is."""
    listed = {
        cpu: node
        for node in sorted(files.node_folders, reverse=True)
        for cpu in files.cpus(f"{NODES}/node{node}/cpulist")
    }
    known = {**listed, **files.links}
    of_package: dict[int, int] = {}
    for cpu, package in sorted(packages.items()):
        if cpu in known:
            of_package.setdefault(package, known[cpu])
    lowest = next(iter(files.node_folders), 0)
    return {cpu: known.get(cpu, of_package.get(package, lowest)) for cpu, package in packages.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """What is known of a node before anything is made of it."""

    node: int
    populated: bool  # with CPUs, online or not
    there: bool
    size: int
    bandwidth: int


def numa_nodes(files: Files, members: Mapping[int, CpuSet]) -> tuple[NumaNode, ...]:
    """All nodes; `members` are the CPUs of those that have some online."""
    ids = sorted({*files.node_folders, *members})
    distances = {node: _distances(files, node, ids) for node in ids}
    linked = set(files.links.values())
    memories = [_memory(files, node, node in members or node in linked) for node in ids]
    ordinary = [memory for memory in memories if memory.populated and memory.there]
    return tuple(
        NumaNode(
            id=memory.node,
            cpus=members.get(memory.node, CpuSet()),
            memory_bytes=memory.size,
            memory=_kind(memory, ordinary, distances[memory.node]),
            distances=distances[memory.node],
        )
        for memory in memories
    )


def _memory(files: Files, node: int, populated: bool) -> _Memory:
    folder = f"{NODES}/node{node}"
    has_memory = f"{NODES}/has_memory"
    text = files.text(f"{folder}/meminfo")
    total = _TOTAL.search(text)
    if text and total is None:
        raise ValueError(f"file {folder}/meminfo: expected a line with MemTotal in kB, found {quoted(text)}")
    size = int(total[1]) * 1024 if total else 0
    # Without a size, the list of nodes with memory decides; without that one too there is no reason to doubt.
    listed = has_memory not in files or node in files.cpus(has_memory)
    return _Memory(
        node=node,
        populated=populated or bool(files.cpus(f"{folder}/cpulist")),
        there=size > 0 if total else listed,
        size=size,
        bandwidth=files.hint(f"{folder}/access0/initiators/read_bandwidth"),
    )


def _kind(memory: _Memory, ordinary: list[_Memory], distances: Mapping[int, int]) -> MemoryKind:
    if not memory.there:
        return MemoryKind.NONE
    if memory.populated or not ordinary:
        return MemoryKind.DRAM
    near = min(ordinary, key=lambda other: (distances[other.node], other.node))
    if memory.bandwidth and near.bandwidth:
        if memory.bandwidth == near.bandwidth:
            return MemoryKind.DRAM
        return MemoryKind.HBM if memory.bandwidth > near.bandwidth else MemoryKind.PMEM
    return MemoryKind.HBM if memory.size < near.size else MemoryKind.PMEM


def _distances(files: Files, node: int, ids: list[int]) -> Mapping[int, int]:
    """As the kernel gives them, which need not be the same in both directions. Its line has no names: one number for
    each node that has a folder, in their order."""
    path = f"{NODES}/node{node}/distance"
    found = {other: SELF_DISTANCE if other == node else UNKNOWN_DISTANCE for other in ids}
    text = files.text(path)
    if not text:
        return found
    words = text.split()
    if len(words) != len(files.node_folders):
        raise ValueError(f"file {path}: expected {len(files.node_folders)} numbers, found {quoted(text)}")
    for other, word in zip(files.node_folders, words, strict=True):
        if not (word.isascii() and word.isdecimal() and len(word) <= 3 and int(word) <= MAX_DISTANCE):
            raise ValueError(f"file {path}: expected numbers up to {MAX_DISTANCE}, found {quoted(text)}")
        found[other] = int(word)
    return found
