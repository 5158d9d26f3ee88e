"""What the memory controller says of a cgroup: on which nodes its memory is, and whether it ran out of it."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from interpose.core.model.cpuset import CpuSet
from interpose.host.cgroup.tree import CgroupTree

_CONTROLLER: Final = "memory"
_BY_NODE: Final = re.compile(r"N([0-9]{1,4})=([0-9]{1,18})", re.ASCII)
# The lines that count: pages of all kinds on v1, bytes of each kind on v2.
_TOTALS: Final[Mapping[int, tuple[str, ...]]] = {1: ("total=",), 2: ("anon ", "file ", "kernel_stack ", "pagetables ")}


class MemoryEvents(NamedTuple):
    """How often there was too little memory, counted since a cgroup was made."""

    counted_in: str  # this cgroup: on v2 that of the pod, whose counts outlive its containers
    kills: int  # processes that the kernel has killed for want of memory
    limit_hits: int  # how often it, or a cgroup above it, was at its limit


class MemoryUse(NamedTuple):
    """The memory of a container by node, and what is counted of it."""

    by_node: Mapping[int, int]  # bytes
    events: MemoryEvents

    def on(self, nodes: CpuSet) -> int:
        """Bytes on these nodes."""
        return sum(count for node, count in self.by_node.items() if node in nodes)


def read_memory_use(tree: CgroupTree, directory: str) -> MemoryUse:
    """The use of a container by its cgroup; OSError or ValueError if it cannot be read."""
    stat = tree.text(directory, _CONTROLLER, "memory.numa_stat")
    events = _events(tree, directory) if tree.version == 2 else _events_v1(tree, directory)
    return MemoryUse(parse_numa_stat(stat, tree.version), events)


def parse_numa_stat(text: str, version: int) -> dict[int, int]:
    """The bytes that a cgroup has on each node, without those below it."""
    unit = os.sysconf("SC_PAGE_SIZE") if version == 1 else 1
    found: dict[int, int] = {}
    for line in text.splitlines():
        if line.startswith(_TOTALS[version]):
            for node, count in _BY_NODE.findall(line):
                found[int(node)] = found.get(int(node), 0) + int(count) * unit
    return found


def _events(tree: CgroupTree, directory: str) -> MemoryEvents:
    """On v2 a cgroup counts what happens below it, too; only `memory.events.local` is about its own limit."""
    pod, *above = list(_with_parents(directory))[1:] or [directory]
    numbers = _numbers(tree, pod, "memory.events")
    limits = numbers.get("oom", 0)
    for place in above:
        with suppress(OSError):  # the outermost ones need not have the controller, and older kernels have no such file
            limits += _numbers(tree, place, "memory.events.local").get("oom", 0)
    return MemoryEvents(pod, numbers.get("oom_kill", 0), limits)


def _events_v1(tree: CgroupTree, directory: str) -> MemoryEvents:
    """On v1 every cgroup counts for itself. Kernels before 4.13 do not count kills."""
    limits = 0
    for place in _with_parents(directory):
        with suppress(OSError):
            limits += int(tree.text(place, _CONTROLLER, "memory.failcnt"))
    return MemoryEvents(directory, _numbers(tree, directory, "memory.oom_control").get("oom_kill", 0), limits)


def _with_parents(directory: str) -> Iterator[str]:
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]


def _numbers(tree: CgroupTree, directory: str, file: str) -> dict[str, int]:
    """Words with a number behind, line by line."""
    pairs = (line.split() for line in tree.text(directory, _CONTROLLER, file).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
