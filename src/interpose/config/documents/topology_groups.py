"""Machines as a list of groups of NUMA nodes, the form in which the tests of other resource managers describe them.

    [{"mem": "2G", "cores": 2, "nodes": 2, "packages": 2}, {"nvmem": "8G", "node-dist": {"0": 17}}]

A group with cores is so many packages; threads are 2 if not given. A group without cores is memory alone. `nvmem`
beside `mem` becomes a node of its own, behind all others. Sizes are those of QEMU: G is 1024 three times. Pure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from interpose.config.documents.fields import Choice, Group, Items, Number, Report
from interpose.config.documents.yaml import Node
from interpose.core.model.cpuset import MAX_CPUS, CpuSet
from interpose.core.model.text import quoted
from interpose.core.topology.numa import MAX_DISTANCE
from interpose.core.topology.synthetic import Block, Layout, build
from interpose.core.topology.topology import MemoryKind, Topology

_SIZE: Final = re.compile(r"([0-9]{1,6})([KMGT]?)", re.ASCII)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DISTANCE: Final = Number(0, MAX_DISTANCE)
_COUNT: Final = Number(1, MAX_CPUS)
_COUNTS: Final = ("packages", "dies", "nodes")
_NODE: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
# Key -> field of the layout. They hold for all groups, whichever of them has the key.
_COMMON: Final = {
    "dist-same-die": "same_die",
    "dist-same-package": "same_package",
    "dist-other-package": "other_package",
}
_NEAR_PMEM, _FAR_PMEM = 17, 28  # of a node's own persistent memory, as firmware has it


@dataclass(frozen=True, slots=True)
class CpuList:
    """A list of CPUs as the kernel writes it; a lone number is one, too."""

    def read(self, node: Node, key: str, report: Report) -> CpuSet | None:
        """The set."""
        if node.tag not in ("str", "int"):
            report.expected("a list of CPUs such as 0-3,8", "str", node, key)
            return None
        try:
            return CpuSet.parse(node.text)
        except ValueError as error:
            report.say(node, key, str(error))
            return None


@dataclass(frozen=True, slots=True)
class Distances:
    """Distances by node."""

    def read(self, node: Node, key: str, report: Report) -> Mapping[int, int] | None:
        """The distances."""
        if node.tag != "map":
            report.expected("distances by node", "map", node, key)
            return None
        found: dict[int, int] = {}
        for name, child in node.entries:
            where = f"{key}[{quoted(name)}]"
            if _NODE.fullmatch(name) is None:
                report.say(child, where, "expected the number of a node")
            elif int(name) in found:
                report.say(child, where, "is given twice")
            elif (distance := _DISTANCE.read(child, where, report)) is not None:
                found[int(name)] = distance
        return found


@dataclass(frozen=True, slots=True)
class _Size:
    """Memory."""

    def read(self, node: Node, key: str, report: Report) -> int | None:
        """Bytes."""
        match = _SIZE.fullmatch(node.text.upper()) if node.tag in ("str", "int") else None
        if match is None:
            report.expected("an amount of memory such as 4G", "str", node, key)
            return None
        return int(match[1]) * _UNITS[match[2]]


_GROUP: Final = Group(
    {
        "mem": _Size(),
        "nvmem": _Size(),
        "dimm": Choice({"": True, "plugged": True, "unplugged": False}),
        "cores": Number(0, MAX_CPUS),
        "threads": _COUNT,
        **dict.fromkeys(_COUNTS, _COUNT),
        "node-dist": Distances(),
        "dist-all": Items(Items(_DISTANCE, tuple), tuple),
        **dict.fromkeys(_COMMON, _DISTANCE),
    }
)


def read_groups(node: Node, report: Report) -> Topology | None:
    """The machine; None with a problem in the report."""
    return Items(_GROUP, _machine).read(node, "", report)  # type: ignore[no-any-return]


def _machine(groups: tuple[dict[str, Any], ...]) -> Topology:
    blocks = [_block(group) for group in groups]
    first = 0
    given: dict[tuple[int, int], int] = {}
    beside: list[tuple[int, int]] = []  # node, size of the persistent memory next to it
    matrix: tuple[tuple[int, ...], ...] | None = None
    for group, block in zip(groups, blocks, strict=True):
        nodes = range(first, first + block.packages * block.dies * block.nodes)
        first = nodes.stop
        for other, distance in group.get("node-dist", {}).items():
            given |= {pair: distance for one in nodes for pair in ((one, other), (other, one)) if one != other}
        if group.get("mem") and group.get("nvmem") and group.get("dimm", True):
            beside += [(one, group["nvmem"]) for one in nodes]
        matrix = group.get("dist-all", matrix)
    if matrix is not None:
        given = _all_distances(matrix, first)
    for number, (owner, size) in enumerate(beside, first):
        blocks.append(Block(cores=0, memory_bytes=size, memory=MemoryKind.PMEM))
        for other in range(first + len(beside)):
            distance = _NEAR_PMEM if other == owner else _FAR_PMEM
            if other != number:
                given.setdefault((number, other), distance)
                given.setdefault((other, number), distance)
    common = {field: group[key] for group in groups for key, field in _COMMON.items() if key in group}
    layout = Layout(**{"same_die": 11, "same_package": 21, "other_package": 21, **common}, distances=given)
    return build(blocks, layout)


def _block(group: Mapping[str, Any]) -> Block:
    there = group.get("dimm", True)
    ordinary = group.get("mem", 0)
    return Block(
        **{name: group.get(name, 1) for name in _COUNTS},
        cores=group.get("cores", 0),
        threads=group.get("threads", 2),
        memory_bytes=(ordinary or group.get("nvmem", 0)) if there else 0,
        memory=MemoryKind.DRAM if ordinary or not group.get("nvmem") else MemoryKind.PMEM,
    )


def _all_distances(matrix: tuple[tuple[int, ...], ...], nodes: int) -> dict[tuple[int, int], int]:
    if len(matrix) != nodes or any(len(row) != nodes for row in matrix):
        raise ValueError(f"dist-all: expected {nodes} rows of {nodes} distances, one for each node")
    return {(one, other): distance for one, row in enumerate(matrix) for other, distance in enumerate(row)}
