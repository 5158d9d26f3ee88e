"""What is known of pods beyond what the runtime tells: the runtime's labels and annotations are those of the start.

The kubelet knows today's. A round does not wait for a source that takes its time: it goes by what that said last, and
what is told later leads to another round if it is news.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from interpose.core.model.pod import Pod
from interpose.hooks.server.pods.kubelet_client import KubeletPods
from interpose.hooks.server.pods.pod_metadata import overlay
from interpose.tasks import TaskBag

_PATIENCE: Final = 0.25


class Polling:
    """One question at a time. `known` is what the source said last; `changed` is called if that is news that came late.

    `refresh` does not fail.
    """

    def __init__(
        self,
        refresh: Callable[[], Awaitable[object]],
        known: Callable[[], object],
        changed: Callable[[], None],
        *,
        name: str,
    ) -> None:
        self._refresh = refresh
        self._known = known
        self._changed = changed
        self._name = name
        self._tasks = TaskBag()
        self._asking: asyncio.Task[object] | None = None

    async def ask(self) -> None:
        """Wait a little for the latest."""
        if self._asking is None or self._asking.done():
            before = self._known()
            self._asking = self._tasks.spawn(self._ask(), name=self._name)
            done, _ = await asyncio.wait((self._asking,), timeout=_PATIENCE)
            if not done:
                self._asking.add_done_callback(lambda asked: self._answered(asked, before))
        else:
            await asyncio.wait((self._asking,), timeout=_PATIENCE)

    async def close(self) -> None:
        """Ask no more."""
        await self._tasks.cancel()

    async def _ask(self) -> object:
        return await self._refresh()

    def _answered(self, asked: "asyncio.Task[object]", before: object) -> None:
        # A source that is always late would otherwise cause one round after the other.
        if not asked.cancelled() and self._known() != before:
            self._changed()


class Facts(NamedTuple):
    """How a pod looks with what is known of it, and whether the source has ever told anything."""

    of: Callable[[Pod], Pod]
    known: bool = True


class FactSource:
    """The kubelet, or nobody. `changed` is called when it told something new after a round stopped waiting for it."""

    def __init__(self, kubelet: KubeletPods | None, changed: Callable[[], None]) -> None:
        self._kubelet = kubelet
        self._polling = None
        if kubelet is not None:
            name = "ask the kubelet for its pods"
            self._polling = Polling(kubelet.refresh, lambda: kubelet.pods, changed, name=name)

    async def ask(self) -> Facts:
        """What is known now, after a short wait for the latest."""
        if self._kubelet is None or self._polling is None:
            return Facts(self.of)
        await self._polling.ask()
        return Facts(self.of, known=self._kubelet.refreshed_at is not None)

    def of(self, pod: Pod) -> Pod:
        """A pod with what was told of it last."""
        return pod if self._kubelet is None else overlay(pod, self._kubelet.pods.get(pod.uid))

    async def close(self) -> None:
        """Ask no more."""
        if self._polling is not None:
            await self._polling.close()
