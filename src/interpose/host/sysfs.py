"""Read the kernel's description of the machine. Nothing is ever written, and no CPU is brought online to be looked at.

A root is what contains `devices/system`, or the folder above a `sys` that does, as in a copy of another machine.
"""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interpose.core.topology.node_memory import NodeMemory, parse_node_memory
from interpose.core.topology.parse import CACHE_FILES, CPU_FILES, CPUS, NODE_FILES, NODES, SINGLE_FILES, parse_sysfs
from interpose.core.topology.topology import Topology

# The longest list of CPUs is below that, and so is every other file here.
_MAX_BYTES: Final = 64 * 1024
# What a file answers whose CPU or node went away between the listing and the reading.
_GONE: Final = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EIO, errno.EINVAL, errno.EISDIR)
)
_TRIES: Final = 3
_CPU: Final = re.compile(r"cpu[0-9]+", re.ASCII)
_NODE: Final = re.compile(r"node[0-9]+", re.ASCII)
_HUGE: Final = re.compile(r"hugepages-[0-9]+kB", re.ASCII)
_INDEX: Final = re.compile(r"index[0-9]+", re.ASCII)


def read_topology(root: str = "/sys", name: str = "") -> Topology:
    """The machine as it is now; OSError, or ValueError that names the file, if it cannot be understood.

    CPUs may come and go meanwhile: then everything is read again.
    """
    base = _base(root)
    for _ in range(_TRIES):
        before = read_online_cpus(root)
        files = _read_files(base)
        if read_online_cpus(root) == before:
            break
    try:
        return parse_sysfs(files, name)
    except ValueError as error:
        raise ValueError(f"{base}: {error}") from None


def read_files(root: str = "/sys") -> dict[str, str]:
    """The files that say what the machine is, by their paths below the root; links without text."""
    return _read_files(_base(root))


def read_online_cpus(root: str = "/sys") -> str:
    """The same text as long as the same CPUs are online and isolated; two files, so cheap to ask often."""
    base = _base(root)
    return "\n".join(_read(base / CPUS / name) or "" for name in ("online", "isolated"))


def read_node_memory(root: str = "/sys") -> dict[int, NodeMemory]:
    """What the NUMA nodes have left, by number; nodes that do not say it are left out. Some small files for each."""
    base = _base(root) / NODES
    found: dict[int, NodeMemory] = {}
    for name in sorted(_names(base, _NODE), key=lambda name: int(name[4:])):
        sizes = _names(base / name / "hugepages", _HUGE)
        huge = {size: _read(base / name / "hugepages" / size / "nr_hugepages") or "" for size in sizes}
        memory = parse_node_memory(_read(base / name / "meminfo") or "", huge)
        if memory is not None:
            found[int(name[4:])] = memory
    return found


def _base(root: str) -> Path:
    for base in (Path(root), Path(root, "sys")):
        if (base / CPUS).is_dir():
            return base
    raise FileNotFoundError(errno.ENOENT, f"there is no {CPUS} in it", root)


def _read_files(base: Path) -> dict[str, str]:
    return {path: text for path in _paths(base) if (text := _read(base / path)) is not None} | _links(base)


def _paths(base: Path) -> Iterator[str]:
    yield from SINGLE_FILES
    for cpu in _names(base / CPUS, _CPU):
        folder = f"{CPUS}/{cpu}"
        yield from (f"{folder}/{name}" for name in CPU_FILES)
        for index in _names(base / folder / "cache", _INDEX):
            yield from (f"{folder}/cache/{index}/{name}" for name in CACHE_FILES)
    for node in _names(base / NODES, _NODE):
        yield from (f"{NODES}/{node}/{name}" for name in NODE_FILES)


def _links(base: Path) -> dict[str, str]:
    cpus = (f"{CPUS}/{cpu}" for cpu in _names(base / CPUS, _CPU))
    return {f"{folder}/{node}": "" for folder in cpus for node in _names(base / folder, _NODE)}


def _names(folder: Path, form: re.Pattern[str]) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if form.fullmatch(name)]  # noqa: PTH208
    except OSError as error:
        if error.errno in _GONE:
            return []
        raise


def _read(path: Path) -> str | None:
    try:
        with path.open("rb", buffering=0) as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise
