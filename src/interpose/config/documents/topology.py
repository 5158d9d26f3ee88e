"""Read a document about a machine: our own form, or the list of node groups that test suites of others use.

Our form is what `interpose.core.topology.document` writes, and comes back as the same topology. All problems are found
at once, each with its line. Pure.

The list of node groups:

    [{"mem": "2G", "cores": 2, "nodes": 2, "packages": 2}, {"nvmem": "8G", "node-dist": {"0": 17}}]

A group with cores is so many packages; threads are 2 if not given. A group without cores is memory alone. `nvmem`
beside `mem` becomes a node of its own, behind all others. Sizes are those of QEMU: G is 1024 three times.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from interpose.config.documents.fields import Choice, FieldGroup, FieldReader, FlagField, Items, Number, Report, Text
from interpose.config.documents.yaml import DocumentNode
from interpose.core.model.cpuset import EMPTY, MAX_CPUS, CpuSet
from interpose.core.model.text import quoted
from interpose.core.topology.document import API_VERSION, CPU_KEYS, KIND
from interpose.core.topology.parse import MAX_DISTANCE, SELF_DISTANCE, UNKNOWN_DISTANCE
from interpose.core.topology.synthetic import Block, MachineLayout, build
from interpose.core.topology.topology import NO_CACHE, Cache, CoreKind, Cpu, MemoryKind, NumaNode, Topology

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

    def read(self, node: DocumentNode, key: str, report: Report) -> CpuSet | None:
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
    """A map of distances by number of the NUMA node."""

    def read(self, node: DocumentNode, key: str, report: Report) -> Mapping[int, int] | None:
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
    """An amount of memory in bytes, with a unit."""

    def read(self, node: DocumentNode, key: str, report: Report) -> int | None:
        match = _SIZE.fullmatch(node.text.upper()) if node.tag in ("str", "int") else None
        if match is None:
            report.expected("an amount of memory such as 4G", "str", node, key)
            return None
        return int(match[1]) * _UNITS[match[2]]


_GROUP: Final = FieldGroup(
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


def read_groups(node: DocumentNode, report: Report) -> Topology | None:
    """The machine; None with a problem in the report."""
    return Items(_GROUP, _machine).read(node, "", report)  # type: ignore[no-any-return]


def _machine(groups: tuple[dict[str, Any], ...]) -> Topology:
    blocks = [_block(group) for group in groups]
    first = 0
    distances: dict[tuple[int, int], int] = {}
    beside: list[tuple[int, int]] = []  # node, size of the persistent memory next to it
    matrix: tuple[tuple[int, ...], ...] | None = None
    for group, block in zip(groups, blocks, strict=True):
        nodes = range(first, first + block.packages * block.dies * block.nodes)
        first = nodes.stop
        for other, distance in group.get("node-dist", {}).items():
            distances |= {pair: distance for node in nodes for pair in ((node, other), (other, node)) if node != other}
        if group.get("mem") and group.get("nvmem") and group.get("dimm", True):
            beside += [(node, group["nvmem"]) for node in nodes]
        matrix = group.get("dist-all", matrix)
    if matrix is not None:
        distances = _all_distances(matrix, first)
    for number, (owner, size) in enumerate(beside, first):
        blocks.append(Block(cores=0, memory_bytes=size, memory=MemoryKind.PMEM))
        for other in range(first + len(beside)):
            distance = _NEAR_PMEM if other == owner else _FAR_PMEM
            if other != number:
                distances.setdefault((number, other), distance)
                distances.setdefault((other, number), distance)
    common = {field: group[key] for group in groups for key, field in _COMMON.items() if key in group}
    layout = MachineLayout(**{"same_die": 11, "same_package": 21, "other_package": 21, **common}, distances=distances)
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


_MAX: Final = 10**18 - 1
_NUMBER: Final = Number(0, MAX_CPUS - 1)
_AMOUNT: Final = Number(0, _MAX)
_ANY_ID: Final = Number(0, _MAX)  # of dies: some kernels count them by other rules
_CACHE: Final = Number(NO_CACHE, MAX_CPUS - 1)
_CPU_KINDS: Final[Mapping[str, FieldReader]] = {
    "id": _NUMBER,
    "package": _NUMBER,
    "die": _ANY_ID,
    "node": _NUMBER,
    "core": _NUMBER,
    "l2": _CACHE,
    "l3": _CACHE,
    "kind": Choice({kind.value: kind for kind in CoreKind}),
    "base_khz": _AMOUNT,
    "max_khz": _AMOUNT,
}


def read_topology_document(node: DocumentNode, where: str) -> Topology:
    """The machine; ConfigError with every problem, each begins with `where`."""
    report = Report(where)
    found = read_groups(node, report) if node.tag == "list" else _read(node, report)
    report.settle()
    return cast("Topology", found)  # without one there was a problem to report


def _read(node: DocumentNode, report: Report) -> Topology | None:
    values = _DOCUMENT.read(node, "", report)
    before = report.count
    if values is not None:
        _check(values, node, report)
    return _topology(values) if values is not None and report.count == before else None


def _cpu(values: dict[str, Any]) -> Cpu:
    fields = {field: values[key] for field, key in CPU_KEYS.items() if key in values}
    return Cpu(**{"core": fields["id"], **fields})


def _cache(values: dict[str, Any]) -> Cache:
    return Cache(
        level=values["level"],
        kind=values.get("kind", "unified"),
        size_bytes=values.get("sizeBytes", 0),
        cpus=values["cpus"],
    )


_DOCUMENT: Final = FieldGroup(
    {
        "apiVersion": Choice({API_VERSION: API_VERSION}),
        "kind": Choice({KIND: KIND}),
        "name": Text(),
        "cpus": Items(
            FieldGroup({CPU_KEYS[field]: kind for field, kind in _CPU_KINDS.items()}, _cpu, required=("id",)), tuple
        ),
        "nodes": Items(
            FieldGroup(
                {
                    "id": _NUMBER,
                    "memoryBytes": _AMOUNT,
                    "memory": Choice({kind.value: kind for kind in MemoryKind}),
                    "movable": FlagField(),
                    "distances": Distances(),
                },
                required=("id",),
            ),
            tuple,
        ),
        "caches": Items(
            FieldGroup(
                {
                    "level": Number(1, _MAX),
                    "kind": Choice({kind: kind for kind in ("data", "instruction", "unified")}),
                    "sizeBytes": _AMOUNT,
                    "cpus": CpuList(),
                },
                _cache,
                required=("level", "cpus"),
            ),
            tuple,
        ),
        "offline": CpuList(),
        "isolated": CpuList(),
    },
    required=("kind", "cpus", "nodes"),
)


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the values must fit to."""

    cpus: Mapping[int, Cpu]
    nodes: Mapping[int, Mapping[str, Any]]


