"""A real dockerd with all its state in a scratch folder, without network set-up.

dockerd asks runc for a negative oom_score_adj, which machines without CAP_SYS_RESOURCE refuse, and has no switch for
it: a wrapper around runc raises the value to 0 in the bundle first. dockerd starts and stops a containerd of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.daemon import LabDaemon
from tests.support.lab.images import ImageSpec, build_archives, default_images
from tests.support.lab.processes import Child, missing_programs

if TYPE_CHECKING:
    from pathlib import Path

WRAPPER = """\
#!{python} -IS
import json, os, sys
args = sys.argv[1:]
bundle = "."
for number, arg in enumerate(args):
    if arg in ("--bundle", "-b"):
        bundle = args[number + 1]
    elif arg.startswith("--bundle="):
        bundle = arg.partition("=")[2]
path = os.path.join(bundle, "config.json")
if "create" in args and os.path.exists(path):
    with open(path) as file:
        spec = json.load(file)
    if spec["process"].get("oomScoreAdj", 0) < 0:
        spec["process"]["oomScoreAdj"] = 0
        with open(path, "w") as file:
            json.dump(spec, file)
os.execv({runc!r}, ["runc", *args])
"""


class Dockerd(LabDaemon):
    """dockerd; run containers with the network of the host."""

    name = "dockerd"
    state = ("data", "exec")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "docker.sock")

    @property
    def containerd_socket(self) -> Path:
        return self.folder / "exec" / "containerd" / "containerd.sock"

    @staticmethod
    def missing() -> str | None:
        """Why it can not run here, or None."""
        return missing_programs("dockerd", "docker", "containerd", "runc", "busybox", root=True)

    def start(self) -> None:
        """Start it and wait until its API answers."""
        wrapper = self.folder / "runc-wrapper"
        wrapper.write_text(WRAPPER.format(python=sys.executable, runc=shutil.which("runc")))
        wrapper.chmod(0o755)
        argv = ["dockerd", "-H", f"unix://{self.socket}", "--pidfile", str(self.folder / "dockerd.pid")]
        argv += ["--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec")]
        argv += ["--storage-driver", "vfs", "--iptables=false", "--bridge=none"]
        argv += ["--add-runtime", f"lab={wrapper}", "--default-runtime", "lab"]
        self._child = Child(argv, log=self.log)
        self._child.wait_listening(self.socket)
        self._child.wait_until(lambda: self._docker("version").returncode == 0, what="the Docker API", every=0.05)

    def add_images(self, *specs: ImageSpec) -> None:
        """Build and load images, by default the pause image and the test image."""
        for archive in build_archives(self.folder, specs or default_images()):
            self.docker("load", "-i", str(archive))

    def docker(self, *args: str) -> str:
        """The output of a docker command against this daemon."""
        done = self._docker(*args)
        if done.returncode != 0:
            raise self.child.error(f"docker {' '.join(args)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _docker(self, *args: str) -> subprocess.CompletedProcess[str]:
        argv = ["docker", "-H", f"unix://{self.socket}", *args]
        return subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)
