"""A real containerd with all its state in a scratch folder.

Invariant: after the `with` block no process, mount or cgroup of this containerd is left. Shims outlive containerd by
design, so what still runs is found by the scratch folder in its command line and ended by pid.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.daemon import LabDaemon
from tests.support.lab.images import ImageSpec, build_archives, default_images, import_with_ctr
from tests.support.lab.processes import Child, missing_programs

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


class Containerd(LabDaemon):
    """containerd with its CRI plugin."""

    name = "containerd"
    state = ("root", "state")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "containerd.sock")
        self._config = folder / "config.toml"

    @staticmethod
    def missing() -> str | None:
        """Why it can not run here, or None."""
        return missing_programs("containerd", "containerd-shim-runc-v2", "ctr", "runc", "busybox", root=True)

    def start(self) -> None:
        """Start it and wait until the CRI plugin answers, not only until the socket accepts."""
        self.start_unready()
        self.child.wait_listening(self.socket)
        self.child.wait_until(self._cri_serves, what="the CRI plugin to be ready", every=0.02)

    def start_unready(self) -> None:
        """Start it and return at once."""
        (self.folder / "cni").mkdir(exist_ok=True)
        self._config.write_text(CONFIG.format(folder=self.folder))
        self._child = Child(["containerd", "--config", str(self._config)], log=self.log)

    def kill(self) -> None:
        self.child.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def add_images(self, *specs: ImageSpec) -> None:
        """Build and import images, by default the pause image and the test image."""
        import_with_ctr(self.socket, build_archives(self.folder, specs or default_images()))

    def delete_task(self, container_id: str) -> None:
        """End and delete the task of a container, past CRI; one without a task is fine.

        A start that is cut off in the middle may leave one that CRI knows nothing of, and then cannot remove.
        """
        ctr = ["ctr", "-a", str(self.socket), "-n", "k8s.io", "task", "delete", "-f", container_id]
        subprocess.run(ctr, capture_output=True, check=False)

    def _cri_serves(self) -> bool:
        # Imported here: `missing` must be able to answer on a machine without grpcio.
        from tests.support.lab.cri import CriClient

        # Version answers before the plugin is initialised, Status only after it.
        with CriClient(self.socket) as client:
            return client.outcome("Status", timeout=WAIT_LIMIT).code == "OK"