def _check(found: Mapping[str, Any], node: DocumentNode, report: Report) -> None:
    """What no single value shows."""
    lists = {name: child.items for name, child in node.entries}
    parts = _Parts({cpu.id: cpu for cpu in found["cpus"]}, {values["id"]: values for values in found["nodes"]})
    online = CpuSet.of(parts.cpus)
    for key, values, problems in _tables(found):
        seen: set[int] = set()
        for index, value in enumerate(values):
            for problem in problems(value, parts, online, seen):
                report.say(lists[key][index], f"{key}[{index}]", problem)
    if not online:
        report.say(node, "cpus", "there must be one at least")
    if both := found.get("offline", EMPTY) & online:
        report.say(node, "offline", f"CPUs {both} are among the cpus, which are online")
    if unknown := found.get("isolated", EMPTY) - online:
        report.say(node, "isolated", f"CPUs {unknown} are not among the cpus")


_Problems = Callable[[Any, _Parts, CpuSet, set[int]], Iterator[str]]


def _tables(found: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Any], _Problems]]:
    yield "cpus", found["cpus"], _cpu_problems
    yield "nodes", found["nodes"], _node_problems
    yield "caches", found.get("caches", ()), _cache_problems


def _cpu_problems(cpu: Cpu, parts: _Parts, _online: CpuSet, seen: set[int]) -> Iterator[str]:
    if cpu.id in seen:
        yield f"id {cpu.id} is given twice"
    seen.add(cpu.id)
    if cpu.node not in parts.nodes:
        yield f"node {cpu.node} is not among the nodes"
    for name in ("core", "l2", "l3"):
        first = getattr(cpu, name)
        named = parts.cpus.get(first)
        if first != NO_CACHE and (named is None or first > cpu.id or getattr(named, name) != first):
            yield f"{name} {first} is not the lowest CPU of those with the same {name}"


def _node_problems(node: Mapping[str, Any], parts: _Parts, _online: CpuSet, seen: set[int]) -> Iterator[str]:
    if node["id"] in seen:
        yield f"id {node['id']} is given twice"
    seen.add(node["id"])
    if unknown := [other for other in node.get("distances", {}) if other not in parts.nodes]:
        yield f"distances: node {unknown[0]} is not among the nodes"


def _cache_problems(cache: Cache, _parts: _Parts, online: CpuSet, _seen: set[int]) -> Iterator[str]:
    if unknown := cache.cpus - online:
        yield f"CPUs {unknown} are not among the cpus"


def _topology(found: Mapping[str, Any]) -> Topology:
    cpus = tuple(sorted(found["cpus"], key=lambda cpu: cpu.id))
    ids = [node["id"] for node in found["nodes"]]
    return Topology(
        cpus=cpus,
        nodes=tuple(_node(values, cpus, ids) for values in sorted(found["nodes"], key=lambda node: node["id"])),
        caches=found.get("caches", ()),
        offline=found.get("offline", EMPTY),
        isolated=found.get("isolated", EMPTY),
        name=found.get("name", ""),
    )


def _node(values: Mapping[str, Any], cpus: tuple[Cpu, ...], ids: Sequence[int]) -> NumaNode:
    node, size = values["id"], values.get("memoryBytes", 0)
    return NumaNode(
        id=node,
        cpus=CpuSet.of(cpu.id for cpu in cpus if cpu.node == node),
        memory_bytes=size,
        memory=values.get("memory", MemoryKind.DRAM if size else MemoryKind.NONE),
        movable=values.get("movable", False),
        distances={
            other: values.get("distances", {}).get(other, SELF_DISTANCE if other == node else UNKNOWN_DISTANCE)
            for other in sorted(ids)
        },
    )
