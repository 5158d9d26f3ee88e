"""The cgroups of pods, from before their sandbox to after their end: runtimes make and remove those of containers.

Only empty ones are removed: the kernel does not remove a cgroup with a process in it. The classes above the pods stay,
because a kubelet may use the same. Where a pod's cgroup is, is noted in its folder: who removes the pod need not have
been told what who started it was told. Where systemd keeps the cgroups it is told what to do.
"""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from interpose.core.model.cgroup import CGROUP_ROOT, KubeQos
from interpose.host.atomic_file import replace_file
from interpose.host.cgroup.files import CgroupFiles, KernelFiles
from interpose.host.cgroup.paths import Driver, check_confined
from interpose.node.pods.cgroups.limits import PodLimits
from interpose.node.pods.cgroups.paths import layout_of
from interpose.node.pods.cgroups.systemd_slices import Ask, PodSlices, ask_systemd
from interpose.node.pods.cri_config.qos import pod_qos
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import PodSpec

_NOTE: Final = "cgroup"
_LARGEST: Final = 4096
# A process that was killed leaves its cgroup a moment after its parent was told.
_TRIES: Final = 20
_PAUSE: Final = 0.02
# Not a tree of cgroups, or not ours to change: then nothing of ours is in it.
_NOT_OURS: Final = (errno.ENOTEMPTY, errno.EACCES, errno.EPERM, errno.EROFS)


class PodCgroups:
    """Makes and removes the cgroups of pods. `folder` is where notes on a pod are. Blocking: call from a thread."""

    def __init__(
        self,
        node: NodeFacts,
        mount: str = CGROUP_ROOT,
        *,
        folder: Callable[[str], str],
        files: CgroupFiles | None = None,
        ask: Ask = ask_systemd,
    ) -> None:
        self._mount = Path(mount)
        self._node = node
        self._folder = folder
        self._layout = layout_of(node.cgroup_driver, node.cgroup_root)
        self._limits = PodLimits(self._layout, mount, files or KernelFiles())
        self._slices = None
        if node.cgroup_driver is Driver.SYSTEMD:
            self._slices = PodSlices(self._layout, mount, files or KernelFiles(), ask)

    def make(self, pod: PodSpec, *, grow_only: bool = False) -> None:
        """Make the cgroup of a pod, or bring it to what its manifest says now; its folder is there. OSError if that
        cannot be noted. `grow_only`: what becomes less has to wait until containers have less."""
        directory = self._layout.pod(pod.uid, pod_qos(pod))
        if self._noted(pod.uid) != directory:
            replace_file(f"{self._folder(pod.uid)}/{_NOTE}", directory.encode(), mode=0o600)
        (self._slices or self._limits).apply(pod, self._node.rules, grow_only=grow_only)

    def remove(self, uid: str) -> None:
        """Remove them in all hierarchies and whatever class the pod had. OSError if something still runs in one."""
        directories = {self._layout.pod(uid, qos) for qos in KubeQos} | {self._noted(uid)}
        if self._slices is not None:
            self._slices.remove(sorted(filter(None, directories)))
            return
        for hierarchy in self._hierarchies():
            for directory in sorted(filter(None, directories)):
                _remove(hierarchy / directory)
        self._limits.weigh()

    def _noted(self, uid: str) -> str:
        """The directory in the pod's folder; empty if there is none, or it is none of this pod."""
        try:
            with Path(self._folder(uid), _NOTE).open("rb") as file:
                directory = check_confined(file.read(_LARGEST).decode())
        except (OSError, ValueError):
            return ""
        own = self._layout.pod(uid, KubeQos.GUARANTEED).rpartition("/")[2]
        last = directory.rpartition("/")[2]
        if self._slices is not None:  # a slice has the names of all above it in its own
            own, last = own.rpartition("-")[2], last.rpartition("-")[2]
        return directory if last == own else ""

    def _hierarchies(self) -> list[Path]:
        """One with cgroup v2; with v1 one for each controller (links are second names)."""
        if (self._mount / "cgroup.controllers").exists():
            return [self._mount]
        try:
            return [path for path in self._mount.iterdir() if path.is_dir() and not path.is_symlink()]
        except OSError:
            return []


def _remove(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        for left in reversed(range(_TRIES)):
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno in _NOT_OURS:
                    return
                if error.errno != errno.EBUSY or not left:
                    raise
                time.sleep(_PAUSE)
            else:
                break
