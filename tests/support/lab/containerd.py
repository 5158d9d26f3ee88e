"""A real containerd with all its state in a scratch folder.

Invariant: after the `with` block no process, mount or cgroup of this containerd is left. Shims outlive containerd by
design, so what still runs is found by the scratch folder in its command line and ended by pid.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, ClassVar, Final

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.daemon import LabDaemon
from tests.support.lab.images import ARCHITECTURE, PAUSE_IMAGE, ImageSpec, build_archives, default_images
from tests.support.lab.installations import Installation, chosen
from tests.support.lab.processes import Child, LabError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_COMMON: Final = """\
root = "{folder}/root"
state = "{folder}/state"
# Snapshotters that probe kernel modules only cost time here.
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
# On by default from 2.0 on. Nothing of it may be the machine's.
[plugins."io.containerd.nri.v1.nri"]
  socket_path = "{folder}/nri.sock"
  plugin_path = "{folder}/nri/plugins"
  plugin_config_path = "{folder}/nri/conf.d"
"""
# What is about CRI, as nodes write it for containerd 1 and 2. Without CAP_SYS_RESOURCE runc can not lower oom_score_adj
# and fails.
_FORM_2: Final = """\
version = 2
{common}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    BinaryName = "{oci_runtime}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""
_FORM_3: Final = """\
version = 3
{common}
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{snapshotter}"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
    BinaryName = "{oci_runtime}"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{folder}/cni"
# Pulls go by another service from 2.1 on, which has to be told of a snapshotter that is not the default.
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
  platform = "linux/{arch}"
  snapshotter = "{snapshotter}"
"""


def configuration(folder: Path, installation: Installation, snapshotter: str = "native") -> str:
    """Its file, in the form that nodes with this version have."""
    form = _FORM_3 if installation.version() >= (2,) else _FORM_2
    return form.format(
        common=_COMMON.format(folder=folder),
        folder=folder,
        pause=PAUSE_IMAGE,
        snapshotter=snapshotter,
        oci_runtime=installation.oci_runtime,
        arch=ARCHITECTURE,
    )


class Containerd(LabDaemon):
    """containerd with its CRI plugin."""

    name = "containerd"
    state = ("root", "state")

    snapshotter: ClassVar = "native"

    def __init__(self, folder: Path, installation: Installation | None = None) -> None:
        super().__init__(folder, "containerd.sock")
        self.installation = installation or chosen()
        self._config = folder / "config.toml"

    @staticmethod
    def missing() -> str | None:
        """Why the one that the tests are about can not run here, or None."""
        return chosen().missing()

    def start(self) -> None:
        """Start it and wait until the CRI plugin answers, not only until the socket accepts."""
        self.start_unready()
        self.child.wait_listening(self.socket)
        self.child.wait_until(self._cri_serves, what="the CRI plugin to be ready", every=0.02)

    def start_unready(self) -> None:
        """Start it and return at once."""
        (self.folder / "cni").mkdir(exist_ok=True)
        self._config.write_text(configuration(self.folder, self.installation, self.snapshotter))
        argv = [self.installation.program("containerd"), "--config", str(self._config)]
        self._child = Child(argv, log=self.log, env={"PATH": self.installation.path})

    def kill(self) -> None:
        self.child.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def add_images(self, *specs: ImageSpec) -> None:
        """Build and import images, by default the pause image and the test image."""
        self.import_archives(build_archives(self.folder, specs or default_images()))

    def import_archives(self, archives: Iterable[Path]) -> None:
        """Bring archives into the namespace that the CRI plugin uses."""
        # From 2.0 on another path does it by default, which does not know the snapshotter of CRI.
        how = ("--local", "--snapshotter", self.snapshotter) if self.installation.version() >= (2,) else ()
        for path in archives:
            self.ctr("images", "import", *how, str(path))

    def ctr(self, *arguments: str) -> str:
        """What its own command prints; LabError with its words if it fails."""
        argv = [self.installation.program("ctr"), "-a", str(self.socket), "-n", "k8s.io", *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
        if done.returncode != 0:
            raise LabError(f"ctr {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def delete_task(self, container_id: str) -> None:
        """End and delete the task of a container, past CRI; one without a task is fine.

        A start that is cut off in the middle may leave one that CRI knows nothing of, and then cannot remove.
        """
        with contextlib.suppress(LabError):
            self.ctr("task", "delete", "-f", container_id)

    def _cri_serves(self) -> bool:
        # Imported here: `missing` must be able to answer on a machine without grpcio.
        from tests.support.lab.cri import CriClient

        # Version answers before the plugin is initialised, Status only after it.
        with CriClient(self.socket) as client:
            return client.outcome("Status", timeout=WAIT_LIMIT).code == "OK"
