"""Cgroups of sandboxes and containers: create, join, kill, remove, read. v1 and v2 behind the same names.

Directories are relative to the root of the hierarchies (a leading slash is fine) and cannot lead out of it. Calls
block, some for a while: they are for threads. In a scratch folder of plain files no process is ever moved or killed.
"""

import errno
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from interpose.core.model.cgroup import CGROUP_ROOT
from interpose.host.cgroup.files import CgroupFiles, KernelFiles
from interpose.host.cgroup.paths import check_confined
from interpose.node.runtime.cgroups.usage import V1_FILES, V2_FILES, CgroupStats, parse_v1, parse_v2
from interpose.node.runtime.fs import mount_table
from interpose.node.runtime.metrics import cgroup_counters
from interpose.node.runtime.metrics.cgroup_counters import CgroupCounters, HugePages
from interpose.node.runtime.plain.cgroup import NEW, make_directory

_PROCESSES: Final = "cgroup.procs"
_CPUSET: Final = ("cpuset.mems", "cpuset.cpus")
# Where a name or a path is too long there is no cgroup either: it could not be created.
_GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ENAMETOOLONG)
_BUSY: Final = (errno.EBUSY, errno.ENOTEMPTY)
_TRIES: Final = 20
_PAUSE: Final = 0.01
_TABLE: Final = "/proc/self/mountinfo"
_HUGE_PAGES: Final = "/sys/kernel/mm/hugepages"
_PATH_MAX: Final = 4096  # bytes that the kernel takes at once, with the zero at the end
_STEP: Final = 1000  # characters: with four bytes each they are few enough


