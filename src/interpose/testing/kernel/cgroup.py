"""A kernel in memory, for tests of whoever reads and writes cgroups: files with the rules that the real ones have.

`FakeKernel` is a `host.cgroup.files.Files`. What a real kernel refuses it refuses, with the same error.
"""

import errno
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from interpose.core.model.cgroup import CGROUP_ROOT, KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.host.cgroup.paths import CgroupLayout, Driver
from interpose.testing.kernel.cgroup_rules import (
    V1_FILES,
    V2_FILES,
    FakeCgroup,
    FakeCgroupFile,
    FakeCgroupTree,
    number_of,
    refuse,
)

# The directories in the root on v1, as distributions have them: cpu and cpuacct are one, with links for each name.
_V1_HIERARCHIES: Final = ("cpu,cpuacct", "cpuset", "memory")
_V1_LINKS: Final[Mapping[str, str]] = MappingProxyType({"cpu": "cpu,cpuacct", "cpuacct": "cpu,cpuacct"})


class FakeKernel:
    """Cgroups, and of /proc what belongs to them. All calls are under one lock, so threads may share it.

    `make`, `remove`, `spawn` and `kill` are what others do; `read`, `write` and the rest of `Files` are what is tested.
    """

    def __init__(
        self,
        version: int = 2,
        cpus: str = "0-7",
        mems: str = "0-1",
        root: str = CGROUP_ROOT,
        *,
        bvt: bool = False,
        idle: bool = True,
        proc: str = "/proc",
        sysctls: Mapping[str, int] = MappingProxyType({}),
        privileged: bool = True,
    ) -> None:
        self.version = version
        self.root = root
        self.proc = proc
        self.privileged = privileged  # whether OOM scores may be lowered
        self.writes: list[tuple[str, str]] = []  # what was accepted, in order
        self.refused: list[tuple[str, str, int]] = []  # what was not, with the error
        self.out_of_memory: list[int] = []  # processes killed because a limit of v2 was set below the usage
        self._hierarchies = _V1_HIERARCHIES if version == 1 else ("",)
        missing = {name for name, there in (("cpu.bvt_warp_ns", bvt), ("cpu.idle", idle)) if not there}
        every = V1_FILES if version == 1 else V2_FILES
        self._files = {name: file for name, file in every.items() if name not in missing}
        root_group = FakeCgroup("", None, set(self._hierarchies), cpus=CpuSet.parse(cpus), mems=CpuSet.parse(mems))
        self.node = FakeCgroupTree(version=version, root=root_group)
        switches = {"sched_group_identity_enabled": 0, **sysctls} if bvt else sysctls
        self._plain = {f"{proc}/sys/kernel/{name}": f"{value}\n" for name, value in switches.items()}
        self._failures: dict[str, list[int]] = {}
        self._lock = threading.RLock()

    @property
    def usage(self) -> dict[str, int]:
        """Bytes of memory in use, by directory; tests fill it."""
        return self.node.usage

    # -- what others do

    def make(self, directory: str) -> str:
        """Make a cgroup and those above it, in all hierarchies; a v1 cpuset starts with the parent's, as runc does."""
        with self._lock:
            group = self.node.root
            for name in directory.split("/"):
                if name not in group.children:
                    path = f"{group.path}/{name}".lstrip("/")
                    group.children[name] = FakeCgroup(path, group)
                    if self.version == 1:
                        group.children[name].cpus, group.children[name].mems = group.cpus, group.mems
                group = group.children[name]
                group.where.update(self._hierarchies)
            return directory

    def remove(self, directory: str) -> None:
        """Remove a cgroup from all hierarchies; EBUSY if there is anything in it."""
        with self._lock:
            group = self.group(directory)
            if group.children or group.processes:
                raise refuse(errno.EBUSY)
            self._forget(group)

    def spawn(self, directory: str, pid: int, threads: tuple[int, ...] = (), oom_score_adj: int = 0) -> int:
        """A process appears in a cgroup. Its first thread has its own number."""
        with self._lock:
            self.group(directory).processes[pid] = tuple(dict.fromkeys((pid, *threads)))
            self._plain[f"{self.proc}/{pid}/oom_score_adj"] = f"{oom_score_adj}\n"
            return pid

    def kill(self, pid: int) -> None:
        """A process is gone; one that never was is fine."""
        with self._lock:
            for group in self.node.root.below():
                group.processes.pop(pid, None)
            for path in [path for path in self._plain if path.startswith(f"{self.proc}/{pid}/")]:
                del self._plain[path]

    def put(self, path: str, text: str) -> None:
        """A plain file anywhere, without rules."""
        with self._lock:
            self._plain[path] = text

    def fail(self, path: str, code: int, times: int = 1) -> None:
        """The next so many reads or writes of this file end with this error."""
        with self._lock:
            self._failures[path] = [code] * times

    # -- what there is

    def group(self, directory: str) -> FakeCgroup:
        """A cgroup; FileNotFoundError if there is none."""
        group = self.node.root
        for name in filter(None, directory.split("/")):
            if name not in group.children:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
            group = group.children[name]
        return group

    def path(self, directory: str, file: str) -> str:
        """Where a file of a cgroup is."""
        controller = self._files[file].controller
        name = next((name for name in self._hierarchies if controller in name.split(",")), self._hierarchies[0])
        return "/".join(filter(None, (self.root, name, directory, file)))

    def get(self, directory: str, file: str) -> str:
        """What a file of a cgroup has, without the line end."""
        return self.read(self.path(directory, file)).rstrip("\n")

    def contents(self, directory: str, hierarchy: str = "") -> dict[str, str]:
        """All files of a cgroup in one hierarchy, with what they have."""
        group = self.group(directory)
        return {
            name: file.read(self.node, group) + "\n"
            for name, file in self._files.items()
            if self._has(file, hierarchy, group)
        }

    # -- Files

    def read(self, path: str) -> str:
        """All of a file."""
        with self._lock:
            self._maybe_fail(path)
            if path in self._plain:
                return self._plain[path]
            group, file = self._locate(path)
            return f"{file.read(self.node, group)}\n"

    def write(self, path: str, text: str) -> None:
        """Let the kernel judge a value. Writing nothing does not reach it."""
        with self._lock:
            try:
                self._maybe_fail(path)
                if path in self._plain:
                    self._write_plain(path, text)
                else:
                    group, file = self._locate(path)
                    if file.write is None:
                        raise refuse(errno.EACCES)
                    if text:
                        file.write(self.node, group, text)
                        self._reap()
            except OSError as error:
                self.refused.append((path, text, error.errno or 0))
                raise
            self.writes.append((path, text))

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        with self._lock:
            if path in self._plain or path == self.root or any(each.startswith(f"{path}/") for each in self._plain):
                return True
            try:
                hierarchy, directory = self._split(path)
                if self._is_directory(hierarchy, directory):
                    return True
                self._locate(path)
            except OSError:
                return False
            return True

    def directories(self, path: str) -> list[str]:
        """Names of the directories in a directory; links are none."""
        with self._lock:
            if path == self.root and self.version == 1:
                return list(self._hierarchies)
            hierarchy, directory = self._split(path)
            if not self._is_directory(hierarchy, directory):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return [name for name, child in self.group(directory).children.items() if hierarchy in child.where]

    def make_directory(self, path: str) -> None:
        """Make a cgroup in one hierarchy. A v1 cpuset is empty then, as the kernel leaves it."""
        with self._lock:
            hierarchy, directory = self._split(path)
            above, _, name = directory.rpartition("/")
            if not self._is_directory(hierarchy, above):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            if self._is_directory(hierarchy, directory):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            parent = self.group(above)
            parent.children.setdefault(name, FakeCgroup(directory, parent)).where.add(hierarchy)

    def remove_directory(self, path: str) -> None:
        """Remove a cgroup from one hierarchy."""
        with self._lock:
            hierarchy, directory = self._split(path)
            if not directory or not self._is_directory(hierarchy, directory):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            group = self.group(directory)
            if group.processes or any(hierarchy in child.where for child in group.children.values()):
                raise refuse(errno.EBUSY)
            group.where.discard(hierarchy)
            if not group.where:
                self._forget(group)

    # -- inside

    def _split(self, path: str) -> tuple[str, str]:
        """Hierarchy and directory of a path below the root."""
        if path != self.root and not path.startswith(f"{self.root}/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        below = path[len(self.root) + 1 :]
        if self.version != 1:
            return "", below
        name, _, directory = below.partition("/")
        return _V1_LINKS.get(name, name), directory

    def _is_directory(self, hierarchy: str, directory: str) -> bool:
        try:
            return hierarchy in self.group(directory).where
        except FileNotFoundError:
            return False

    def _locate(self, path: str) -> tuple[FakeCgroup, FakeCgroupFile]:
        above, _, name = path.rpartition("/")
        hierarchy, directory = self._split(above)
        file = self._files.get(name)
        if file is None or not self._is_directory(hierarchy, directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        group = self.group(directory)
        if not self._has(file, hierarchy, group):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return group, file

    def _has(self, file: FakeCgroupFile, hierarchy: str, group: FakeCgroup) -> bool:
        if group.parent is None and not file.root:
            return False
        return self.version != 1 or not file.controller or file.controller in hierarchy.split(",")

    def _maybe_fail(self, path: str) -> None:
        if self._failures.get(path):
            code = self._failures[path].pop()
            raise OSError(code, os.strerror(code), path)

    def _write_plain(self, path: str, text: str) -> None:
        if path.endswith("/oom_score_adj") and text:
            number = number_of(text)
            if not -1000 <= number <= 1000:
                raise refuse(errno.EINVAL)
            if not self.privileged and number < int(self._plain[path]):
                raise refuse(errno.EACCES)
            text = f"{number}\n"
        self._plain[path] = text or self._plain[path]

    def _reap(self) -> None:
        while self.node.doomed:
            self.out_of_memory.append(pid := self.node.doomed.pop())
            self.kill(pid)

    def _forget(self, group: FakeCgroup) -> None:
        if group.parent is not None:
            del group.parent.children[group.path.rpartition("/")[2]]
        self.usage.pop(group.path, None)


def plant(root: Path, directory: str, version: int = 2, cpus: str = "0-7", mems: str = "0-1") -> None:
    """Make a cgroup in a plain directory tree: for processes that cannot be given a `FakeKernel`. No rules there."""
    kernel = FakeKernel(version, cpus, mems)
    if directory:
        kernel.make(directory)
    for hierarchy in _V1_HIERARCHIES if version == 1 else ("",):
        parts = [part for part in directory.split("/") if part]
        for depth in range(len(parts) + 1):
            above = "/".join(parts[:depth])
            folder = root / hierarchy / above
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in kernel.contents(above, hierarchy).items():
                if not (folder / name).exists():
                    (folder / name).write_text(text)


def build_tree(
    root: Path,
    version: int = 2,
    driver: Driver = Driver.SYSTEMD,
    cpus: str = "0-7",
    mems: str = "0-1",
    kubepods: str = "kubepods",
) -> CgroupLayout:
    """A plain directory tree as a node with a kubelet has it, and how its directories are named."""
    layout = CgroupLayout(driver=driver, root=kubepods)
    for qos in KubeQos:
        plant(root, layout.qos_directory(qos), version, cpus, mems)
    return layout
