"""Our own runtime as a separate process, with all its state in a scratch folder.

Invariant: after the `with` block nothing of it is left on the machine: pods are removed through the runtime while it
serves, and what a killed one leaves is ended and unmounted by the paths of its folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.daemon import unmount_below
from tests.support.lab.images import ImageSpec, build_archives, default_images
from tests.support.lab.processes import Child, LabError, missing_programs
from tests.support.lab.relay import program
from tests.support.lab.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterable


class Runtime(Service):
    """`interpose runtime`; the paths stay the same over restarts."""

    name = "interpose runtime"

    def __init__(self, folder: Path, *options: str, executor: str = "runc") -> None:
        super().__init__(folder / "runtime.log")
        self.folder = folder
        self.socket = folder / "runtime.sock"
        self.root = folder / "root"
        self.state = folder / "state"
        self.cni = folder / "cni"
        self._executor = executor
        self._options = options

    @staticmethod
    def missing() -> str | None:
        """Why it can not run containers here, or None."""
        return missing_programs("runc", "busybox", root=True)

    def start(self) -> None:
        self.cni.mkdir(parents=True, exist_ok=True)
        self._child = Child(self.argv(), log=self.log)
        self._child.wait_listening(self.socket)

    def argv(self) -> list[str]:
        """How it is started."""
        places = {"--listen": self.socket, "--root": self.root, "--state": self.state, "--cni-conf-dir": self.cni}
        argv = [str(program()), "runtime", *(str(word) for pair in places.items() for word in pair)]
        return [*argv, "--executor", self._executor, "--admin-listen", "none", *self._options]

    def restart(self) -> None:
        """As an upgrade does it: containers go on."""
        self.stop()
        self.start()

    def add_images(self, *specs: ImageSpec) -> None:
        """Build and import images, by default those of the lab."""
        self.import_archives(build_archives(self.folder, specs or default_images()))

    def import_archives(self, archives: Iterable[Path]) -> None:
        """Bring archives into the store."""
        for path in archives:
            done = subprocess.run(
                self.image_argv("import", path), capture_output=True, text=True, timeout=WAIT_LIMIT, check=False
            )
            if done.returncode != 0:
                raise LabError(f"interpose image import {path}: {done.stdout}{done.stderr}")

    def image_argv(self, verb: str, *arguments: object) -> list[str]:
        """The command line of `interpose image` for its store."""
        return [str(program()), "image", verb, "--root", str(self.root), *map(str, arguments)]

    def __exit__(self, failure: type[BaseException] | None = None, *more: object) -> None:
        self._remove_pods()
        super().__exit__(failure, *more)
        self._end_the_rest()
        unmount_below(self.folder)
        for place in (self.root, self.state):
            shutil.rmtree(place, ignore_errors=True)

    def shown(self) -> tuple[Path, ...]:
        """Nothing: `Child.error` has the end of its log."""
        return ()

    def leftovers(self) -> dict[str, list[str]]:
        """What is left of pods on the machine; empty if all is well and no pod is there."""
        here = str(self.folder)
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        kinds = [self.state / kind for kind in ("sandboxes", "containers", "oci")]
        found = {
            "mounts": [point for point in mounts if point.startswith(f"{here}/")],
            "processes": [str(pid) for pid in self._processes()],
            # crun keeps hidden folders of its own beside those of containers.
            "folders": [str(path) for kind in kinds if kind.is_dir() for path in kind.iterdir() if path.name[0] != "."],
        }
        return {kind: what for kind, what in found.items() if what}

    def _remove_pods(self) -> None:
        from interpose._pb import cri_pb2
        from tests.support.lab.cri import CriClient

        if self._child is None or not self._child.running:
            return
        with CriClient(self.socket) as client, contextlib.suppress(Exception):
            for pod in client.call("ListPodSandbox").items:
                client.call("RemovePodSandbox", cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod.id))

    def _processes(self) -> list[int]:
        """Shims and what they run name the folder in their command line; the runtime itself does not count."""
        found = []
        own = {os.getpid(), self._child.pid if self._child is not None else 0}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in own:
                with contextlib.suppress(OSError):
                    if str(self.state).encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    def _end_the_rest(self) -> None:
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
