"""The load: pods as a kubelet makes them, through any CRI socket, with one client for all; and through our manager."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from typing import TYPE_CHECKING, Any

from bench.pods_contestants import LOAD_MARK, now, resident_now
from interpose.cri.client import RuntimeClient
from interpose.cri.messages import cri
from interpose.cri.remote import RemoteCaller
from interpose.net.grpc.status import RpcError
from interpose.node.pods.node_probe import read_node
from interpose.node.pods.spec import ContainerSpec as PodContainer
from interpose.node.pods.spec import PodSpec
from interpose.node.pods.sync.manager import RuntimeManager
from interpose.node.pods.volumes.pod_dirs import PodDirs
from interpose.tasks import TaskBag
from interpose.testing.pods import container_config, pod_config
from tests.support.lab.images import TEST_IMAGE
from tests.support.lab.processes import LabError, accepts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from bench.pods_contestants import Contestant

TIMEOUT = 120.0
SLEEP = ("/bin/sleep", LOAD_MARK)
# The highest memory is looked for so often; each look reads one file per process.
LOOK_EVERY = 0.1
_NUMBERS = itertools.count()


class Client:
    """Calls of one socket."""

    def __init__(self, caller: RemoteCaller, group: str, logs: Path) -> None:
        self._caller = caller
        self._group = group
        self._logs = logs

    async def call(self, method: str, **fields: Any) -> Any:
        return await self._caller.call(method, getattr(cri, f"{method}Request")(**fields), timeout=TIMEOUT)

    def pod(self, *, node_network: bool = False) -> cri.PodSandboxConfig:
        """One that nobody has seen."""
        name = f"bench-{secrets.token_hex(4)}-{next(_NUMBERS)}"
        config = pod_config(name, "bench", host_network=node_network)
        config.log_directory = str(self._logs / name)
        config.linux.cgroup_parent = f"{self._group}/pod{config.metadata.uid}"
        return config

    def container(self, pod: cri.PodSandboxConfig) -> cri.ContainerConfig:
        config = container_config(pod, "main", command=SLEEP)
        config.image.image = TEST_IMAGE
        config.ClearField("mounts")  # files of a kubelet
        config.log_path = "main.log"
        return config

    async def start(self, *, node_network: bool = False) -> Started:
        """A pod with a container that runs."""
        pod = self.pod(node_network=node_network)
        config = self.container(pod)
        begin = now()
        sandbox = (await self.call("RunPodSandbox", config=pod)).pod_sandbox_id
        ran = now()
        answer = await self.call("CreateContainer", pod_sandbox_id=sandbox, config=config, sandbox_config=pod)
        created = now()
        await self.call("StartContainer", container_id=answer.container_id)
        started = now()
        return Started(sandbox, answer.container_id, run=ran - begin, create=created - ran, start=started - created)

    async def remove(self, pod: Started) -> tuple[float, float]:
        """As a kubelet ends a pod, without a grace; seconds for what is stopped, and for what is removed."""
        begin = now()
        await self.call("StopContainer", container_id=pod.container, timeout=0)
        await self.call("StopPodSandbox", pod_sandbox_id=pod.sandbox)
        stopped = now()
        await self.call("RemoveContainer", container_id=pod.container)
        await self.call("RemovePodSandbox", pod_sandbox_id=pod.sandbox)
        return stopped - begin, now() - stopped

    async def exec(self, pod: Started) -> float:
        """A command that does nothing; seconds."""
        begin = now()
        said = await self.call("ExecSync", container_id=pod.container, cmd=["/bin/true"], timeout=10)
        if said.exit_code != 0:
            raise LabError(f"exec ended with {said.exit_code}: {said.stderr!r}")
        return now() - begin

    async def timed(self, method: str, **fields: Any) -> float:
        begin = now()
        await self.call(method, **fields)
        return now() - begin


class Started:
    """A pod that runs, and how many seconds each call took."""

    def __init__(self, sandbox: str, container: str, *, run: float, create: float, start: float) -> None:
        self.sandbox = sandbox
        self.container = container
        self.run, self.create, self.start = run, create, start

    @property
    def total(self) -> float:
        return self.run + self.create + self.start


@contextlib.asynccontextmanager
async def client_of(socket: Path, group: str, logs: Path) -> AsyncIterator[Client]:
    """A connection."""
    caller = RemoteCaller(str(socket), patience=0.5)
    await caller.start()
    try:
        yield Client(caller, group, logs)
    finally:
        await caller.close()


async def ready_pods(socket: Path) -> int:
    """How many sandboxes are ready; -1 if nobody answers."""
    if not accepts(socket):
        return -1
    try:
        async with client_of(socket, "", socket) as client:
            found = await client.call("ListPodSandbox")
    except RpcError:
        return -1
    return sum(one.state == cri.SANDBOX_READY for one in found.items)


@contextlib.asynccontextmanager
async def peak_memory(contestant: Contestant) -> AsyncIterator[list[int]]:
    """The highest resident memory inside of the block, of all but the containers: the one value of the list."""
    highest = [0]

    async def watch() -> None:
        while True:
            pids = await asyncio.to_thread(contestant.overhead)
            highest[0] = max(highest[0], await asyncio.to_thread(resident_now, pids))
            await asyncio.sleep(LOOK_EVERY)

    tasks = TaskBag()
    tasks.spawn(watch(), name="peak memory")
    try:
        yield highest
    finally:
        await tasks.cancel()


class Managed:
    """The same by our manager: a pod of a manifest until it runs, and until nothing is left of it."""

    def __init__(self, socket: Path, group: str, folder: Path) -> None:
        self._socket = socket
        self._group = group
        self._folder = folder

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[RuntimeManager]:
        caller = RemoteCaller(str(self._socket))
        await caller.start()
        node = await asyncio.to_thread(read_node, cgroup_root=self._group)
        dirs = PodDirs(str(self._folder / "pods"), log_root=str(self._folder / "logs"))
        try:
            yield RuntimeManager(RuntimeClient(caller), node=node, dirs=dirs, log_root=str(self._folder / "logs"))
        finally:
            await caller.close()

    async def life(self, manager: RuntimeManager) -> tuple[float, float]:
        """Seconds to start and to remove one."""
        number = next(_NUMBERS)
        pod = PodSpec(
            name=f"managed-{number}",
            uid=secrets.token_hex(16),
            containers=(PodContainer(name="main", image=TEST_IMAGE, command=SLEEP),),
        )
        begin = now()
        result = await manager.sync_pod(pod, await manager.get_pod_status(pod.uid))
        started = now()
        if not result.ok:
            raise LabError(f"the manager could not start a pod: {result.errors}")
        gone = await manager.remove_pod(await manager.find_pod(pod.uid), pod, 0)
        if not gone.ok:
            raise LabError(f"the manager could not remove a pod: {gone.errors}")
        return started - begin, now() - started


async def many(client: Client, count: int) -> tuple[list[Started], float]:
    """So many at once; seconds until the last one runs."""
    begin = now()
    pods = await asyncio.gather(*(client.start() for _ in range(count)))
    return list(pods), now() - begin


async def remove_many(client: Client, pods: Sequence[Started]) -> float:
    """Seconds until the last one is gone."""
    begin = now()
    await asyncio.gather(*(client.remove(pod) for pod in pods))
    return now() - begin
