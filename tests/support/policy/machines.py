"""Machines for tests: with a name, in words, copies of real ones, or as others wrote them down."""

import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.parse import CACHE_FILES, CPU_FILES, CPUS, NODE_FILES, SINGLE_FILES, parse_sysfs
from interpose.core.topology.synthetic import Block, MachineLayout, build, parse_text
from interpose.core.topology.topology import Cpu, MemoryKind, NumaNode, Topology

# Copies of /sys of real machines: NAME.tar.xz. They are in the repository only.
FOLDER = Path(__file__).resolve().parents[2] / "data/topologies"
COPIES = ("2-socket-4-node-40-core", "desktop", "server")
NAMED: Mapping[str, str] = {
    "tiny": "1 socket x 1 core",
    "laptop": "1 socket x 2 cores",
    "n4c16": "2 sockets x 2 numa x 2 cores x 2 threads",
    "smt8": "1 socket x 4 cores x 2 threads; interleaved",
    "chiplets": "2 sockets x 16 cores x 2 threads; l3 4 cores; interleaved",
    "hybrid": "1 socket x 16 cores; efficiency 8-15",
    "big": "4 sockets x 2 numa x 16 cores x 2 threads; interleaved",
}
_GIB = 1 << 30
# Node 2 is beside node 0, node 3 beside node 1.
_BESIDE = {(0, 2): 17, (2, 0): 17, (1, 3): 17, (3, 1): 17}
# Machines with memory besides that of their CPUs: nodes of it have numbers after those with CPUs.
MIXED: Mapping[str, Sequence[Block]] = {
    "c4pmem4": (
        Block(packages=2, cores=2, memory_bytes=2 * _GIB),
        Block(packages=2, cores=0, memory_bytes=4 * _GIB, memory=MemoryKind.PMEM),
    ),
    "c8hbm": (
        Block(packages=2, cores=4, memory_bytes=8 * _GIB),
        Block(packages=2, cores=0, memory_bytes=_GIB, memory=MemoryKind.HBM),
    ),
}
_SELF, _NEAR, _FAR = 10, 12, 21
_WANTED = {path.rpartition("/")[2] for path in (*SINGLE_FILES, *CPU_FILES, *CACHE_FILES, *NODE_FILES)}


def machine(name_or_text: str, folder: Path = FOLDER) -> Topology:
    """The machine of this name, or the one that these words describe ("2p1d2n4c2t"). It goes by that name."""
    if name_or_text in COPIES:
        return read_tar(folder / f"{name_or_text}.tar.xz")
    if name_or_text in MIXED:
        return build(MIXED[name_or_text], MachineLayout(name=name_or_text, distances=_BESIDE))
    return replace(parse_text(NAMED.get(name_or_text, name_or_text)), name=name_or_text)


def tar_files(path: Path) -> dict[str, str]:
    """The files of a copy of /sys that are of use, by their paths below it; links without text."""
    found: dict[str, str] = {}
    links: dict[str, str] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            below = member.name.partition("/sys/")[2]
            if member.issym() and below.startswith(f"{CPUS}/cpu"):
                links[below] = posixpath.normpath(posixpath.join(posixpath.dirname(below), member.linkname))
            elif member.isfile() and below.rpartition("/")[2] in _WANTED:
                file = archive.extractfile(member)
                found[below] = file.read().decode() if file is not None else ""
    # Frequencies are in a folder that a CPU only links to.
    behind = {f"{link}/{name}": f"{target}/{name}" for link, target in links.items() for name in _WANTED}
    return found | dict.fromkeys(links, "") | {link: found[file] for link, file in behind.items() if file in found}


@cache
def read_tar(path: Path) -> Topology:
    """The machine that a copy of /sys is of, named as its file. Slow, so nobody reads one twice."""
    return parse_sysfs(tar_files(path), name=path.name.removesuffix(".tar.xz"))


def oracle_topology(cpus: Mapping[str, Sequence[int]], name: str = "") -> Topology:
    """A machine of the kubelet's own test tables: CPU -> (core, socket, node, uncore cache).

    The numbers of cores and caches are theirs and taken as they are: CPUs with the same one share it, whatever their
    sockets. Ours follow from them.
    """
    rows = {int(cpu): tuple(row) for cpu, row in cpus.items()}
    firsts: dict[tuple[int, int], int] = {}
    for cpu, row in sorted(rows.items()):
        for column, number in enumerate(row):
            firsts.setdefault((column, number), cpu)
    made = tuple(
        Cpu(id=cpu, package=socket, node=node, core=firsts[0, core], l2=firsts[0, core], l3=firsts[3, uncore])
        for cpu, (core, socket, node, uncore) in sorted(rows.items())
    )
    sockets = {cpu.node: cpu.package for cpu in made}
    nodes = tuple(
        NumaNode(
            id=node,
            cpus=CpuSet.of(cpu.id for cpu in made if cpu.node == node),
            memory_bytes=_GIB,
            distances={
                other: _SELF if other == node else _NEAR if sockets[other] == sockets[node] else _FAR
                for other in sorted(sockets)
            },
        )
        for node in sorted(sockets)
    )
    return Topology(cpus=made, nodes=nodes, name=name)
