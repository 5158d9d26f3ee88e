"""Our own hook server as a separate process, started the way an operator starts it, with every path in one folder."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interpose.cli.common.admin_client import ask
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import Child
from tests.support.lab.relay import hooks_dir, program
from tests.support.lab.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NAME = "qos"
"""Under which it registers."""
RATIO = "node.koordinator.sh/cpu-normalization-ratio"


def node_state(spec: Mapping[str, Any] | None = None, *, ratio: float | None = None) -> dict[str, Any]:
    """The whole state of a node: the spec of its NodeSLO, and how fast its CPUs are."""
    annotations = {} if ratio is None else {RATIO: f"{ratio:g}"}
    return {
        "apiVersion": "interpose/v1",
        "kind": "NodeState",
        "nodeSLO": {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "spec": dict(spec or {})},
        "node": {"name": "lab", "annotations": annotations},
    }


class HookServer(Service):
    """`interpose hookserver` for pods below one cgroup.

    `runtime` is the socket on which it sees and updates pods: a runtime's, or a relay's, whose `registrations` it then
    needs. What it set stays after the `with` block, for the pods go anyway.
    """

    name = "hook server"

    def __init__(
        self,
        folder: Path,
        runtime: Path,
        *,
        kubepods: str,
        registrations: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder / "hookserver.log")
        self.socket = folder / "hookserver.sock"
        self.admin = folder / "hookserver-admin.sock"
        self.nodeslo = folder / "nodeslo.json"
        self.state = folder / "state"
        self.registration = (registrations or hooks_dir(folder)) / f"{NAME}.json"
        self._folder = folder
        self._runtime = runtime
        self._kubepods = kubepods
        self._options = tuple(options)

    def __exit__(self, failure: type[BaseException] | None = None, *more: object) -> None:
        super().__exit__(failure, *more)
        # One that was killed, or serves under Fail, leaves it; nobody else shall be refused for that.
        self.registration.unlink(missing_ok=True)

    def shown(self) -> tuple[Path, ...]:
        """The journal too."""
        return (*super().shown(), self.journal)

    def argv(self, *options: str) -> list[str]:
        """The command line."""
        paths = {
            "--listen": self.socket,
            "--admin-listen": self.admin,
            "--nodeslo": self.nodeslo,
            "--runtime-endpoint": self._runtime,
            "--relay-admin": self._folder / "admin.sock",
            "--state-dir": self.state,
            "--kubelet-state-dir": self._folder / "kubelet",
            "--hooks-dir": self.registration.parent,
            "--registration-name": NAME,
            "--kubepods": self._kubepods,
        }
        said = [part for flag, value in paths.items() for part in (flag, str(value))]
        return [str(program()), "hookserver", *said, *self._options, *options]

    def start(self, *options: str) -> None:
        """Start a process and wait until it has looked at everything that runs."""
        self.start_unready(*options)
        self.child.wait_listening(self.admin)
        self.child.wait_until(self._in_step, what="the first whole round", every=0.01)

    def start_unready(self, *options: str) -> None:
        """Start a process and return at once."""
        if not self.nodeslo.exists():
            self.tell(node_state())
        self._child = Child(self.argv(*options), log=self.log)

    def tell(self, document: Mapping[str, Any]) -> None:
        """Replace the node's document in one step."""
        new = self.nodeslo.with_suffix(".new")
        new.write_text(json.dumps(document))
        new.chmod(0o644)
        new.rename(self.nodeslo)

    def single(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Another process with the same paths, to its end: --once, --restore, --deregister."""
        return subprocess.run(self.argv(*options), capture_output=True, text=True, timeout=WAIT_LIMIT, check=False)

    def soon(self, what: str, condition: Callable[[], bool]) -> None:
        """It comes to be."""
        self.child.wait_until(condition, what=what)

    @property
    def journal(self) -> Path:
        """What it has found and written."""
        return self.state / "hookserver.journal"

    def status(self) -> Any:
        """What it says of itself."""
        return ask(str(self.admin), "GET", "/v1/status")

    def _in_step(self) -> bool:
        last = self.status()["round"]
        return last is not None and last["in_step"]
