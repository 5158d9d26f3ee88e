"""A real containerd with all its state in a scratch folder.

Invariant: after the `with` block no process, mount or cgroup of this containerd is left. Shims outlive containerd by
design, so what still runs is found by the scratch folder in its command line and ended by pid.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

from interpose.testing.lab.images import ImageSpec, build_archives, default_images, import_with_ctr
from interpose.testing.lab.processes import Child, LabError, missing_programs, wait_for

CONFIG = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
# Snapshotters that probe kernel modules only cost time here.
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:latest"
  # Without CAP_SYS_RESOURCE runc can not lower oom_score_adj and fails.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""


class Containerd:
    """containerd in a scratch folder; the socket path stays the same over restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "containerd.sock"
        self.log = folder / "containerd.log"
        self._config = folder / "config.toml"
        self._child: Child | None = None

    @staticmethod
    def missing() -> str | None:
        """Why it can not run here, or None."""
        return missing_programs("containerd", "containerd-shim-runc-v2", "ctr", "runc", "busybox", root=True)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "cni").mkdir(exist_ok=True)
        self._config.write_text(CONFIG.format(folder=self.folder))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.stop()
        end_shims(str(self.socket))
        unmount_below(self.folder)
        for name in ("root", "state"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    @property
    def child(self) -> Child:
        if self._child is None:
            raise LabError("containerd was not started")
        return self._child

    def start(self, within: float = 30.0) -> None:
        """Start it and wait until the CRI plugin answers, not only until the socket accepts."""
        self.start_unready()
        self.child.wait_listening(self.socket, within)
        self.child.wait_until(self._cri_serves, within=within, what="the CRI plugin to be ready", every=0.02)

    def start_unready(self) -> None:
        """Start it and return at once."""
        self._child = Child(["containerd", "--config", str(self._config)], log=self.log)

    def stop(self) -> None:
        self.child.stop()

    def kill(self) -> None:
        self.child.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def add_images(self, *specs: ImageSpec) -> None:
        """Build and import images, by default the pause image and the test image."""
        import_with_ctr(self.socket, build_archives(self.folder, specs or default_images()))

    def _cri_serves(self) -> bool:
        # Imported here: `missing` must be able to answer on a machine without grpcio.
        from interpose.testing.lab.cri import CriClient

        # Version answers before the plugin is initialised, Status only after it.
        with CriClient(self.socket) as client:
            return client.outcome("Status", timeout=5).code == "OK"


def end_shims(socket: str) -> None:
    """End the shims of the containerd on this socket and all they run, in case a test did not remove its pods."""
    shims = _shims_of(socket)
    for pid in [*shims, *(below for shim in shims for below in _descendants(shim))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if shims:
        wait_for(lambda: not _shims_of(socket), within=10, what="the shims to end")


def unmount_below(folder: Path) -> None:
    """Detach every mount under the folder, deepest first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((p for p in points if Path(p).is_relative_to(folder)), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, timeout=10, check=False)


def _shims_of(socket: str) -> list[int]:
    """Pids of the shims that name this socket as an argument of theirs."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            argv = (entry / "cmdline").read_bytes().split(b"\0")
            if b"containerd-shim" in argv[0] and socket.encode() in argv:
                found.append(int(entry.name))
    return found


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found
