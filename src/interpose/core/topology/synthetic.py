"""Machines made of equal parts: so many packages of so many dies of so many nodes of so many cores of so many threads.

CPUs are numbered as the parts come, or as most servers do it: first one thread of every core, then the other ones.

A machine can be given in words: "2 sockets x 2 numa x 8 cores x 2 threads", or shorter "2p2n8c2t". Every count is per
part of the next larger kind (packages, dies, nodes, cores, threads); a count that is left out is 1. Other properties
follow, each after a semicolon: "; isolated 3,7; memory 64Gi".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any, Final, TypeVar

from interpose.core.model.cpuset import EMPTY, MAX_CPUS, CpuSet
from interpose.core.model.quantity import parse_quantity, whole
from interpose.core.model.text import quoted
from interpose.core.topology.topology import Cache, CoreKind, Cpu, MemoryKind, NumaNode, Topology

MAX_NODES: Final = 1024  # as in kernels
DEFAULT_MEMORY: Final = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Equal packages. A block without cores is memory only, and adds no package."""

    packages: int = 1
    dies: int = 1  # of a package
    nodes: int = 1  # of a die
    cores: int = 1  # of a node
    threads: int = 1  # of a core
    memory_bytes: int = DEFAULT_MEMORY  # of a node
    memory: MemoryKind = MemoryKind.DRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLayout:
    """Properties of a machine that all its blocks share."""

    interleaved: bool = False
    l3_cores: int = 0  # so many share a cache of level 3; 0: all of a die do
    same_die: int = 12  # distances
    same_package: int = 12
    other_package: int = 21
    distances: Mapping[tuple[int, int], int] = field(default_factory=lambda: MappingProxyType({}))  # instead of those
    offline: CpuSet = EMPTY
    isolated: CpuSet = EMPTY
    efficiency: CpuSet = EMPTY
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Core:
    """Where a core is, and its threads."""

    package: int
    die: int
    node: int
    l3: tuple[int, int, int]
    cpus: CpuSet


def build(blocks: Sequence[Block], layout: MachineLayout) -> Topology:
    """The machine; ValueError if there is no CPU in it, if it is larger than any, or lists CPUs that it has not."""
    _check_size(blocks)
    places = _places(blocks)
    every = _cores(blocks, layout)
    _check_sets(CpuSet.union(core.cpus for core in every), layout)
    cores = [core for core in every if core.cpus - layout.offline]
    l3 = _joined([(core.l3, core.cpus - layout.offline) for core in cores])
    cpus = [cpu for core in cores for cpu in _cpus(core, l3[core.l3], layout)]
    cpus.sort(key=lambda cpu: cpu.id)
    members = _joined([(cpu.node, CpuSet.of([cpu.id])) for cpu in cpus])
    nodes = tuple(
        NumaNode(
            id=node,
            cpus=members.get(node, EMPTY),
            memory_bytes=block.memory_bytes,
            memory=block.memory if block.memory_bytes else MemoryKind.NONE,
            distances={other: _distance(places, node, other, layout) for other in range(len(places))},
        )
        for node, (block, _, _) in enumerate(places)
    )
    caches = [
        *(Cache(level=2, kind="unified", size_bytes=0, cpus=core.cpus - layout.offline) for core in cores),
        *(Cache(level=3, kind="unified", size_bytes=0, cpus=shared) for shared in l3.values()),
    ]
    return Topology(
        cpus=tuple(cpus),
        nodes=nodes,
        caches=tuple(caches),
        offline=layout.offline,
        isolated=layout.isolated - layout.offline,
        name=layout.name,
    )


def _check_size(blocks: Sequence[Block]) -> None:
    nodes = sum(block.packages * block.dies * block.nodes for block in blocks)
    cpus = sum(block.packages * block.dies * block.nodes * block.cores * block.threads for block in blocks)
    if not 0 < cpus <= MAX_CPUS:
        raise ValueError(f"a machine has from 1 to {MAX_CPUS} CPUs, this one has {cpus}")
    if nodes > MAX_NODES:
        raise ValueError(f"a machine has at most {MAX_NODES} NUMA nodes, this one has {nodes}")


def _check_sets(cpus: CpuSet, layout: MachineLayout) -> None:
    for name in ("offline", "isolated", "efficiency"):
        if unknown := getattr(layout, name) - cpus:
            raise ValueError(f"{name} has CPUs {unknown}, but the machine has {cpus}")
    if cpus <= layout.offline:
        raise ValueError("all CPUs are offline")


def _places(blocks: Sequence[Block]) -> list[tuple[Block, int, int]]:
    """Block, place of the package and die, node by node. Memory without CPUs has a place of its own, too."""
    found = []
    place = 0
    for block in blocks:
        found += [
            (block, place + package, die)
            for package, die, _ in product(range(block.packages), range(block.dies), range(block.nodes))
        ]
        place += block.packages
    return found


def _cores(blocks: Sequence[Block], layout: MachineLayout) -> list[_Core]:
    total = sum(block.packages * block.dies * block.nodes * block.cores for block in blocks)
    found: list[_Core] = []
    package = node = cpu = 0
    for block in blocks:
        for offset, die in product(range(block.packages), range(block.dies)):
            for index, core in product(range(block.nodes), range(block.cores)):
                number = len(found)
                threads = (
                    range(number, number + total * block.threads, total)
                    if layout.interleaved
                    else range(cpu, cpu + block.threads)
                )
                cpu += block.threads
                within = index * block.cores + core  # of the die
                share = within // layout.l3_cores if layout.l3_cores else 0
                found.append(
                    _Core(package + offset, die, node + index, (package + offset, die, share), CpuSet.of(threads))
                )
            node += block.nodes
        package += block.packages if block.cores else 0
    return found


