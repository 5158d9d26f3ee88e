"""A node whose pods a Keeper keeps on a FakeRuntime: time passes when a test says so, second by second."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from interpose.core.model.pod import ContainerState
from interpose.node.pods.clock import Clocks
from interpose.node.pods.logs.rotation import LogLimits
from interpose.node.pods.spec import PodSpec
from interpose.node.pods.status.pod_state import PodState
from interpose.node.pods.sync.loop import PodSyncLoop
from interpose.testing.eventually import eventually
from tests.support.node.managed_node import Heard, ManagedNode


async def _never(_seconds: float) -> None:
    await asyncio.Event().wait()


class KeptNode(ManagedNode):
    """Keepers come and go; pods and their runtime stay."""

    def __init__(self, folder: Path, *, owns: Callable[[str], bool] = lambda _source: False) -> None:
        super().__init__(folder)
        self.heard = Heard()
        self.seen: list[PodState] = []
        self._owns = owns
        self.keeper = self.keep()

    def keep(self, logs: LogLimits | None = None) -> PodSyncLoop:
        """Another keeper with another manager, which know nothing of those before."""
        self.keeper = PodSyncLoop(
            self.restart(),
            clocks=Clocks(now=self.clock, elapsed=lambda: self.clock() / 1e9, sleep=_never),
            logs=logs,
            progress=self.heard,
            on_state=self.seen.append,
            owns=self._owns,
        )
        return self.keeper

    async def pass_time(self, seconds: float = 0.0) -> None:
        """Let so much time pass, a second at a time, and everything happen that is due in it."""
        left = seconds
        while True:
            for _ in range(3):  # what one does may be a reason for another
                await self.keeper.start_due_work()
                await eventually(lambda: self.keeper.is_settled, "all pods to be at rest")
            if left <= 0:
                return
            self.clock.advance(min(left, 1.0))
            left -= 1.0

    async def keeps(self, *pods: PodSpec) -> None:
        """These are wanted from now on, and have what they need."""
        self.keeper.set_pods(pods)
        await self.pass_time(1)

    def state(self, pod: PodSpec) -> PodState:
        """What the keeper knows of a pod."""
        return self.keeper.states[pod.uid]

    def crash(self, name: str = "main", code: int = 1) -> None:
        """The running container of that name ends."""
        (container_id,) = self.running()[name]
        self.runtime.exit_container(container_id, code)

    def starts(self) -> int:
        """How often containers were started."""
        return self.runtime.calls["StartContainer"]

    async def restarts(self, seconds: int, name: str = "main") -> list[int]:
        """Let time pass, end the container whenever it runs; after how many seconds it was started each time."""
        moments = []
        for second in range(seconds):
            if self.running().get(name):
                moments.append(second)
                self.crash(name)
            await self.pass_time(1)
        return moments

    async def ended(self) -> bool:
        """Whether nothing runs."""
        return all(
            one.state is not ContainerState.RUNNING for pod in await self.manager.get_pods() for one in pod.containers
        )
