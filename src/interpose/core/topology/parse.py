"""The files below /sys of a machine in, its topology out.

Real machines leave things out: a file that is missing never fails, the docstrings below say what is assumed instead. A
file that matters and holds something unexpected is a ValueError with its path and its text.
Invariant: a core and a cache are named by the lowest online CPU in them, whatever the files say about each other.

The kernel does not say what memory is made of. The rule for the memory of a NUMA node, first match wins:

1. A node without memory has no kind.
2. The memory of a node with CPUs, even if they are all offline, is ordinary memory (dram); so is all memory if no node
   with CPUs has any.
3. A node without CPUs is compared with the nearest node of ordinary memory. If the kernel knows the bandwidth of both
   (`access0/initiators/read_bandwidth`): more is hbm, less is pmem, the same is dram.
4. Otherwise by size: less than the neighbour is hbm, which is on the package and small; anything else is pmem. Memory
   behind a CXL link counts as pmem, too: slow and large.

That such a node is in `has_normal_memory` does not make it ordinary: persistent memory that was there at boot is in
it, too. A node with memory that is not in this list has movable memory only, whatever its kind: the kernel can give its
pages to programs, but cannot keep there what it needs itself for them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from interpose.core.model.cpuset import EMPTY, MAX_CPUS, CpuSet
from interpose.core.model.text import quoted
from interpose.core.topology.topology import NO_CACHE, Cache, CoreKind, Cpu, MemoryKind, NumaNode, Topology

CPUS: Final = "devices/system/cpu"
NODES: Final = "devices/system/node"
# All that is read, besides the names of the folders. A link is a file without text: cpu3/node1.
SINGLE_FILES: Final = (
    f"{CPUS}/online",
    f"{CPUS}/present",
    f"{CPUS}/isolated",
    f"{NODES}/has_memory",
    f"{NODES}/has_normal_memory",
    "devices/cpu_core/cpus",  # these three are on machines with cores of several kinds
    "devices/cpu_atom/cpus",
    "devices/cpu_lowpower/cpus",
)
CPU_FILES: Final = (
    "online",
    "topology/physical_package_id",
    "topology/die_id",
    "topology/core_id",
    "topology/thread_siblings_list",
    "cpufreq/base_frequency",
    "cpufreq/cpuinfo_max_freq",
)
CACHE_FILES: Final = ("level", "type", "size", "shared_cpu_list")  # below cache/indexN of a CPU
NODE_FILES: Final = ("cpulist", "distance", "meminfo", "access0/initiators/read_bandwidth")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_PART: Final = re.compile(rf"(?:{CPUS}/cpu|{NODES}/node)([0-9]{{1,4}})/(.+)", re.ASCII)
_LINK: Final = re.compile(r"node([0-9]{1,4})", re.ASCII)
_CACHE: Final = re.compile(r"cache/(index[0-9]{1,2})/level", re.ASCII)


class SysfsFiles:
    """Texts by path, and which CPUs, nodes and caches they are about."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        cpus: set[int] = set()
        nodes: set[int] = set()
        self.links: dict[int, int] = {}  # CPU -> node; the lowest, if a kernel that makes up nodes shows several
        self.caches: dict[int, list[str]] = {}  # CPU -> folders
        for path in sorted(files):
            part = _PART.fullmatch(path)
            if part is None:
                continue
            number, rest = int(part[1]), part[2]
            if path.startswith(NODES):
                nodes.add(number)
                continue
            cpus.add(number)
            if link := _LINK.fullmatch(rest):
                self.links[number] = min(int(link[1]), self.links.get(number, int(link[1])))
            elif cache := _CACHE.fullmatch(rest):
                self.caches.setdefault(number, []).append(f"{CPUS}/cpu{number}/cache/{cache[1]}")
        self.cpu_folders = CpuSet.of(cpus)
        self.node_folders = CpuSet.of(nodes)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def text(self, path: str) -> str:
        """What is in a file; empty if it is missing."""
        return self._files.get(path, "").strip()

    def cpus(self, path: str) -> CpuSet:
        """A list of CPUs or nodes; the empty set if the file is missing."""
        text = self.text(path)
        if text == "(null)":  # what some kernels make of an empty list
            return EMPTY
        try:
            return CpuSet.parse(text)
        except ValueError as error:
            raise ValueError(f"file {path}: {error}") from None

    def number(self, path: str, missing: int = 0) -> int:
        """A number; `missing` also where the kernel says -1, which means that it does not know."""
        text = self.text(path)
        if not text:
            return missing
        if _NUMBER.fullmatch(text) is None:
            raise ValueError(f"file {path}: expected a number, found {quoted(text)}")
        return missing if text.startswith("-") else int(text)

    def hint(self, path: str) -> int:
        """A number that nothing depends on: 0 if it is none."""
        text = self.text(path)
        return int(text) if _NUMBER.fullmatch(text) and not text.startswith("-") else 0