def _cpus(core: _Core, l3: CpuSet, layout: MachineLayout) -> list[Cpu]:
    online = core.cpus - layout.offline
    first = next(iter(online))
    return [
        Cpu(
            id=cpu,
            package=core.package,
            die=core.die,
            node=core.node,
            core=first,
            l2=first,
            l3=next(iter(l3)),
            kind=CoreKind.EFFICIENCY if cpu in layout.efficiency else CoreKind.PERFORMANCE,
        )
        for cpu in online
    ]


def _distance(places: Sequence[tuple[Block, int, int]], node: int, other: int, layout: MachineLayout) -> int:
    distance = layout.distances.get((node, other))
    if distance is not None:
        return distance
    if node == other:
        return 10
    (_, package, die), (_, other_package, other_die) = places[node], places[other]
    if package != other_package:
        return layout.other_package
    return layout.same_die if die == other_die else layout.same_package


_Key = TypeVar("_Key", int, tuple[int, int, int])


def _joined(parts: Sequence[tuple[_Key, CpuSet]]) -> Mapping[_Key, CpuSet]:
    """What belongs together by key, keys as they come."""
    found: dict[_Key, CpuSet] = {}
    for key, cpus in parts:
        found[key] = found.get(key, EMPTY) | cpus
    return found


_MAX_TEXT: Final = 1024
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("p", "package", "packages", "socket", "sockets"), "packages"),
        **dict.fromkeys(("d", "die", "dies"), "dies"),
        **dict.fromkeys(("n", "numa", "node", "nodes", "numa node", "numa nodes"), "nodes"),
        **dict.fromkeys(("c", "core", "cores"), "cores"),
        **dict.fromkeys(("t", "thread", "threads"), "threads"),
    }
)
_SHORT: Final = re.compile(r"(?:[0-9]+[pdnct])+", re.ASCII)
_SHORT_PART: Final = re.compile(r"[0-9]+[a-z]", re.ASCII)
_TIMES: Final = re.compile(r"[×*,]|(?<![a-z])x(?![a-z])")
_COUNT: Final = re.compile(r"([0-9]{1,4})\s*([a-z][a-z\s]*)", re.ASCII)
_CORES: Final = re.compile(r"([0-9]{1,4})\s*cores?", re.ASCII)


def parse_text(text: str) -> Topology:
    """The machine these words describe, named by them; ValueError that names the word."""
    if len(text) > _MAX_TEXT:
        raise ValueError(f"{quoted(text)} has more than {_MAX_TEXT} characters")
    counts, *additions = text.strip().split(";")
    values: dict[str, dict[str, Any]] = {"block": _counts(counts), "layout": {"name": text.strip()}}
    fields: set[str] = set()
    for addition in additions:
        word, _, rest = " ".join(addition.split()).partition(" ")
        if word.lower() not in _ADDITIONS:
            raise ValueError(f"{quoted(addition.strip())}: expected one of {', '.join(_ADDITIONS)} after a semicolon")
        where, field, read = _ADDITIONS[word.lower()]
        if field in fields:
            raise ValueError(f"{quoted(addition.strip())}: {field} was given before")
        fields.add(field)
        try:
            values[where][field] = read(rest)
        except ValueError as error:
            raise ValueError(f"{quoted(addition.strip())}: {error}") from None
    return build([Block(**values["block"])], MachineLayout(**values["layout"]))


def _counts(text: str) -> dict[str, int]:
    plain = text.strip().lower()
    parts = _SHORT_PART.findall(plain) if _SHORT.fullmatch(plain) else _TIMES.split(plain)
    found: dict[str, int] = {}
    for part in parts:
        match = _COUNT.fullmatch(part.strip())
        word = " ".join(match[2].split()) if match else ""
        if match is None or word not in _WORDS or int(match[1]) == 0:
            raise ValueError(
                f"{quoted(part.strip())} is not a part of a machine: expected a number from 1 to 9999 and one of "
                "sockets, dies, numa, cores, threads"
            )
        kind = _WORDS[word]
        if kind in found:
            raise ValueError(f"{quoted(part.strip())}: {kind} were given before")
        found[kind] = int(match[1])
    return found


def _nothing(text: str) -> None:
    if text:
        raise ValueError(f"expected nothing after the word, found {quoted(text)}")


def _interleaved(text: str) -> bool:
    _nothing(text)
    return True


def _sequential(text: str) -> bool:
    _nothing(text)
    return False


def _some_cpus(text: str) -> CpuSet:
    found = CpuSet.parse(text)
    if not found:
        raise ValueError("expected a list of CPUs such as 3,7-9")
    return found


def _memory(text: str) -> int:
    return whole(parse_quantity(text, negative=False))


def _shared_by(text: str) -> int:
    match = _CORES.fullmatch(text.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError('expected how many cores share a cache, such as "4 cores"')
    return int(match[1])


# Word -> which value it goes into, the field there, and how its text is read.
_ADDITIONS: Final[Mapping[str, tuple[str, str, Callable[[str], Any]]]] = MappingProxyType(
    {
        "isolated": ("layout", "isolated", _some_cpus),
        "offline": ("layout", "offline", _some_cpus),
        "efficiency": ("layout", "efficiency", _some_cpus),
        "memory": ("block", "memory_bytes", _memory),
        "l3": ("layout", "l3_cores", _shared_by),
        "interleaved": ("layout", "interleaved", _interleaved),
        "sequential": ("layout", "interleaved", _sequential),
    }
)
