"""The files of a sandbox: its folder with the /etc files and shared memory, and the cgroup of its pause process.

The folder is in the state, so all of it is gone after a restart of the machine. A removal may be repeated.
"""

import asyncio
import errno
import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from interpose.cri.messages import cri
from interpose.log import kv
from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.node.runtime.fs import etc_files
from interpose.node.runtime.fs.mounts import mount_shm, unmount, unmount_below
from interpose.node.runtime.oci.resources import cgroup_directory
from interpose.node.runtime.oci.spec_types import SandboxFacts
from interpose.node.runtime.shim.syscalls import may_isolate
from interpose.node.runtime.state.ids import is_id
from interpose.node.runtime.state.paths import RuntimePaths
from interpose.node.runtime.state.records import NetworkMode, SandboxRecord

_log = logging.getLogger(__name__)
HOSTNAME: Final = "hostname"
HOSTS: Final = "hosts"
RESOLV: Final = "resolv.conf"
SHM: Final = "shm"
CGROUP: Final = "cgroup"  # the path of the cgroup, for removal without a record
_TRIES: Final = 5
_PAUSE: Final = 0.1
_KILL_TIMEOUT: Final = 1.0
_CGROUPFS: Final = "cgroupfs"


def own_namespaces(record: SandboxRecord, *, possible: bool) -> frozenset[str]:
    """The namespaces that the pause process has of its own."""
    options = record.config.linux.security_context.namespace_options
    wanted = {
        "network": record.place is NetworkMode.POD,
        "ipc": options.ipc != cri.NODE,
        "uts": record.place is not NetworkMode.HOST,
        "pid": options.pid == cri.POD,
    }
    return frozenset(name for name, own in wanted.items() if own and possible)


