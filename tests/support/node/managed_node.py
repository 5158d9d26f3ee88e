"""A node whose pods a RuntimeManager runs on a FakeRuntime: one clock for both, folders of its own, no root."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from interpose.cri.caller import Caller
from interpose.cri.client import RuntimeClient
from interpose.node.pods.clock import Clocks
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.spec import ContainerSpec, PodSpec, ResourceRequirements
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.status.types import PodStatus
from interpose.node.pods.sync.actions import UNPROBED, ProbeResults
from interpose.node.pods.sync.manager import RuntimeManager
from interpose.node.pods.sync.result import SILENT, ProgressEvent, ProgressListener, SyncResult
from interpose.node.pods.volumes.pod_dirs import PodDirs
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import BUSYBOX
from tests.support.clock import ManualClock

# Calls that change something at a runtime.
MUTATING = frozenset(
    (
        "RunPodSandbox",
        "StopPodSandbox",
        "RemovePodSandbox",
        "CreateContainer",
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
        "UpdateContainerResources",
        "PullImage",
        "RemoveImage",
    )
)


def container(name: str = "main", **fields: Any) -> ContainerSpec:
    """A container of a manifest."""
    return ContainerSpec(**{"name": name, "image": BUSYBOX, **fields})


def pod(*containers: ContainerSpec, **fields: Any) -> PodSpec:
    """A pod of a manifest; with one container if none is said."""
    return PodSpec(**{"name": "web", "uid": "1234", "containers": containers or (container(),), **fields})


def amounts(**given: int | str) -> ResourceRequirements:
    """Requests and limits that are the same."""
    values = {name: Fraction(value) for name, value in given.items()}
    return ResourceRequirements(requests=values, limits=values)


class Heard:
    """Progress that is kept."""

    def __init__(self) -> None:
        self.news: list[ProgressEvent] = []

    def on_progress(self, news: ProgressEvent) -> None:
        self.news.append(news)

    @property
    def moments(self) -> list[str]:
        """What was told, shortly."""
        return [f"{one.phase} {one.container}".strip() for one in self.news]


class ManagedNode:
    """The runtime stays; managers come and go (`restart`)."""

    def __init__(self, folder: Path, *, runtime: FakeRuntime | None = None, caller: Caller | None = None) -> None:
        self.clock = ManualClock()
        self.folder = folder
        self.runtime = runtime if runtime is not None else FakeRuntime(clock=self.clock)
        self.caller: Caller = caller if caller is not None else self.runtime
        self.slept: list[float] = []
        self.log_root = folder / "logs"
        self.dirs = PodDirs(str(folder / "root"), log_root=str(self.log_root))
        self.manager = self.restart()

    def restart(self) -> RuntimeManager:
        """Another manager that knows nothing of the one before."""
        self.manager = RuntimeManager(
            RuntimeClient(self.caller),
            node=NodeFacts(name="node", memory=8 << 30, addresses=("192.0.2.1",)),
            dirs=self.dirs,
            log_root=str(self.log_root),
            cgroup_mount=str(self.folder / "cgroup"),
            clocks=Clocks(now=self.clock, elapsed=lambda: self.clock() / 1e9, sleep=self._sleep),
        )
        return self.manager

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    async def status(self, pod: PodSpec | str) -> PodStatus:
        """What the runtime has of it."""
        return await self.manager.get_pod_status(pod if isinstance(pod, str) else pod.uid)

    async def sync(
        self, pod: PodSpec, health: ProbeResults = UNPROBED, progress: ProgressListener = SILENT
    ) -> SyncResult:
        """One round, from what the runtime has now."""
        return await self.manager.sync_pod(pod, await self.status(pod), health, progress=progress)

    async def settle(
        self, pod: PodSpec, *, rounds: int = 30, between: Callable[[], object] = lambda: None
    ) -> list[SyncResult]:
        """Rounds until one does nothing, `between` before each, and five minutes from one to the next."""
        results: list[SyncResult] = []
        for _ in range(rounds):
            between()
            result = await self.sync(pod)
            if not result.steps:
                return results
            results.append(result)
            self.clock.advance(301)
        raise AssertionError(f"not at rest after {rounds} rounds: {results[-1]}")

    async def found(self, pod: PodSpec) -> RuntimePod:
        """All that the runtime lists of it."""
        return await self.manager.find_pod(pod.uid)

    def calls(self, *names: str) -> list[str]:
        """The calls that change something, or those of these names, in their order."""
        wanted: Sequence[str] | frozenset[str] = names or MUTATING
        return [method for method, _ in self.runtime.requests if method in wanted]

    def forget_calls(self) -> None:
        """Count from now on."""
        self.runtime.requests.clear()
        self.runtime.calls.clear()

    def running(self) -> dict[str, list[str]]:
        """The ids of running containers by their names."""
        found: dict[str, list[str]] = {}
        for one in self.runtime.containers.values():
            if one.pid:
                found.setdefault(one.config.metadata.name, []).append(one.id)
        return found
