"""kill -9 of `interpose pod` at its acts: before and after each call to the runtime, at each change of its folders.

What a killed one began the next one finishes: pods come up, nothing runs twice, no attempt is made twice, and after
`rm` nothing is left, neither at the runtime nor on the disk. The runtime is a fake, so that every call counts.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.server import serve
from interpose.tasks import TaskBag
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.state import FakeContainer, FakeSandbox
from tests.support.lab.kill.killable import doomed
from tests.support.lab.pods import remove_groups
from tests.support.lab.relay import program

THOROUGH = bool(os.environ.get("INTERPOSE_THOROUGH"))
pytestmark = pytest.mark.timeout(3600 if THOROUGH else 900, method="thread")

MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers:
  - {name: init, image: "docker.io/library/busybox:1.36", command: ["true"]}
  containers:
  - name: server
    image: docker.io/library/busybox:1.36
    volumeMounts: [{name: settings, mountPath: /settings}, {name: scratch, mountPath: /scratch}]
  - {name: helper, image: "docker.io/library/busybox:1.36"}
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: scratch, emptyDir: {}}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: db, image: "docker.io/library/busybox:1.36"}
"""
WANTED = {"init": 0, "server": 1, "helper": 1, "db": 1}


class Witness:
    """Sees to it that no container runs twice at the same time."""

    def __init__(self) -> None:
        self.runtime: FakeRuntime | None = None
        self.doubles: list[str] = []

    def changed(self, kind: "cri.ContainerEventType", _object_id: str, sandbox: FakeSandbox | None) -> None:
        """After each start."""
        if kind == cri.CONTAINER_STARTED_EVENT and self.runtime is not None and sandbox is not None:
            running = Counter(_title(one) for one in self.runtime.containers.values() if one.pid)
            self.doubles += [name for name, count in running.items() if count > 1]

    def updating(self, _container: FakeContainer, _patch: cri.LinuxContainerResources) -> None:
        """Of no interest."""


def _title(container: FakeContainer) -> str:
    return f"{container.config.labels['io.kubernetes.pod.uid']}/{container.config.metadata.name}"


class Node:
    """A fake runtime on a socket, and `interpose pod` for it. Init containers end as soon as they run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.acts = folder / "acts"
        self.root = folder / "root"
        self.logs = folder / "logs"
        self.cgroup = f"/interpose-{folder.parent.name}"
        self._witness = Witness()
        self.runtime = self._witness.runtime = FakeRuntime(observer=self._witness)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pods.yaml").write_text(MANIFEST)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """While the block lasts."""
        tasks = TaskBag()
        server = await serve(self.folder / "r.sock", self.runtime.handlers())
        tasks.spawn(self._end_init(), name="init containers")
        try:
            yield
        finally:
            await tasks.cancel()
            await server.close()
            await asyncio.to_thread(remove_groups, self.cgroup)  # the classes above the pods stay, as with a kubelet

    async def _end_init(self) -> None:
        while True:
            for one in list(self.runtime.containers.values()):
                if one.pid and one.config.metadata.name == "init":
                    self.runtime.exit_container(one.id)
            await asyncio.sleep(0.01)

    async def pod(self, verb: str, *words: str, at: int | None = None) -> int:
        """The exit code of a command; `at`: it dies there."""
        places = ["--runtime-endpoint", str(self.folder / "r.sock"), "--root", str(self.root)]
        argv = [str(program()), "pod", verb, *places, "--log-root", str(self.logs), *words]
        if at is not None:
            self.acts.unlink(missing_ok=True)
            argv = doomed(argv, at, self.acts, below=(self.root, self.logs))
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), f"{self.last_act}: {said.decode()}"
        return process.returncode

    async def run(self, *words: str, at: int | None = None) -> int:
        """`pod run`."""
        return await self.pod(
            "run", "-f", str(self.folder / "pods.yaml"), "--min-ready", "0", "--cgroup-root", self.cgroup, *words, at=at
        )

    # -- what must be so

    @property
    def last_act(self) -> str:
        """Where a command died."""
        lines = self.acts.read_text().splitlines() if self.acts.exists() else []
        return lines[-1] if lines else ""

    def check_up(self) -> None:
        """Everything runs, once, and no attempt was made twice."""
        containers = list(self.runtime.containers.values())
        running = Counter(one.config.metadata.name for one in containers if one.pid)
        assert running == Counter(WANTED) - Counter(init=1), self.last_act
        attempts = Counter((_title(one), one.config.metadata.attempt) for one in containers)
        assert not [one for one, count in attempts.items() if count > 1], self.last_act
        ready = [one for one in self.runtime.sandboxes.values() if one.ready]
        assert len(ready) == 2, self.last_act
        assert not self._witness.doubles, self.last_act

    def check_gone(self) -> None:
        """Nothing is left."""
        assert not self.runtime.containers, self.last_act
        assert not self.runtime.sandboxes, self.last_act
        for folder in (self.root / "pods", self.logs):
            assert not folder.exists() or not list(folder.iterdir()), self.last_act


async def acts_of(scratch: Path, verb: str, *words: str) -> int:
    """How many acts a command has."""
    node = Node(scratch / "count")
    async with node.serving():
        if verb == "run":
            await node.run(at=0)
        else:
            await node.run()
            await node.pod(verb, *words, at=0)
    return len(node.acts.read_text().splitlines())


def moments(count: int, few: int) -> range:
    """All acts, or a few of them."""
    return range(1, count + 1, 1 if THOROUGH else max(count // few, 1))


async def each(scratch: Path, count: int, few: int, kill: Callable[[Node, int], object]) -> None:
    """A node of its own for each moment; what `kill` did is finished by others."""
    for at in moments(count, few):
        node = Node(scratch / str(at))
        async with node.serving():
            await kill(node, at)  # type: ignore[misc]


async def test_run_is_killed(scratch: Path) -> None:
    """The next one brings the pods up, from whatever is there."""

    async def kill(node: Node, at: int) -> None:
        assert await node.run("--watch", at=at) == -signal.SIGKILL
        assert await node.run() == 0
        node.check_up()
        assert await node.pod("rm", "--all") == 0
        node.check_gone()

    await each(scratch, await acts_of(scratch, "run"), 5, kill)


async def test_rm_is_killed(scratch: Path) -> None:
    """Said again it removes the rest; or `run` brings all of it back."""

    async def kill(node: Node, at: int) -> None:
        await node.run()
        await node.pod("rm", "--all", "--grace", "1", at=at)
        if at % 2:
            assert await node.run() == 0
            node.check_up()
        assert await node.pod("rm", "--all") == 0
        node.check_gone()

    await each(scratch, await acts_of(scratch, "rm", "--all", "--grace", "1"), 4, kill)


async def test_stop_is_killed(scratch: Path) -> None:
    """Said again it stops the rest; `run` starts everything again."""

    async def kill(node: Node, at: int) -> None:
        await node.run()
        await node.pod("stop", "--all", "--grace", "1", at=at)
        assert await node.pod("stop", "--all", "--grace", "1") == 0
        assert not [one for one in node.runtime.containers.values() if one.pid], node.last_act
        assert await node.run() == 0
        node.check_up()
        assert await node.pod("rm", "--all") == 0
        node.check_gone()

    await each(scratch, await acts_of(scratch, "stop", "--all", "--grace", "1"), 2, kill)
