"""Cgroups of sandboxes and containers: made, filled, emptied, removed, read. v1 and v2 behind the same names.

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
from interpose.host.cgroup.paths import confined
from interpose.node.runtime.cgroups.usage import V1_FILES, V2_FILES, CgroupStats, parse_v1, parse_v2
from interpose.node.runtime.fs import mount_table as mounttable
from interpose.node.runtime.metrics import cgroup_counters as cgroupcounters
from interpose.node.runtime.metrics.cgroup_counters import CgroupCounters, HugePages
from interpose.node.runtime.plain.cgroup import NEW, make_directory

_PROCESSES: Final = "cgroup.procs"
_CPUSET: Final = ("cpuset.mems", "cpuset.cpus")
# Where a name or a path is too long there is nothing either: it could not be made.
_GONE: Final = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR, errno.ENAMETOOLONG)
_BUSY: Final = (errno.EBUSY, errno.ENOTEMPTY)
_TRIES: Final = 20
_PAUSE: Final = 0.01
_TABLE: Final = "/proc/self/mountinfo"
_HUGE_PAGES: Final = "/sys/kernel/mm/hugepages"
_PATH_MAX: Final = 4096  # bytes that the kernel takes at once, with the zero at the end
_STEP: Final = 1000  # characters: with four bytes each they are few enough


class DeepFiles(KernelFiles):
    """Also where a path is longer than the kernel takes: who may make cgroups in a container can nest them so."""

    def read(self, path: str) -> str:
        """All of a file."""
        with _near(path) as near:
            return super().read(near)

    def write(self, path: str, text: str) -> None:
        """Replace what is in a file that exists. The kernel cannot tell where a very long path has led."""
        with _near(path) as near:
            if near == path:
                super().write(path, text)
                return
            descriptor = os.open(near, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)

    def exists(self, path: str) -> bool:
        """Whether there is something at this path."""
        try:
            with _near(path) as near:
                return super().exists(near)
        except OSError:
            return False

    def directories(self, path: str) -> list[str]:
        """Names of the directories in a directory."""
        with _near(path) as near:
            return super().directories(near)

    def remove_directory(self, path: str) -> None:
        """Remove a directory."""
        with _near(path) as near:
            super().remove_directory(near)


class ScratchFiles(KernelFiles):
    """A folder of plain files in the place of cgroups: files come into being when they are written, or with `.new`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def make_directory(self, path: str) -> None:
        """With the files that new cgroups have in this hierarchy."""
        hierarchy = f"{self._root}/{path.removeprefix(f'{self._root}/').partition('/')[0]}"
        make_directory(hierarchy if self.exists(f"{hierarchy}/{NEW}") else self._root, path)

    def write(self, path: str, text: str) -> None:
        """Make the file if need be."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644))
        super().write(path, text)

    def remove_directory(self, path: str) -> None:
        """As the kernel's directories: with the files in them, unless there are others below."""
        if self.directories(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        for entry in os.scandir(path):
            os.unlink(entry.path)  # noqa: PTH108
        super().remove_directory(path)


def detect(root: str = CGROUP_ROOT, *, table: str = _TABLE) -> "CgroupDirs":
    """The cgroups at a root: the kernel's, or a scratch folder (v2's form unless it has folders of v1 controllers)."""
    root = os.path.realpath(root)
    kernel = DeepFiles()
    with open(table, encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123
        mounts = mounttable.parse(lines.read())
    kinds = {one.kind for one in mounts if one.path == root or one.path.startswith(f"{root}/")}
    on = mounttable.of_path(mounts, root)
    if (on is not None and on.kind == "cgroup2") or ("cgroup2" in kinds and "cgroup" not in kinds):
        return CgroupDirs(kernel, root, version=2)
    if "cgroup" in kinds:
        return CgroupDirs(kernel, root, version=1)
    os.makedirs(root, exist_ok=True)  # noqa: PTH103
    parts = {part for name in kernel.directories(root) for part in name.split(",")}
    version = 1 if {"cpu", "memory", "cpuset"} & parts and not kernel.exists(f"{root}/cgroup.controllers") else 2
    return CgroupDirs(ScratchFiles(root), root, version=version, scratch=True)


class CgroupDirs:
    """Cgroups below one root. No state but where the hierarchies are; may be used from several threads."""

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
        self._beside: list[str] = []  # v2 hierarchies of a hybrid machine
        self._bases = self._hierarchies() if version == 1 else {"": root}
        self.huge_page_sizes = self._huge_page_sizes()

    # -- directories

    def make(self, path: str) -> None:
        """Make a cgroup with all that leads to it; one that is there is fine."""
        parts = _inside(path).split("/")
        for base in self._places():
            folder = base
            for part in parts:
                self._hand_down(folder)
                parent, folder = folder, f"{folder}/{part}"
                with suppress(FileExistsError):
                    self._files.make_directory(folder)
                self._inherit(parent, folder)

    def exists(self, path: str) -> bool:
        """Whether there is such a cgroup in any hierarchy."""
        return any(self._files.exists(folder) for folder in self._folders(path))

    def remove(self, path: str) -> bool:
        """Remove a cgroup and those in it, as far as nothing runs in them; whether all of it is gone.

        The kernel needs a moment after the last process ended: this is waited for, but not long.
        """
        for attempt in range(_TRIES):
            left = [folder for folder in self._everywhere(path) if not self._remove_tree(folder)]
            if not left:
                return True
            if attempt < _TRIES - 1:
                self._sleep(_PAUSE)
        return False

    def remove_empty(self, path: str) -> bool:
        """Remove a cgroup in which there is nothing, neither processes nor other cgroups; whether it is gone."""
        gone = True
        for folder in self._everywhere(path):
            try:
                self._files.remove_directory(folder)
            except OSError as error:
                if error.errno not in (*_GONE, *_BUSY):
                    raise
                gone = gone and error.errno not in _BUSY
        return gone

    # -- processes

    def join(self, path: str, pid: int) -> None:
        """Put a process there. ProcessLookupError without one: to the kernel 0 is whoever writes, which is us."""
        if pid <= 0:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), path)
        if self.scratch:
            return
        for folder in self._folders(path):
            self._files.write(f"{folder}/{_PROCESSES}", str(pid))

    def processes(self, path: str) -> list[int]:
        """All processes there and in the cgroups below; none if it is gone. Others' PID namespaces are left out."""
        if self.scratch:
            return []
        found: dict[int, None] = {}
        for folder in self._folders(path):
            for one in self._tree(folder):
                found.update(dict.fromkeys(self._pids(one)))
        return list(found)

    def kill_all(self, path: str, timeout: float = 10.0) -> bool:
        """End all processes there; whether it became empty in time. OSError if we are among them."""
        for _ in range(max(int(timeout / _PAUSE), 1)):
            if self.strike(path):
                return True
            self._sleep(_PAUSE)
        return not self.processes(path)

    def strike(self, path: str) -> bool:
        """Kill all processes there, once; True if there was none. OSError if we are among them."""
        pids = self.processes(path)
        if not pids:
            return True
        if os.getpid() in pids:
            raise OSError(errno.EBUSY, "the runtime itself is in it", path)
        if self.version == 2:
            with suppress(OSError):  # kernels before 5.14 do not have it
                self._files.write(f"{self.root}/{_inside(path)}/cgroup.kill", "1")
        self._strike(path, pids)
        return False

    # -- reading

    def stats(self, path: str) -> CgroupStats:
        """What is used there; nothing is known of a cgroup that is gone."""
        texts = self._texts(path, V1_FILES, V2_FILES)
        return parse_v2(texts) if self.version == 2 else parse_v1(texts)

    def counters(self, path: str) -> CgroupCounters:
        """What else the kernel counts there."""
        texts = self._texts(path, cgroupcounters.V1_COUNTER_FILES, cgroupcounters.V2_COUNTER_FILES)
        return cgroupcounters.parse_v2(texts) if self.version == 2 else cgroupcounters.parse_v1(texts)

    def huge_pages(self, path: str) -> tuple[HugePages, ...]:
        """Huge pages in use there, size by size."""
        names = cgroupcounters.huge_page_files(self.version, self.huge_page_sizes)
        return cgroupcounters.huge_pages(self._texts(path, names, names), self.huge_page_sizes)

    def oom_file(self, path: str) -> str | None:
        """The file that counts what the kernel killed for want of memory; None where there is no memory controller."""
        if self.version == 2:
            return f"{self.root}/{_inside(path)}/memory.events"
        base = self._bases.get("memory")
        return None if base is None else f"{base}/{_inside(path)}/memory.oom_control"

    # -- inside

    def _texts(self, path: str, v1: Mapping[str, str], v2: Iterable[str]) -> dict[str, str]:
        """Files of a cgroup by name: those of `v1` with their controllers, or those of `v2`."""
        inside = _inside(path)
        if self.version == 2:
            return {name: self._read(f"{self.root}/{inside}/{name}") for name in v2}
        return {
            name: self._read(f"{self._bases[controller]}/{inside}/{name}")
            for name, controller in v1.items()
            if controller in self._bases
        }

    def _huge_page_sizes(self) -> tuple[str, ...]:
        """As file names have them, smallest first; none without the controller."""
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
                self._beside.append(folder)
            elif self.scratch or self._files.exists(f"{folder}/{_PROCESSES}"):
                found.update(dict.fromkeys(name.split(","), folder))
        return found

    def _places(self) -> list[str]:
        return list(dict.fromkeys(self._bases.values()))

    def _folders(self, path: str) -> list[str]:
        inside = _inside(path)
        return [f"{base}/{inside}" for base in self._places()]

    def _everywhere(self, path: str) -> list[str]:
        """Also where we put nothing but OCI runtimes do: in the v2 hierarchy of a hybrid machine."""
        return [*self._folders(path), *(f"{base}/{_inside(path)}" for base in self._beside)]

    def _hand_down(self, folder: str) -> None:
        """v2: children get the controllers that the parent has. One that cannot be handed down is done without."""
        if self.version == 1 or self.scratch:
            return
        wanted = set(self._read(f"{folder}/cgroup.controllers").split())
        for controller in sorted(wanted - set(self._read(f"{folder}/cgroup.subtree_control").split())):
            with suppress(OSError):
                self._files.write(f"{folder}/cgroup.subtree_control", f"+{controller}")

    def _inherit(self, parent: str, folder: str) -> None:
        """v1: an empty cpuset takes no process; it starts with what its parent has."""
        if self.version == 2 or self.scratch or self._bases.get("cpuset") is None:
            return
        if not folder.startswith(f"{self._bases['cpuset']}/"):
            return
        for name in _CPUSET:
            if not self._read(f"{folder}/{name}").strip():
                self._files.write(f"{folder}/{name}", self._read(f"{parent}/{name}").strip())

    def _strike(self, path: str, pids: list[int]) -> None:
        """Kill them; on v1 with their time stopped, so that none can fork meanwhile."""
        freezer = self._bases.get("freezer")
        state = f"{freezer}/{_inside(path)}/freezer.state" if freezer else ""
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
        """Let time go on, also where a container has stopped it itself: on v1 what is frozen does not die."""
        base, file, word = self._bases.get("freezer"), "freezer.state", "THAWED"
        if self.version == 2:
            base, file, word = self.root, "cgroup.freeze", "0"
        if base is None:
            return
        top = f"{base}/{_inside(path)}"
        self._try_write(f"{top}/{file}", word)  # first: whatever becomes of those below, what we froze goes on
        with suppress(OSError):
            for one in self._tree(top):
                if one != top:
                    self._try_write(f"{one}/{file}", word)

    def _try_write(self, path: str, text: str) -> None:
        with suppress(OSError):
            self._files.write(path, text)

    def _tree(self, folder: str) -> Iterator[str]:
        """A folder after all that are in it: the order in which they can be removed.

        However deep it is: no recursion, and of the way back nothing is kept but names.
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
        """Names of those in it; none if it is gone."""
        try:
            return self._files.directories(folder)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return []

    def _remove_tree(self, folder: str) -> bool:
        for one in self._tree(folder):
            try:
                self._files.remove_directory(one)
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
def _near(path: str) -> Iterator[str]:
    """The same place by a path that the kernel takes: most of a long one is gone in steps, the rest is below it."""
    if len(os.fsencode(path)) < _PATH_MAX:
        yield path
        return
    at = None
    try:
        while len(path) > _STEP:
            # Without a slash this is one name, too long for any: the kernel says so.
            cut = path.rfind("/", 1, _STEP)
            further = os.open(path[:cut], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
            if at is not None:
                os.close(at)
            at, path = further, path[cut + 1 :]
        yield f"/proc/self/fd/{at}/{path}"
    finally:
        if at is not None:
            os.close(at)


def _inside(path: str) -> str:
    return confined(path.strip("/"))
