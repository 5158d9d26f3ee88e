"""Our own runtime in other shapes: inside the relay's process, and as a process of a user who is not root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from tests.support.lab.policy_pods import PolicyRelay
from tests.support.lab.processes import Child, missing_programs
from tests.support.lab.relay import program
from tests.support.lab.runtime import Runtime

if TYPE_CHECKING:
    from pathlib import Path

NOBODY: Final = 65534
AS_NOBODY: Final = ("setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--inh-caps=-all")
"""Before a command line: whoever runs it has no rights at all."""


class EmbeddedRelay(PolicyRelay):
    """`interpose relay --embedded`: `runtime` is where its runtime has its folders, and is not a process of its own."""

    def __init__(self, folder: Path, runtime: Runtime, *options: str) -> None:
        super().__init__(folder, runtime.socket, *options)
        self._places = {"ROOT": runtime.root, "STATE": runtime.state, "CNI_CONF_DIR": runtime.cni}

    def _spawn(self, *options: str) -> Child:
        sockets = ["--listen", str(self.socket), "--admin-listen", str(self.admin)]
        env = {f"INTERPOSE_RUNTIME_{name}": str(place) for name, place in self._places.items()}
        argv = [str(program()), "relay", "--embedded", *sockets, *self._options, *options]
        child = Child(argv, log=self.log, env={**env, "INTERPOSE_RUNTIME_EXECUTOR": "runc"})
        self._children.append(child)
        return child


class NobodysRuntime(Runtime):
    """`interpose runtime` with the plain executor, as a user without rights; its cgroups are files in its folder."""

    name = "interpose runtime of nobody"

    def __init__(self, folder: Path) -> None:
        self.cgroups = folder / "cgroups"
        super().__init__(folder, "--cgroup-root", str(self.cgroups), executor="plain")

    @staticmethod
    def missing() -> str | None:
        """Why nobody can run it here, or None."""
        return missing_programs("setpriv", "busybox", root=True)

    def start(self) -> None:
        self.cgroups.mkdir(parents=True, exist_ok=True)
        for path in (self.folder, self.cgroups):
            os.chown(path, NOBODY, NOBODY)
        super().start()

    def argv(self) -> list[str]:
        return [*AS_NOBODY, *super().argv()]

    def image_argv(self, *words: Any) -> list[str]:
        return [*AS_NOBODY, *super().image_argv(*words)]