class DeepFiles(KernelFiles):
    """Kernel files with paths longer than the kernel takes: containers can nest their cgroups so deep."""

    def read(self, path: str) -> str:
        """The whole text of a file."""
        with _shorten_path(path) as short:
            return super().read(short)

    def write(self, path: str, text: str) -> None:
        """Replace the content of an existing file. A very long path is not checked for links."""
        with _shorten_path(path) as short:
            if short == path:
                super().write(path, text)
                return
            descriptor = os.open(short, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory at this path."""
        try:
            with _shorten_path(path) as short:
                return super().exists(short)
        except OSError:
            return False

    def directories(self, path: str) -> list[str]:
        """Names of the directories in a directory."""
        with _shorten_path(path) as short:
            return super().directories(short)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory, however long its path is."""
        with _shorten_path(path) as short:
            super().remove_directory(short)


class ScratchFiles(KernelFiles):
    """A folder of plain files instead of cgroups: files are created when they are written, or copied from `.new`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def make_directory(self, path: str) -> None:
        """Create a cgroup with the files that new cgroups have in this hierarchy."""
        hierarchy = f"{self._root}/{path.removeprefix(f'{self._root}/').partition('/')[0]}"
        make_directory(hierarchy if self.exists(f"{hierarchy}/{NEW}") else self._root, path)

    def write(self, path: str, text: str) -> None:
        """Write a file, which is created if needed."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644))
        super().write(path, text)

    def remove_directory(self, path: str) -> None:
        """Remove a directory with its files, as the kernel does; OSError if it has subdirectories."""
        if self.directories(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        for entry in os.scandir(path):
            os.unlink(entry.path)  # noqa: PTH108
        super().remove_directory(path)


def detect(root: str = CGROUP_ROOT, *, table: str = _TABLE) -> "CgroupDirs":
    """The cgroups at a root: the kernel's, or a scratch folder (v2 layout unless it has folders of v1 controllers)."""
    root = os.path.realpath(root)
    kernel = DeepFiles()
    with open(table, encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123
        mounts = mount_table.parse(lines.read())
    kinds = {mount.kind for mount in mounts if mount.path == root or mount.path.startswith(f"{root}/")}
    on = mount_table.of_path(mounts, root)
    if (on is not None and on.kind == "cgroup2") or ("cgroup2" in kinds and "cgroup" not in kinds):
        return CgroupDirs(kernel, root, version=2)
    if "cgroup" in kinds:
        return CgroupDirs(kernel, root, version=1)
    os.makedirs(root, exist_ok=True)  # noqa: PTH103
    parts = {part for name in kernel.directories(root) for part in name.split(",")}
    version = 1 if {"cpu", "memory", "cpuset"} & parts and not kernel.exists(f"{root}/cgroup.controllers") else 2
    return CgroupDirs(ScratchFiles(root), root, version=version, scratch=True)


class CgroupDirs:
    """Cgroups below one root. No state but the paths of the hierarchies; may be used from several threads."""

    def __init__(
        self,
        files: CgroupFiles,
        root: str = CGROUP_ROOT,
        *,
        version: int,
        scratch: bool = False,
        kill: Callable[[int, int], None] = os.kill,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.version = version
        self.root = root
        self.scratch = scratch
        self._files = files
        self._kill = kill
        self._sleep = sleep
        self._unified: list[str] = []  # v2 hierarchies of a hybrid machine
        self._bases = self._hierarchies() if version == 1 else {"": root}
        self.huge_page_sizes = self._huge_page_sizes()

    # -- directories

    def make(self, path: str) -> None:
        """Create a cgroup with its parents; an existing one is fine."""
        parts = _relative(path).split("/")
        for base in self._base_folders():
            folder = base
            for part in parts:
                self._enable_controllers(folder)
                parent, folder = folder, f"{folder}/{part}"
                with suppress(FileExistsError):
                    self._files.make_directory(folder)
                self._inherit_cpuset(parent, folder)

    def exists(self, path: str) -> bool:
        """Whether there is such a cgroup in any hierarchy."""
        return any(self._files.exists(folder) for folder in self._folders(path))

    def remove(self, path: str) -> bool:
        """Remove a cgroup and those below it, as far as no process is in them; True if all are gone.

        The kernel needs a moment after the last process exited: this waits for it, but not long.
        """
        for attempt in range(_TRIES):
            left = [folder for folder in self._all_folders(path) if not self._remove_tree(folder)]
            if not left:
                return True
            if attempt < _TRIES - 1:
                self._sleep(_PAUSE)
        return False

    def remove_empty(self, path: str) -> bool:
        """Remove a cgroup without processes and child cgroups; True if it is gone."""
        gone = True
        for folder in self._all_folders(path):
            try:
                self._files.remove_directory(folder)
            except OSError as error:
                if error.errno not in (*_GONE, *_BUSY):
                    raise
                gone = gone and error.errno not in _BUSY
        return gone

    # -- processes

    def add_process(self, path: str, pid: int) -> None:
        """Move a process into a cgroup. ProcessLookupError for pid 0, which the kernel takes for ourselves."""
        if pid <= 0:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), path)
        if self.scratch:
            return
        for folder in self._folders(path):
            self._files.write(f"{folder}/{_PROCESSES}", str(pid))

    def processes(self, path: str) -> list[int]:
        """All processes of a cgroup and those below it; none if it is gone. Other PID namespaces are left out."""
        if self.scratch:
            return []
        found: dict[int, None] = {}
        for folder in self._folders(path):
            for cgroup in self._tree(folder):
                found.update(dict.fromkeys(self._pids(cgroup)))
        return list(found)

    def kill_all(self, path: str, timeout: float = 10.0) -> bool:
        """Kill all processes of a cgroup; True if it became empty in time. OSError if we are among them."""
        for _ in range(max(int(timeout / _PAUSE), 1)):
            if self.kill_once(path):
                return True
            self._sleep(_PAUSE)
        return not self.processes(path)

    def kill_once(self, path: str) -> bool:
        """Kill all processes of a cgroup, once; True if there was none. OSError if we are among them."""
        pids = self.processes(path)
        if not pids:
            return True
        if os.getpid() in pids:
            raise OSError(errno.EBUSY, "the runtime itself is in it", path)
        if self.version == 2:
            with suppress(OSError):  # kernels before 5.14 do not have it
                self._files.write(f"{self.root}/{_relative(path)}/cgroup.kill", "1")
        self._send_kill(path, pids)
        return False

    # -- reading

    def stats(self, path: str) -> CgroupStats:
        """The usage of a cgroup; all values are None if it is gone."""
        texts = self._texts(path, V1_FILES, V2_FILES)
        return parse_v2(texts) if self.version == 2 else parse_v1(texts)

    def counters(self, path: str) -> CgroupCounters:
        """Further counters of a cgroup, for metrics."""
        texts = self._texts(path, cgroup_counters.V1_COUNTER_FILES, cgroup_counters.V2_COUNTER_FILES)
        return cgroup_counters.parse_v2(texts) if self.version == 2 else cgroup_counters.parse_v1(texts)

    def huge_pages(self, path: str) -> tuple[HugePages, ...]:
        """Huge pages in use in a cgroup, by size."""
        names = cgroup_counters.huge_page_files(self.version, self.huge_page_sizes)
        return cgroup_counters.huge_pages(self._texts(path, names, names), self.huge_page_sizes)

    def oom_file(self, path: str) -> str | None:
        """The file with the OOM kill counter; None where there is no memory controller."""
        if self.version == 2:
            return f"{self.root}/{_relative(path)}/memory.events"
        base = self._bases.get("memory")
        return None if base is None else f"{base}/{_relative(path)}/memory.oom_control"

    # -- helpers

    def _texts(self, path: str, v1: Mapping[str, str], v2: Iterable[str]) -> dict[str, str]:
        """Files of a cgroup by name: those of `v1` with their controllers, or those of `v2`."""
        inside = _relative(path)
        if self.version == 2:
            return {name: self._read(f"{self.root}/{inside}/{name}") for name in v2}
        return {
            name: self._read(f"{self._bases[controller]}/{inside}/{name}")
            for name, controller in v1.items()
            if controller in self._bases
        }

    def _huge_page_sizes(self) -> tuple[str, ...]:
        """Huge page sizes as in file names, smallest first; none without the controller."""
        if self.scratch:
            return ()
        controllers = self._bases if self.version == 1 else self._read(f"{self.root}/cgroup.controllers").split()
        if "hugetlb" not in controllers:
            return ()
        sizes = sorted(int(name.removeprefix("hugepages-").removesuffix("kB")) for name in self._children(_HUGE_PAGES))
        return tuple(
            f"{size >> 20}GB" if size >= 1 << 20 else f"{size >> 10}MB" if size >= 1 << 10 else f"{size}KB"
            for size in sizes
        )

    def _hierarchies(self) -> dict[str, str]:
        """Folders by controller; several may be in one. The v2 hierarchy of a hybrid machine has none of ours."""
        found = {}
        for name in sorted(self._files.directories(self.root)):
            folder = f"{self.root}/{name}"
            if self._files.exists(f"{folder}/cgroup.controllers"):
                self._unified.append(folder)
            elif self.scratch or self._files.exists(f"{folder}/{_PROCESSES}"):
                found.update(dict.fromkeys(name.split(","), folder))
        return found

    def _base_folders(self) -> list[str]:
        return list(dict.fromkeys(self._bases.values()))

    def _folders(self, path: str) -> list[str]:
        inside = _relative(path)
        return [f"{base}/{inside}" for base in self._base_folders()]

    def _all_folders(self, path: str) -> list[str]:
        """The folders of a cgroup, also in the v2 hierarchy of a hybrid machine, which only OCI runtimes use."""
        return [*self._folders(path), *(f"{base}/{_relative(path)}" for base in self._unified)]

    def _enable_controllers(self, folder: str) -> None:
        """v2: enable the controllers of the parent for its children, as far as possible."""
        if self.version == 1 or self.scratch:
            return
        wanted = set(self._read(f"{folder}/cgroup.controllers").split())
        for controller in sorted(wanted - set(self._read(f"{folder}/cgroup.subtree_control").split())):
            with suppress(OSError):
                self._files.write(f"{folder}/cgroup.subtree_control", f"+{controller}")

    def _inherit_cpuset(self, parent: str, folder: str) -> None:
        """v1: an empty cpuset takes no process; it starts with the values of its parent."""
        if self.version == 2 or self.scratch or self._bases.get("cpuset") is None:
            return
        if not folder.startswith(f"{self._bases['cpuset']}/"):
            return
        for name in _CPUSET:
            if not self._read(f"{folder}/{name}").strip():
                self._files.write(f"{folder}/{name}", self._read(f"{parent}/{name}").strip())

    def _send_kill(self, path: str, pids: list[int]) -> None:
        """Kill processes; on v1 they are frozen meanwhile, so that none can fork."""
        freezer = self._bases.get("freezer")
        state = f"{freezer}/{_relative(path)}/freezer.state" if freezer else ""
        with suppress(OSError):
            if state:
                self._files.write(state, "FROZEN")
                pids = list(dict.fromkeys([*pids, *self.processes(path)]))
        try:
            for pid in pids:
                with suppress(ProcessLookupError):
                    self._kill(pid, signal.SIGKILL)
        finally:
            self._thaw(path)

    def _thaw(self, path: str) -> None:
        """Thaw a cgroup, also where a container has frozen it itself: on v1 frozen processes do not die."""
        base, file, word = self._bases.get("freezer"), "freezer.state", "THAWED"
        if self.version == 2:
            base, file, word = self.root, "cgroup.freeze", "0"
        if base is None:
            return
        top = f"{base}/{_relative(path)}"
        self._try_write(f"{top}/{file}", word)  # first: what we froze goes on, whatever fails below
        with suppress(OSError):
            for cgroup in self._tree(top):
                if cgroup != top:
                    self._try_write(f"{cgroup}/{file}", word)

    def _try_write(self, path: str, text: str) -> None:
        with suppress(OSError):
            self._files.write(path, text)

    def _tree(self, folder: str) -> Iterator[str]:
        """A folder after all folders below it: the order in which they can be removed.

        Works at any depth: there is no recursion, and only names are kept.
        """
        waiting = [self._children(folder)]
        while waiting:
            if waiting[-1]:
                folder = f"{folder}/{waiting[-1].pop()}"
                waiting.append(self._children(folder))
            else:
                yield folder
                folder = folder.rpartition("/")[0]
                waiting.pop()

    def _children(self, folder: str) -> list[str]:
        """Names of the child cgroups; none if it is gone."""
        try:
            return self._files.directories(folder)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return []

    def _remove_tree(self, folder: str) -> bool:
        for cgroup in self._tree(folder):
            try:
                self._files.remove_directory(cgroup)
            except OSError as error:
                if error.errno in _BUSY:
                    return False
                if error.errno not in _GONE:
                    raise
        return True

    def _pids(self, folder: str) -> list[int]:
        return [int(word) for word in self._read(f"{folder}/{_PROCESSES}").split() if word != "0"]

    def _read(self, path: str) -> str:
        try:
            return self._files.read(path)
        except OSError:
            return ""


@contextmanager
def _shorten_path(path: str) -> Iterator[str]:
    """A path that is short enough for the kernel: most of a long one is opened in steps, and stands for it."""
    if len(os.fsencode(path)) < _PATH_MAX:
        yield path
        return
    at = None
    try:
        while len(path) > _STEP:
            # Without a slash this is one name that is too long: the kernel refuses it.
            cut = path.rfind("/", 1, _STEP)
            further = os.open(path[:cut], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
            if at is not None:
                os.close(at)
            at, path = further, path[cut + 1 :]
        yield f"/proc/self/fd/{at}/{path}"
    finally:
        if at is not None:
            os.close(at)


def _relative(path: str) -> str:
    return check_confined(path.strip("/"))
