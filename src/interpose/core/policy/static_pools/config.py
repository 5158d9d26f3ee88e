"""Pools as they are configured: CMK's tree of directories, and what is wrong with pools on a given machine.

Pure: the tree comes as a mapping, which `resmgr.config.pool_files` reads. All problems are found at once.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.text import quoted
from interpose.core.policy.static_pools.options import Pool, PoolCpuList
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError

ROOT: Final = "pools"  # of CMK's tree
FLAG: Final = "exclusive"  # the file in a pool's directory that says what kind it is
_FLAGS: Final[Mapping[str, bool]] = {"1": True, "0": False}
_LIST: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*", re.ASCII)
_SOCKET: Final = re.compile(r"\d{1,4}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)


# -- CMK's tree


@dataclass(slots=True)
class _Tree:
    """Pools while their paths are read."""

    flags: dict[str, bool] = field(default_factory=dict)
    lists: dict[str, list[PoolCpuList]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def pools_of_tree(entries: Mapping[str, str | None], where: str) -> Mapping[str, Pool]:
    """The pools of a tree: path below its root -> content of a file, None for a directory.

    `pools/NAME/exclusive` is a file with 0 or 1, `pools/NAME/SOCKET/CPULIST` are directories. What is in the latter
    and files of other names are ignored. ConfigError that names `where` and the paths.
    """
    tree = _Tree()
    for path in sorted(entries):
        match path.split("/"):
            case [root, name] if root == ROOT and entries[path] is None:
                tree.lists.setdefault(name, [])
            case [root, name, last] if root == ROOT:
                _read_entry(tree, path, name, last, entries[path])
            case [root, name, socket, text] if root == ROOT and entries[path] is None and _SOCKET.fullmatch(socket):
                _read_list(tree, path, name, int(socket), text)
    tree.problems += [f"{ROOT}/{name}/{FLAG}: is missing" for name in tree.lists if name not in tree.flags]
    if tree.problems:
        raise ConfigError([f"{where}: {problem}" for problem in tree.problems])
    return {
        name: Pool(exclusive=tree.flags[name], lists=tuple(sorted(lists, key=_list_order)))
        for name, lists in tree.lists.items()
    }


def _read_entry(tree: _Tree, path: str, name: str, last: str, content: str | None) -> None:
    """Something in a pool's directory: the flag, or a socket."""
    if content is None:
        if not _SOCKET.fullmatch(last):
            tree.problems.append(f"{path}: expected the number of a socket, found {quoted(last)}")
    elif last == FLAG:
        flag = _FLAGS.get(content.strip())
        if flag is None:
            tree.problems.append(f"{path}: expected 0 or 1, found {quoted(content)}")
        tree.flags[name] = bool(flag)


def _read_list(tree: _Tree, path: str, name: str, socket: int, text: str) -> None:
    if not _LIST.fullmatch(text):
        tree.problems.append(f"{path}: expected CPUs such as 4-7 or 1,3, found {quoted(text)}")
        return
    try:
        cpus = CpuSet.parse(text)
    except ValueError as error:
        tree.problems.append(f"{path}: {error}")
        return
    tree.lists.setdefault(name, []).append(PoolCpuList(cpus=cpus, text=text, socket=socket))


def _list_order(cpu_list: PoolCpuList) -> tuple[int, int]:
    """A tree has no order: by socket, then by number."""
    return cpu_list.socket, min(cpu_list.cpus)


# -- pools on a machine


def check_pools(
    pools: Mapping[str, Pool], topology: Topology, available: CpuSet | None = None, reserved: CpuSet = EMPTY
) -> list[str]:
    """What is wrong with these pools here.

    All must be among `available`, and `reserved` CPUs are in no exclusive pool.
    """
    if not pools:
        return ["static-pools: there are no pools"]
    problems: list[str] = []
    machine = topology.online | topology.offline
    if available is not None and (strange := available - machine):
        problems.append(f"available resources: CPUs {strange} do not exist; this machine has {machine}")
    owners: dict[int, str] = {}
    for name, pool in pools.items():
        if not _NAME.fullmatch(name):
            problems.append(f"pool {quoted(name)}: the name must be of letters, digits, dots, dashes, underscores")
        if not pool.lists:
            problems.append(f"pool {name}: has no CPU lists")
        for cpu_list in pool.lists:
            where = f"pool {name}: list {quoted(cpu_list.text)}"
            problems += [f"{where}: {text}" for text in _list_problems(cpu_list, pool, machine, available, reserved)]
            problems += _overlaps(where, cpu_list, owners)
    return problems


def _list_problems(
    cpu_list: PoolCpuList, pool: Pool, machine: CpuSet, available: CpuSet | None, reserved: CpuSet
) -> Iterator[str]:
    if not cpu_list.cpus:
        yield "has no CPUs"
    if strange := cpu_list.cpus - machine:
        yield f"CPUs {strange} do not exist; this machine has {machine}"
    if available is not None and (outside := cpu_list.cpus & machine - available):
        yield f"CPUs {outside} are not among the available ones, {available}"
    if pool.exclusive and (taken := cpu_list.cpus & reserved):
        yield f"CPUs {taken} are reserved, so no container can have them alone"


def _overlaps(where: str, cpu_list: PoolCpuList, owners: dict[int, str]) -> Iterator[str]:
    """One problem for each list before that has some of these CPUs."""
    common: dict[str, list[int]] = {}
    for cpu in cpu_list.cpus:
        owner = owners.setdefault(cpu, where)
        if owner is not where:
            common.setdefault(owner, []).append(cpu)
    for owner, cpus in common.items():
        yield f"{where}: CPUs {CpuSet.of(cpus)} are in {owner} too"


def online_pools(pools: Mapping[str, Pool], topology: Topology) -> tuple[Mapping[str, Pool], tuple[str, ...]]:
    """The pools without CPUs that are offline, and what there is to say about it.

    A list without its offline CPUs is the text that containers get: they use it to place their threads.
    """
    notes: list[str] = []
    found: dict[str, Pool] = {}
    for name, pool in pools.items():
        lists: list[PoolCpuList] = []
        for cpu_list in pool.lists:
            where = f"pool {name}: list {quoted(cpu_list.text)}"
            rest = cpu_list.cpus & topology.online
            if rest != cpu_list.cpus:
                notes.append(f"{where}: CPUs {cpu_list.cpus - rest} are offline and left out")
                cpu_list = replace(cpu_list, cpus=rest, text=str(rest))
            if rest:
                lists.append(cpu_list)
                packages = topology.packages_of(rest)
                if packages != CpuSet.of((cpu_list.socket,)):
                    notes.append(
                        f"{where}: is said to be of socket {cpu_list.socket}, its CPUs are in package {packages}"
                    )
        found[name] = replace(pool, lists=tuple(lists))
    return found, tuple(notes)
