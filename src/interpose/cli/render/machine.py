"""A machine as parts inside of parts: what the tree, the picture and the drawing have in common.

Packages, dies, NUMA nodes and last level caches are nested as they really are: a cache may span two nodes, a node two
packages. Parts with the very same CPUs are one part with several titles. A part that would overlap another halfway is
left out.

Also the owners of CPUs as letters for pictures, from the assignments of a relay or of a simulation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from interpose.cli.render.text import amount, or_dash
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.humanize import format_size
from interpose.core.topology.topology import CoreKind, MemoryKind, NumaNode, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePart:
    """A part of a machine. Its `parts` have all of its CPUs, if there are any."""

    titles: tuple[str, ...]  # "package 0", "NUMA node 1"
    facts: tuple[str, ...] = ()  # "64 GiB"
    cpus: CpuSet = EMPTY
    parts: "tuple[MachinePart, ...]" = ()

    @property
    def title(self) -> str:
        """All titles of the part, with commas between."""
        return ", ".join(self.titles)


@dataclass(slots=True)
class _PartBuilder:
    """A part that others are still put into."""

    titles: list[str]
    facts: list[str]
    cpus: CpuSet
    parts: "list[_PartBuilder]" = field(default_factory=list)


def parts_of(topology: Topology) -> tuple[MachinePart, ...]:
    """The outermost parts in order of their first CPU, then nodes that are memory only."""
    found = list(_groups(topology))
    found.sort(key=lambda part: -len(part.cpus))  # stable: packages before dies before nodes before caches
    outermost: list[_PartBuilder] = []
    for part in found:
        _insert(outermost, part)
    memory = (node for node in topology.nodes if not node.cpus)
    return (
        *(_build_part(topology, part) for part in outermost),
        *(MachinePart(titles=(f"NUMA node {node.id}",), facts=(_memory(node), "no CPUs")) for node in memory),
    )


def summary(topology: Topology) -> str:
    """What there is, in one line."""
    memory = sum(node.memory_bytes for node in topology.nodes)
    counts = [
        amount(len(topology.packages), "package"),
        *([amount(len(topology.dies), "die")] if _has_dies(topology) else []),
        amount(len(topology.nodes), "NUMA node"),
        amount(len(topology.cores), "core"),
        amount(len(topology.cpus), "CPU"),
        *([format_size(memory)] if memory else []),
    ]
    return ", ".join(counts)


def cores_in(topology: Topology, cpus: CpuSet) -> list[CpuSet]:
    """The threads of each core that has some of these CPUs, in order of cores."""
    return [threads & cpus for threads in topology.cores.values() if threads & cpus]


def remarks(topology: Topology) -> Iterator[tuple[str, CpuSet]]:
    """What is special about some CPUs."""
    if topology.isolated:
        yield "isolated", topology.isolated
    if topology.offline:
        yield "offline", topology.offline


def _build_part(topology: Topology, growing: _PartBuilder) -> MachinePart:
    """The part as a value; CPUs in no part of it get parts by the kind of their cores, if that tells them apart."""
    parts = [_build_part(topology, part) for part in growing.parts]
    loose = growing.cpus - CpuSet.union(part.cpus for part in parts)
    small = CpuSet.of(cpu for cpu in loose if topology.by_id[cpu].kind is CoreKind.EFFICIENCY)
    kinds = [(kind, cpus) for kind, cpus in (("performance", loose - small), ("efficiency", small)) if cpus]
    facts = list(growing.facts)
    if parts or len(kinds) > 1:
        parts += [MachinePart(titles=(f"{kind} cores" if small else "other cores",), cpus=cpus) for kind, cpus in kinds]
    elif small:
        facts.append("efficiency cores")
    return MachinePart(titles=tuple(growing.titles), facts=tuple(facts), cpus=growing.cpus, parts=tuple(parts))


def _insert(siblings: list[_PartBuilder], new: _PartBuilder) -> None:
    """Put a part where it belongs; those before it are at least as large."""
    for part in siblings:
        if part.cpus == new.cpus:
            part.titles += new.titles
            part.facts += new.facts
            return
        if new.cpus <= part.cpus:
            _insert(part.parts, new)
            return
        if new.cpus & part.cpus:
            return
    siblings.append(new)
    siblings.sort(key=lambda part: next(iter(part.cpus)))


def _groups(topology: Topology) -> Iterator[_PartBuilder]:
    for package, cpus in topology.packages.items():
        yield _PartBuilder([f"package {package}"], [], cpus)
    if _has_dies(topology):
        for (_, die), cpus in topology.dies.items():
            yield _PartBuilder([f"die {die}"], [], cpus)
    by_id = {node.id: node for node in topology.nodes}
    for number, cpus in topology.numa.items():
        yield _PartBuilder([f"NUMA node {number}"], [_memory(by_id[number])], cpus)
    sizes = {next(iter(cache.cpus)): cache.size_bytes for cache in topology.caches if cache.level == 3 and cache.cpus}
    whole = {cpus.mask for groups in (topology.packages, topology.dies, topology.numa) for cpus in groups.values()}
    for first, cpus in topology.l3_groups.items():
        known = [f"L3 {format_size(sizes[first])}"] if sizes.get(first) else []
        # A part of its own only if it is less or more than the part whose it is.
        yield _PartBuilder([], known, cpus) if cpus.mask in whole else _PartBuilder(known or ["L3"], [], cpus)


def _has_dies(topology: Topology) -> bool:
    return len(topology.dies) > len(topology.packages)


def _memory(node: NumaNode) -> str:
    if not node.memory_bytes:
        return "no memory"
    kind = "" if node.memory is MemoryKind.DRAM else f" {node.memory.value.upper()}"
    return format_size(node.memory_bytes) + kind + (", movable" if node.movable else "")


LETTERS: Final = ascii_uppercase + ascii_lowercase
MORE: Final = "+"  # the letter of all that come after the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOwner:
    """A container with CPUs of its own."""

    letter: str
    title: str
    cpus: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOwners:
    """Which container has which CPUs."""

    owners: tuple[CpuOwner, ...] = ()
    shared: CpuSet = EMPTY  # CPUs of containers that have none of their own
    sharing: int = 0  # how many these are

    def by_cpu(self) -> Mapping[int, tuple[int, CpuOwner]]:
        """Owner and its position in the list, by CPU."""
        return {cpu: (place, owner) for place, owner in enumerate(self.owners) for cpu in owner.cpus}


def owners_of(assignments: Sequence[Mapping[str, Any]]) -> CpuOwners:
    """Owners in the order of the assignments. What cannot be read as CPUs is left out."""
    owners: list[CpuOwner] = []
    shared, sharing = EMPTY, 0
    for assignment in assignments:
        own = _cpus(assignment.get("exclusive"))
        rest = _cpus(assignment.get("cpus")) - own
        if own:
            letter = LETTERS[len(owners)] if len(owners) < len(LETTERS) else MORE
            owners.append(CpuOwner(letter=letter, title=or_dash(assignment.get("container")), cpus=own))
        if rest:
            shared |= rest
            sharing += 1
    return CpuOwners(owners=tuple(owners), shared=shared, sharing=sharing)


def _cpus(text: object) -> CpuSet:
    try:
        return CpuSet.parse(text) if isinstance(text, str) else EMPTY
    except ValueError:
        return EMPTY
