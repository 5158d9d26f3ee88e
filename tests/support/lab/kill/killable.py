"""Our own runtime as a process that is killed at a chosen act, with pods in a network of their own."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.lab.kill.leftovers import Leftovers
from tests.support.lab.processes import Child, LabError, accepts, wait_for
from tests.support.lab.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLUGINS: Final = next((place for place in ("/usr/lib/cni", "/opt/cni/bin") if Path(place, "ptp").exists()), "")


def doomed(argv: Sequence[str], at: int, acts: Path, *, below: Iterable[Path]) -> list[str]:
    """The same command of `interpose`, but it dies at this act; 0: at none. `acts` gets what it did."""
    watched = ["--at", str(at), "--acts", str(acts)]
    watched += [word for place in below for word in ("--below", str(place))]
    return [sys.executable, "-m", "tests.support.node.killing", *watched, "--", *argv[1:]]


class KillableRuntime(Runtime):
    """The paths stay the same from one process to the next. Pods are in a point-to-point network."""

    def __init__(self, folder: Path, *options: str, executor: str = "runc") -> None:
        super().__init__(folder, *options, executor=executor)
        self.acts = folder / "acts"
        self.cgroup = f"/interpose-{folder.name}"
        self.leases = folder / "leases"
        self._subnet = f"10.{100 + secrets.randbelow(100)}.{secrets.randbelow(250)}."
        self._at: int | None = None
        self._write_network()

    @staticmethod
    def missing() -> str | None:
        """Why it can not run here, or None."""
        return Runtime.missing() or (None if PLUGINS else "not installed: CNI plugins")

    def _write_network(self) -> None:
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": f"{self._subnet}0/24"}]],
            "dataDir": str(self.leases),
        }
        plugins = [{"type": "ptp", "ipMasq": False, "ipam": ipam}]
        self.cni.mkdir(parents=True, exist_ok=True)
        document = {"name": "pods", "cniVersion": "0.4.0", "plugins": plugins}
        (self.cni / "10-pods.conflist").write_text(json.dumps(document))

    def argv(self) -> list[str]:
        """As ever, or so that it kills itself."""
        argv = super().argv()
        if self._at is None:
            return argv
        return doomed(argv, self._at, self.acts, below=(self.root, self.state))

    def start_doomed(self, at: int) -> bool:
        """Start one that dies at this act (0: never, its acts are only counted); whether it came to answer calls."""
        self.acts.unlink(missing_ok=True)
        self._at = at
        try:
            self._child = Child(self.argv(), log=self.log)
            with contextlib.suppress(LabError):
                self._child.wait_until(lambda: accepts(self.socket), what="calls to be answered")
        finally:
            self._at = None
        return self._child.running

    def dies_while_starting(self, at: int) -> bool:
        """Start one that dies at this act, unless it answers calls before: it is ended in any case."""
        from tests.support.lab.cri import CriClient

        if self.start_doomed(at):
            # It listens; calls are answered when all is in order.
            with CriClient(self.socket) as client:
                answered = client.outcome("Version").code == "OK"
            if answered:
                self.kill()
                return False
        self.child.wait()
        return True

    @property
    def died_at(self) -> str:
        """The last act of one that was doomed."""
        return self.acts_done()[-1] if self.acts_done() else ""

    def acts_done(self) -> Sequence[str]:
        """All acts of one that was doomed."""
        return self.acts.read_text().splitlines() if self.acts.exists() else []

    def left(self) -> dict[str, list[str]]:
        """What there is although no pod is."""
        leases = self.leases / "pods"
        fine = [
            *(self.root / name for name in ("images", "lock")),
            *(self.state / name for name in ("root", "lock")),
            *(leases / name for name in ("lock", "last_reserved_ip.0")),
            *(self.folder / name for name in ("cni", "tools", "logs", "acts", "runtime.sock", "runtime.sock.lock")),
            *(path for form in ("*.tar", "*.log", "pods/*.lock") for path in self.folder.glob(form)),
        ]
        return Leftovers(self.folder, self.cgroup, self._subnet, fine=fine).found(apart=[self.child.pid])

    def wait_clean(self) -> None:
        """Nothing may be there, but the kernel has a moment to bury the dead."""
        try:
            wait_for(lambda: not self.left(), what="nothing to be left", every=0.02)
        except LabError:
            raise self.child.error(f"left behind: {self.left()}") from None

    def images_now(self) -> list[str]:
        """All files of the store of images, by name."""
        return sorted(str(path) for path in (self.root / "images").rglob("*"))