SELF_DISTANCE: Final = 10
UNKNOWN_DISTANCE: Final = 20  # what kernels assume between two nodes if the firmware does not say
MAX_DISTANCE: Final = 255
_TOTAL: Final = re.compile(r"MemTotal:\s*([0-9]{1,15}) kB", re.ASCII)


def node_of_cpus(files: SysfsFiles, packages: Mapping[int, int]) -> Mapping[int, int]:
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
    """The memory of a NUMA node as the files show it."""

    node: int
    populated: bool  # with CPUs, online or not
    present: bool
    size: int
    bandwidth: int


def numa_nodes(files: SysfsFiles, members: Mapping[int, CpuSet]) -> tuple[NumaNode, ...]:
    """All nodes; `members` are the CPUs of those that have some online."""
    ids = sorted({*files.node_folders, *members})
    distances = {node: _distances(files, node, ids) for node in ids}
    linked = set(files.links.values())
    memories = [_memory(files, node, node in members or node in linked) for node in ids]
    ordinary = [memory for memory in memories if memory.populated and memory.present]
    normal = files.cpus(f"{NODES}/has_normal_memory")  # a machine has some: an empty list says nothing
    return tuple(
        NumaNode(
            id=memory.node,
            cpus=members.get(memory.node, CpuSet()),
            memory_bytes=memory.size,
            memory=_kind(memory, ordinary, distances[memory.node]),
            movable=memory.present and bool(normal) and memory.node not in normal,
            distances=distances[memory.node],
        )
        for memory in memories
    )


def _memory(files: SysfsFiles, node: int, populated: bool) -> _Memory:
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
        present=size > 0 if total else listed,
        size=size,
        bandwidth=files.hint(f"{folder}/access0/initiators/read_bandwidth"),
    )


def _kind(memory: _Memory, ordinary: list[_Memory], distances: Mapping[int, int]) -> MemoryKind:
    if not memory.present:
        return MemoryKind.NONE
    if memory.populated or not ordinary:
        return MemoryKind.DRAM
    near = min(ordinary, key=lambda other: (distances[other.node], other.node))
    if memory.bandwidth and near.bandwidth:
        if memory.bandwidth == near.bandwidth:
            return MemoryKind.DRAM
        return MemoryKind.HBM if memory.bandwidth > near.bandwidth else MemoryKind.PMEM
    return MemoryKind.HBM if memory.size < near.size else MemoryKind.PMEM


def _distances(files: SysfsFiles, node: int, ids: list[int]) -> Mapping[int, int]:
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


_SIZE: Final = re.compile(r"([0-9]{1,12})([KMG]?)", re.ASCII)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_KINDS: Final = {"data": "data", "instruction": "instruction"}


