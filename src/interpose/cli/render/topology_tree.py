"""A machine as a tree in plain text: one line per package, die, NUMA node and cache, cores with their threads.

Cores that repeat are not spelled out: the first two and the last show how threads are numbered.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from interpose.cli.render.machine import MachinePart, cores_in, parts_of, remarks, summary
from interpose.cli.render.text import WIDTH, flat, or_dash, sentence, strided, table
from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.topology import NumaNode, Topology

_SPELLED_OUT: Final = 4  # cores of a part that are listed one by one
_HEADER: Final = ("PART", "HAS", "CORES", "CPUS", "THREADS OF CORES")
_STRIDES: Final = "0-108:1/4 is every 4th CPU from 0 to 108."
_LISTS: Final = _HEADER.index("CPUS")


def tree_text(topology: Topology, width: int = WIDTH) -> str:
    """The tree, distances between NUMA nodes, and CPUs that are special."""
    rows: list[Sequence[str]] = [_HEADER, *_rows(topology, parts_of(topology), "")]
    if topology.threads_per_core == 1:
        rows = [row[:-1] for row in rows]
    title = f"{or_dash(topology.name)}: " if topology.name else ""
    lines = [*sentence(title + summary(topology), "", width), "", *flat(table(rows, width=width, lists=(_LISTS,)))]
    distances = list(_distances(topology.nodes))
    if distances:
        lines += ["", "Distances of NUMA nodes (to itself: 10)", *flat(table(distances, width=width, indent="  "))]
    if any("/" in row[_LISTS] for row in rows):
        lines += ["", _STRIDES]
    special = [line for what, cpus in remarks(topology) for line in sentence(f"CPUs {what}: {cpus}", "", width)]
    return "\n".join([*lines, *([""] if special else []), *special])


def _rows(topology: Topology, parts: Sequence[MachinePart], prefix: str) -> Iterator[tuple[str, ...]]:
    for part in parts:
        last = part is parts[-1]
        cores = cores_in(topology, part.cpus)
        yield (
            f"{prefix}{'└─' if last else '├─'} {part.title}",
            ", ".join(part.facts),
            str(len(cores)),
            strided(part.cpus),
            "" if part.parts else _threads(cores),
        )
        yield from _rows(topology, part.parts, prefix + ("   " if last else "│  "))


def _threads(cores: Sequence[CpuSet]) -> str:
    """The threads of each core, or of some of many: 0+32 1+33 … 7+39."""
    texts = ["+".join(map(str, threads)) for threads in cores]
    return " ".join(texts if len(texts) <= _SPELLED_OUT else [*texts[:2], "…", texts[-1]])


def _distances(nodes: Sequence[NumaNode]) -> Iterator[tuple[str, str]]:
    """Per node the others, nearest first. Nothing if there is nothing to compare."""
    for node in nodes if len(nodes) > 1 else ():
        by_distance: dict[int, list[int]] = {}
        for other, distance in node.distances.items():
            if other != node.id:
                by_distance.setdefault(distance, []).append(other)
        far = (f"{by} to {_nodes(by_distance[by])}" for by in sorted(by_distance))
        yield f"NUMA node {node.id}", "; ".join(far)


def _nodes(numbers: Sequence[int]) -> str:
    return f"{'node' if len(numbers) == 1 else 'nodes'} {CpuSet.of(numbers)}"
