"""Read a document about a machine: our own form, or the list of node groups that test suites of others use.

Our form is what `interpose.core.topology.document` writes, and comes back as the same topology. All problems are found
at once, each with its line. Pure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from interpose.config.documents.fields import Choice, Group, Items, Kind, Number, Report, Text
from interpose.config.documents.topology_groups import CpuList, Distances, read_groups
from interpose.config.documents.yaml import Node
from interpose.core.model.cpuset import EMPTY, MAX_CPUS, CpuSet
from interpose.core.topology.document import API_VERSION, CPU_KEYS, KIND
from interpose.core.topology.numa import SELF_DISTANCE, UNKNOWN_DISTANCE
from interpose.core.topology.topology import NO_CACHE, Cache, CoreKind, Cpu, MemoryKind, NumaNode, Topology

_MAX: Final = 10**18 - 1
_NUMBER: Final = Number(0, MAX_CPUS - 1)
_AMOUNT: Final = Number(0, _MAX)
_ANY_ID: Final = Number(0, _MAX)  # of dies: some kernels count them by other rules
_CACHE: Final = Number(NO_CACHE, MAX_CPUS - 1)
_CPU_KINDS: Final[Mapping[str, Kind]] = {
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


def read_topology_document(node: Node, where: str) -> Topology:
    """The machine; ConfigError with every problem, each begins with `where`."""
    report = Report(where)
    found = read_groups(node, report) if node.tag == "list" else _read(node, report)
    report.settle()
    return cast("Topology", found)  # without one there was a problem to report


def _read(node: Node, report: Report) -> Topology | None:
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


_DOCUMENT: Final = Group(
    {
        "apiVersion": Choice({API_VERSION: API_VERSION}),
        "kind": Choice({KIND: KIND}),
        "name": Text(),
        "cpus": Items(
            Group({CPU_KEYS[field]: kind for field, kind in _CPU_KINDS.items()}, _cpu, required=("id",)), tuple
        ),
        "nodes": Items(
            Group(
                {
                    "id": _NUMBER,
                    "memoryBytes": _AMOUNT,
                    "memory": Choice({kind.value: kind for kind in MemoryKind}),
                    "distances": Distances(),
                },
                required=("id",),
            ),
            tuple,
        ),
        "caches": Items(
            Group(
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


def _check(found: Mapping[str, Any], node: Node, report: Report) -> None:
    """What no single value shows."""
    lists = {name: child.items for name, child in node.entries}
    parts = _Parts({cpu.id: cpu for cpu in found["cpus"]}, {one["id"]: one for one in found["nodes"]})
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
        distances={
            other: values.get("distances", {}).get(other, SELF_DISTANCE if other == node else UNKNOWN_DISTANCE)
            for other in sorted(ids)
        },
    )
