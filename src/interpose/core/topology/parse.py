"""The files of a machine in, its topology out.

Real machines leave things out: a file that is missing never fails, the docstrings below say what is assumed instead.
Invariant: a core and a cache are named by the lowest online CPU in them, whatever the files say about each other.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from interpose.core.model.cpuset import MAX_CPUS, CpuSet
from interpose.core.topology.files import CPUS, Files
from interpose.core.topology.numa import node_of_cpus, numa_nodes
from interpose.core.topology.topology import NO_CACHE, Cache, CoreKind, Cpu, Topology

_SIZE: Final = re.compile(r"([0-9]{1,12})([KMG]?)", re.ASCII)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_KINDS: Final = {"data": "data", "instruction": "instruction"}


def parse_sysfs(files: Mapping[str, str], name: str = "") -> Topology:
    """The machine these files are of; keys are paths below /sys. ValueError that names the file and its text."""
    tree = Files(files)
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
    for one in cpus:
        members.setdefault(one.node, []).append(one.id)
    return Topology(
        cpus=cpus,
        nodes=numa_nodes(tree, {node: CpuSet.of(found) for node, found in members.items()}),
        caches=caches,
        offline=offline,
        isolated=tree.cpus(f"{CPUS}/isolated") & online,
        name=name,
    )


def _present(tree: Files) -> tuple[CpuSet, CpuSet]:
    """CPUs online and offline. Without a list of those online it is all with a folder. CPUs that could be plugged in
    but are not are neither."""
    path = f"{CPUS}/online"
    listed = tree.cpus(path) if path in tree else tree.cpu_folders
    off = CpuSet.of(cpu for cpu in tree.cpu_folders if tree.text(f"{CPUS}/cpu{cpu}/online") == "0")
    online = listed - off
    if not online:
        raise ValueError(f"file {path}: there is no CPU online" if path in tree else f"there are no CPUs in {CPUS}")
    return online, (tree.cpus(f"{CPUS}/present") | tree.cpu_folders | listed) - online


def _packages(tree: Files, online: CpuSet) -> Mapping[int, int]:
    """The package of every CPU; 0 if the kernel does not know. Some firmware numbers them by where they stand in its
    tables: such numbers are too large for a set and are counted anew."""
    found = {cpu: tree.number(f"{CPUS}/cpu{cpu}/topology/physical_package_id") for cpu in online}
    if max(found.values()) < MAX_CPUS:
        return found
    ranks = {package: rank for rank, package in enumerate(sorted(set(found.values())))}
    return {cpu: ranks[package] for cpu, package in found.items()}


def _siblings(tree: Files, online: CpuSet, packages: Mapping[int, int], dies: Mapping[int, int]) -> Iterable[CpuSet]:
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


def _caches(tree: Files, online: CpuSet) -> tuple[Cache, ...]:
    """Every cache once, the near ones first. One that does not say its level or who shares it is left out."""
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


def _efficient(tree: Files) -> CpuSet:
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