class LocalSandboxFiles:
    """The files of all sandboxes."""

    def __init__(self, paths: RuntimePaths, cgroups: CgroupDirs, *, driver: str, namespaces: bool) -> None:
        self._paths = paths
        self._cgroups = cgroups
        self._driver = driver
        self._namespaces = namespaces
        self._privileged = may_isolate()
        self._create_lock = threading.Lock()

    def facts(self, record: SandboxRecord, pause_pid: int) -> SandboxFacts:
        """The sandbox as an input for the specification of a container."""
        folder = self._paths.sandbox(record.id)
        return SandboxFacts(
            id=record.id,
            config=record.config,
            pause_pid=pause_pid,
            namespaces=own_namespaces(record, possible=self._namespaces),
            shm=str(folder / SHM) if self._own_shm(record) else "",
            resolv_conf=str(folder / RESOLV),
            hosts=str(folder / HOSTS),
            hostname_file=str(folder / HOSTNAME),
        )

    async def create(self, record: SandboxRecord) -> None:
        """Create folder, /etc files, shared memory and cgroup."""
        await asyncio.to_thread(self._create, record)

    async def attach(self, record: SandboxRecord, pause_pid: int) -> None:
        """Put the pause process into its cgroup."""
        if self._driver == _CGROUPFS:
            await asyncio.to_thread(
                self._try_cgroup, lambda: self._cgroups.add_process(self._cgroup(record), pause_pid)
            )

    async def detach(self, record: SandboxRecord) -> None:
        """Remove the cgroup of the pause process, which is gone."""
        if self._driver == _CGROUPFS:
            await asyncio.to_thread(self._try_cgroup, lambda: self._cgroups.remove(self._cgroup(record)))

    async def remove(self, record: SandboxRecord) -> None:
        """Remove cgroup, mounts and folder of a sandbox."""
        await asyncio.to_thread(self._remove, record)

    async def find_orphans(self, known: Collection[str]) -> list[str]:
        """Ids of sandboxes that have a folder and are not in `known`."""
        names = await asyncio.to_thread(os.listdir, self._paths.sandboxes)
        return sorted(name for name in names if is_id(name) and name not in known)

    async def remove_orphan(self, sandbox_id: str) -> None:
        """Remove the folder of an unknown sandbox, and the cgroup that it names."""
        await asyncio.to_thread(self._remove_orphan, sandbox_id)

    def _own_shm(self, record: SandboxRecord) -> bool:
        return self._privileged and "ipc" in own_namespaces(record, possible=self._namespaces)

    def _create(self, record: SandboxRecord) -> None:
        folder = self._paths.sandbox(record.id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shares = record.place is not NetworkMode.POD
        (folder / HOSTNAME).write_text(f"{record.config.hostname or os.uname().nodename}\n")
        (folder / HOSTS).write_text(etc_files.hosts(_read_text("/etc/hosts"), shares_network=shares))
        (folder / RESOLV).write_text(etc_files.resolv_conf(record.config.dns_config, _read_text("/etc/resolv.conf")))
        for name in (HOSTNAME, HOSTS, RESOLV):
            (folder / name).chmod(0o644)
        if self._own_shm(record):
            mount_shm(str(folder / SHM))
        if self._driver == _CGROUPFS:
            self._try_cgroup(lambda: self._make_cgroup(record))

    def _make_cgroup(self, record: SandboxRecord) -> None:
        """Create a cgroup. Parents that are created with it are noted: they are removed once they are empty."""
        path = self._cgroup(record)
        (self._paths.sandbox(record.id) / CGROUP).write_text(path)
        with self._create_lock:
            for parent in _parents(path):
                if not self._cgroups.exists(parent):
                    note = self._note(parent)
                    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    note.write_text(parent)
            self._cgroups.make(path)

    def _remove_cgroup(self, path: str) -> None:
        self._cgroups.kill_all(path, _KILL_TIMEOUT)  # only a pause process that its shim could not end
        if not self._cgroups.remove(path):
            raise OSError(errno.EBUSY, "cannot be removed: something is in it", path)
        self._remove_empty(path)

    def _remove_empty(self, path: str) -> None:
        with self._create_lock:
            for parent in reversed(_parents(path)):
                note = self._note(parent)
                if note.exists():
                    if not self._cgroups.remove_empty(parent):
                        return
                    note.unlink(missing_ok=True)
                elif self._cgroups.exists(parent):
                    return  # not ours
                else:
                    # It was removed by a process that was killed here, or by a kubelet, which had created it. A kubelet
                    # does not know the one that runc has created in the v2 hierarchy of a hybrid machine.
                    self._cgroups.remove_empty(parent)

    def _note(self, cgroup: str) -> Path:
        """The file that notes a cgroup; its name is never too long, however deep the cgroup is."""
        return self._paths.cgroups / hashlib.sha256(cgroup.encode()).hexdigest()

    def _remove(self, record: SandboxRecord) -> None:
        if self._driver == _CGROUPFS:
            self._try_cgroup(lambda: self._remove_cgroup(self._cgroup(record)))
        self._remove_folder(record.id)

    def _remove_orphan(self, sandbox_id: str) -> None:
        path = _read_text(str(self._paths.sandbox(sandbox_id) / CGROUP))
        if path and self._driver == _CGROUPFS:
            self._try_cgroup(lambda: self._remove_cgroup(path))
        self._remove_folder(sandbox_id)

    def _remove_folder(self, sandbox_id: str) -> None:
        folder = self._paths.sandbox(sandbox_id)
        if self._privileged:
            unmount(str(folder / SHM))
            if (folder / SHM).is_mount():
                unmount_below(str(folder))
        for attempt in range(_TRIES):
            try:
                shutil.rmtree(folder, ignore_errors=False, onerror=_ignore_missing)
            except OSError as error:
                # A shim whose launcher was killed may still write here for a moment, before it ends.
                if error.errno != errno.ENOTEMPTY or attempt == _TRIES - 1:
                    raise
                time.sleep(_PAUSE)
            else:
                return

    def _cgroup(self, record: SandboxRecord) -> str:
        return cgroup_directory(record.config.linux.cgroup_parent, record.id, self._driver)

    def _try_cgroup(self, work: Callable[[], object]) -> None:
        """Run `work`; without root an error is ignored, unless the cgroup is busy: then the caller tries again."""
        try:
            work()
        except OSError as error:
            if self._privileged or error.errno == errno.EBUSY:
                raise
            _log.debug("No cgroup for a sandbox", extra=kv(err=str(error)))


def _parents(path: str) -> list[str]:
    """The parents of a cgroup, the highest first."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:end]) for end in range(1, len(parts))]


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _ignore_missing(_function: object, _path: str, info: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(info[1], FileNotFoundError):
        raise info[1]
