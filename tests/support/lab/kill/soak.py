"""Pods on our own runtime, kept by `interpose pod run --watch`, while everything is killed at random moments.

    python -m tests.support.lab.kill.soak --minutes 10 [--seed N]

Runtime, manager, shims, holders and first processes of containers get SIGKILL; manifests come, change and go. Every
now and then it is quiet for a while: then every pod that is wanted has to be up, once. In the end all manifests are
taken away, and nothing may be left of any pod on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interpose._pb import cri_pb2 as cri
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.cri import CriClient
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.kill.killable import KillableRuntime
from tests.support.lab.kill.mortal_pod import slay
from tests.support.lab.pod.run import PodCommand
from tests.support.lab.pods import remove_groups
from tests.support.lab.processes import Child, children

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES: Final = ("web", "db", "job", "pair", "init")
_FOREVER: Final = ["sh", "-c", 'trap "exit 0" TERM; while :; do sleep 0.1; done']
_SLOW: Final = 20.0


def manifest(name: str, version: int) -> dict[str, Any]:
    """One of the pods; another version is another pod."""

    def container(called: str, command: list[str], **more: Any) -> dict[str, Any]:
        return {"name": called, "image": TEST_IMAGE, "imagePullPolicy": "IfNotPresent", "command": command, **more}

    scratch = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 2,
        "containers": [container("main", _FOREVER, env=[{"name": "VERSION", "value": str(version)}], **scratch)],
        "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"} if name == "db" else {}}],
    }
    if name == "pair":
        spec["shareProcessNamespace"] = True
        spec["containers"].append(container("second", _FOREVER))
    if name == "init":
        spec["initContainers"] = [container("first", ["true"])]
    if name == "job":
        spec["restartPolicy"] = "OnFailure"
        spec["containers"] = [container("main", ["sh", "-c", f"sleep 0.3; echo {version}"])]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@dataclass
class Tally:
    """What was done."""

    kills: Counter[str] = field(default_factory=Counter)
    edits: int = 0
    checks: int = 0
    slowest: float = 0.0
    sandboxes: set[str] = field(default_factory=set)
    containers: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {what}" for what, count in sorted(self.kills.items()))
        made = f"{len(self.sandboxes)} sandboxes and {len(self.containers)} containers seen"
        return (
            f"{sum(self.kills.values())} kills ({kills}), {self.edits} edits, {made}, "
            f"{self.checks} times all well again, at the latest after {self.slowest:.0f} s"
        )


class KillSoak:
    """One run. `with` starts and ends everything."""

    def __init__(self, folder: Path, seed: int, say: Callable[[str], object] = print) -> None:
        self.tally = Tally()
        self._random = random.Random(seed)
        self._say = say
        self._node = KillableRuntime(folder)
        self._pods = PodCommand(folder=folder, socket=self._node.socket, cgroup=self._node.cgroup)
        self._manifests = folder / "manifests"
        self._manifests.mkdir()
        self._versions: Counter[str] = Counter()
        self._manager: Child | None = None
        self._acts: dict[Callable[[], None], int] = {
            self._kill_runtime: 3,
            self._kill_manager: 3,
            self._kill_both: 1,
            lambda: self._kill_part("shim"): 2,
            lambda: self._kill_part("holder"): 1,
            self._kill_container: 2,
            self._kill_helper: 1,
            self._edit: 3,
            self._take_away: 1,
        }

    def run(self, seconds: float, quiet_every: float = 60.0) -> None:
        """Kill for so long, with quiet in between and at the end; LabError if something is not as it
        should be."""
        with self._node:
            self._node.add_images()
            try:
                end = time.monotonic() + seconds
                for name in NAMES:
                    self._write(name)
                self._start_manager()
                while time.monotonic() < end:
                    self._kill_for(min(quiet_every, end - time.monotonic()))
                    self._all_well()
                self._all_gone()
            finally:
                if self._manager is not None:
                    self._manager.stop()

    def _kill_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self._random.expovariate(1 / 0.7))
            act = self._random.choices(list(self._acts), list(self._acts.values()))[0]
            act()
            self._look()

    # -- kills

    def _kill_runtime(self) -> None:
        self.tally.kills["runtime"] += 1
        self._node.kill()
        time.sleep(self._random.choice((0.0, 0.0, 0.3)))
        self._node.start()

    def _kill_manager(self) -> None:
        self.tally.kills["manager"] += 1
        if self._manager is not None:
            self._manager.kill()
        self._start_manager()

    def _kill_both(self) -> None:
        if self._manager is not None:
            self._manager.kill()
        self.tally.kills["manager"] += 1
        self._kill_runtime()
        self._start_manager()

    def _kill_part(self, part: str) -> None:
        """A shim or a holder, of any sandbox that has one."""
        files = sorted((self._node.state / "sandboxes").glob("*/shim.json"))
        if files:
            with contextlib.suppress(OSError, ValueError):
                document = json.loads(self._random.choice(files).read_text())
                slay(int(document["pid" if part == "shim" else "holder"]))
                self.tally.kills[part] += 1

    def _kill_container(self) -> None:
        states = sorted((self._node.state / "oci").glob("*/state.json"))
        if states:
            with contextlib.suppress(OSError, ValueError):
                slay(int(json.loads(self._random.choice(states).read_text())["init_process_pid"]))
                self.tally.kills["container"] += 1

    def _kill_helper(self) -> None:
        """A program that the runtime has started: what shims come from, a network plugin, an OCI runtime."""
        with contextlib.suppress(OSError):
            if helpers := children(self._node.child.pid):
                slay(self._random.choice(helpers))
                self.tally.kills["helper"] += 1

    # -- what is wanted

    def _start_manager(self) -> None:
        argv = self._pods.argv("run", "-f", self._manifests, "--watch", "--log-level", "warning")
        self._manager = Child(argv, log=self._node.folder / "manager.log")

    def _write(self, name: str) -> None:
        self._versions[name] += 1
        self.tally.edits += 1
        new = self._manifests.with_name("new")
        new.write_text(json.dumps(manifest(name, self._versions[name])))
        new.rename(self._manifests / f"{name}.json")

    def _edit(self) -> None:
        self._write(self._random.choice(NAMES))

    def _take_away(self) -> None:
        (self._manifests / f"{self._random.choice(NAMES)}.json").unlink(missing_ok=True)
        self.tally.edits += 1

    # -- what is

    def _look(self) -> tuple[dict[str, list[bool]], Counter[str]]:
        """Sandboxes by pod (whether ready), and what runs; empty while the runtime does not answer."""
        ready: dict[str, list[bool]] = {}
        running: Counter[str] = Counter()
        with CriClient(self._node.socket) as client, contextlib.suppress(Exception):
            for one in client.call("ListPodSandbox", timeout=WAIT_LIMIT).items:
                ready.setdefault(one.metadata.name, []).append(one.state == cri.SANDBOX_READY)
                self.tally.sandboxes.add(one.id)
            for one in client.call("ListContainers", timeout=WAIT_LIMIT).containers:
                self.tally.containers.add(one.id)
                if one.state == cri.CONTAINER_RUNNING:
                    running[f"{one.labels['io.kubernetes.pod.name']}/{one.metadata.name}"] += 1
        return ready, running

    def _problem(self) -> str:
        """Why it is not as wanted yet."""
        ready, running = self._look()
        wanted: Counter[str] = Counter()
        for path in self._manifests.glob("*.json"):
            if path.stem != "job":
                if sum(ready.get(path.stem, [])) != 1:
                    return f"sandboxes of {path.stem} that are ready: {ready.get(path.stem)}"
                wanted.update(f"{path.stem}/{one['name']}" for one in manifest(path.stem, 1)["spec"]["containers"])
        running = Counter({name: count for name, count in running.items() if not name.startswith("job/")})
        return "" if running == wanted else f"running: {dict(running)}, wanted: {dict(wanted)}"

    def _all_well(self) -> None:
        """A new manager waits for nobody who failed too often under the one before."""
        self._kill_manager()
        began = time.monotonic()
        self._wait(self._problem, "all to be well")
        self.tally.checks += 1
        self.tally.slowest = max(self.tally.slowest, time.monotonic() - began)
        self._say(f"{self.tally}")

    def _all_gone(self) -> None:
        for path in self._manifests.glob("*.json"):
            path.unlink()
        self._wait(self._present, "all pods to be gone")
        if self._manager is not None:
            self._manager.stop()
        cgroups = [path for path in self._node.left().get("cgroups", []) if "/pod" in path]
        if cgroups:
            raise self._node.child.error(f"left behind: {cgroups}")
        remove_groups(self._node.cgroup)  # the classes above the pods stay, as with a kubelet
        self._node.wait_clean()

    def _present(self) -> str:
        ready, running = self._look()
        folders = [str(path) for place in (self._pods.root / "pods", self._pods.logs) for path in _inside(place)]
        return f"{ready} {dict(running)} {folders}" if ready or running or folders else ""

    def _wait(self, problem: Callable[[], str], what: str) -> None:
        end = time.monotonic() + WAIT_LIMIT
        slow = time.monotonic() + _SLOW
        while text := problem():
            if time.monotonic() > slow:
                self._say(f"still waiting for {what}: {text}")
                slow = end
            if time.monotonic() > end:
                manager = "" if self._manager is None else self._manager.log_tail()
                raise self._node.child.error(f"waited {WAIT_LIMIT:g} s in vain for {what}: {text}\n{manager}")
            time.sleep(0.2)


def _inside(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.lab.kill.soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 16) if given.seed is None else given.seed
    if reason := KillableRuntime.missing():
        raise SystemExit(f"cannot run here: {reason}")
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="interpose-"))
    try:
        soak = KillSoak(folder, seed, lambda text: print(text, flush=True))
        soak.run(given.minutes * 60)
        print(f"nothing is left: {soak.tally}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
