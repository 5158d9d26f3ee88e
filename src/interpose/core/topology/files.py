"""The files of a machine: which of them are read, and what a text in one of them means.

Paths are those below /sys. A file that is missing says nothing; one that matters and holds something else than it
should is a ValueError with its path and its text.
"""

import re
from collections.abc import Mapping
from typing import Final

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.text import quoted

CPUS: Final = "devices/system/cpu"
NODES: Final = "devices/system/node"
# All that is read, besides the names of the folders. A link is a file without text: cpu3/node1.
SINGLE_FILES: Final = (
    f"{CPUS}/online",
    f"{CPUS}/present",
    f"{CPUS}/isolated",
    f"{NODES}/has_memory",
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


class Files:
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
