"""Processes of the host: those in a cgroup and everything inside it, and their OOM scores.

Processes come and go while they are looked at. One that is gone is FileNotFoundError or ProcessLookupError, whichever
the kernel says at that moment.
"""

import errno
from collections.abc import Callable
from typing import Final, Protocol

from interpose.host.cgroup.files import CgroupFiles

# A cgroup within another that is gone, or that has no list of its own because its processes are in its parent's.
_NOT_THERE: Final = frozenset((errno.ENOENT, errno.ENODEV, errno.ENOTSUP))


class Groups(Protocol):
    """The part of a tree of cgroups that is needed here. Directories are below its root, `children` are names."""

    def children(self, directory: str) -> list[str]: ...

    def processes(self, directory: str) -> list[int]: ...

    def threads(self, directory: str) -> list[int]: ...


def processes_below(groups: Groups, directory: str) -> frozenset[int]:
    """Processes of a cgroup and of all within it: a container may have made some of its own."""
    return _below(groups, directory, groups.processes)


def threads_below(groups: Groups, directory: str) -> frozenset[int]:
    """Threads of a cgroup and of all within it."""
    return _below(groups, directory, groups.threads)


def _below(groups: Groups, directory: str, members: Callable[[str], list[int]]) -> frozenset[int]:
    found = set(members(directory))
    waiting = [f"{directory}/{name}" for name in groups.children(directory)]
    while waiting:
        inner = waiting.pop()
        try:
            found.update(members(inner))
            waiting += [f"{inner}/{name}" for name in groups.children(inner)]
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
    return frozenset(found)


class Processes:
    """The kernel's files about processes."""

    def __init__(self, files: CgroupFiles, root: str = "/proc") -> None:
        self._files = files
        self._root = root

    def oom_score_adj(self, pid: int) -> int:
        """The adjustment of a process's OOM score, -1000 (never killed) to 1000."""
        return int(self._files.read(self._path(pid)))

    def set_oom_score_adj(self, pid: int, value: int) -> None:
        """Change the adjustment; PermissionError if it is lowered without CAP_SYS_RESOURCE."""
        self._files.write(self._path(pid), str(value))

    def _path(self, pid: int) -> str:
        return f"{self._root}/{pid}/oom_score_adj"