def parse_sysfs(files: Mapping[str, str], name: str = "") -> Topology:
    """The machine these files are of; keys are paths below /sys. ValueError that names the file and its text."""
    tree = SysfsFiles(files)
    online, offline = _present(tree)
    packages = _packages(tree, online)
    nodes = node_of_cpus(tree, packages)
    dies = {cpu: tree.number(f"{CPUS}/cpu{cpu}/topology/die_id") for cpu in online}
    cores = _lowest(_siblings(tree, online, packages, dies))
    caches = _caches(tree, online)
    l2, l3 = (_lowest(cache.cpus for cache in caches if _holds_data(cache, level)) for level in (2, 3))
    efficient = _efficient(tree)
    cpus = tuple(
        Cpu(
            id=cpu,
            package=packages[cpu],
            die=dies[cpu],
            node=nodes[cpu],
            core=cores[cpu],
            l2=l2.get(cpu, NO_CACHE),
            l3=l3.get(cpu, NO_CACHE),
            kind=CoreKind.EFFICIENCY if cpu in efficient else CoreKind.PERFORMANCE,
            base_khz=tree.hint(f"{CPUS}/cpu{cpu}/cpufreq/base_frequency"),
            max_khz=tree.hint(f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq"),
        )
        for cpu in online
    )
    members: dict[int, list[int]] = {}
    for found in cpus:
        members.setdefault(found.node, []).append(found.id)
    return Topology(
        cpus=cpus,
        nodes=numa_nodes(tree, {node: CpuSet.of(ids) for node, ids in members.items()}),
        caches=caches,
        offline=offline,
        isolated=tree.cpus(f"{CPUS}/isolated") & online,
        name=name,
    )


def _present(tree: SysfsFiles) -> tuple[CpuSet, CpuSet]:
    """CPUs online and offline. Without a list of those online it is all with a folder. CPUs that could be plugged in
    but are not are neither."""
    path = f"{CPUS}/online"
    listed = tree.cpus(path) if path in tree else tree.cpu_folders
    off = CpuSet.of(cpu for cpu in tree.cpu_folders if tree.text(f"{CPUS}/cpu{cpu}/online") == "0")
    online = listed - off
    if not online:
        raise ValueError(f"file {path}: there is no CPU online" if path in tree else f"there are no CPUs in {CPUS}")
    return online, (tree.cpus(f"{CPUS}/present") | tree.cpu_folders | listed) - online


def _packages(tree: SysfsFiles, online: CpuSet) -> Mapping[int, int]:
    """The package of every CPU; 0 if the kernel does not know. Some firmware numbers them by where they stand in its
    tables: such numbers are too large for a set and are replaced by their ranks."""
    found = {cpu: tree.number(f"{CPUS}/cpu{cpu}/topology/physical_package_id") for cpu in online}
    if max(found.values()) < MAX_CPUS:
        return found
    ranks = {package: rank for rank, package in enumerate(sorted(set(found.values())))}
    return {cpu: ranks[package] for cpu, package in found.items()}


def _siblings(
    tree: SysfsFiles, online: CpuSet, packages: Mapping[int, int], dies: Mapping[int, int]
) -> Iterable[CpuSet]:
    """The threads of each core: by the lists of siblings, else by equal core ids, else every CPU is a core."""
    by_id: dict[tuple[int, int, int], list[int]] = {}
    for cpu in online:
        folder = f"{CPUS}/cpu{cpu}/topology"
        threads = tree.cpus(f"{folder}/thread_siblings_list") & online
        core = tree.number(f"{folder}/core_id", missing=-1)
        if not threads and core >= 0:
            by_id.setdefault((packages[cpu], dies[cpu], core), []).append(cpu)
        yield threads | CpuSet.of([cpu])
    yield from (CpuSet.of(threads) for threads in by_id.values())


def _caches(tree: SysfsFiles, online: CpuSet) -> tuple[Cache, ...]:
    """Every cache once, the near ones first. A cache without a level or a list of its CPUs is left out."""
    found: dict[tuple[int, str, int], Cache] = {}
    for cpu in online:
        for folder in tree.caches.get(cpu, ()):
            level = tree.number(f"{folder}/level")
            shared = tree.cpus(f"{folder}/shared_cpu_list") & online
            kind = _KINDS.get(tree.text(f"{folder}/type").lower(), "unified")
            if level and shared:
                size = _size(tree.text(f"{folder}/size"))
                found.setdefault(
                    (level, kind, shared.mask), Cache(level=level, kind=kind, size_bytes=size, cpus=shared)
                )
    return tuple(sorted(found.values(), key=lambda cache: (cache.level, cache.kind, next(iter(cache.cpus)))))


def _holds_data(cache: Cache, level: int) -> bool:
    return cache.level == level and cache.kind != "instruction"


def _size(text: str) -> int:
    """Bytes; 0 if that cannot be read, for nothing depends on it."""
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else 0


def _efficient(tree: SysfsFiles) -> CpuSet:
    """CPUs built to save energy. Where nothing else is there, they are simply the CPUs."""
    if not tree.cpus("devices/cpu_core/cpus"):
        return CpuSet()
    return tree.cpus("devices/cpu_atom/cpus") | tree.cpus("devices/cpu_lowpower/cpus")


def _lowest(groups: Iterable[CpuSet]) -> Mapping[int, int]:
    """The lowest CPU of the group that each CPU is in. Groups that overlap are one: CPUs that come and go while the
    files are read leave lists that do not fit each other."""
    group_of: dict[int, CpuSet] = {}
    for group in set(groups):
        joined = CpuSet.union([group, *(group_of[cpu] for cpu in group if cpu in group_of)])
        group_of.update((cpu, joined) for cpu in joined)
    return {cpu: next(iter(group)) for cpu, group in group_of.items()}
