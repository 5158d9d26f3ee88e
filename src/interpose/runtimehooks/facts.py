"""What is known of pods beyond what the runtime tells: the runtime's labels and annotations are those of the start.

The kubelet knows today's. A round does not wait for a kubelet that takes its time: it goes by the last list, and what
is told later leads to another round if it is news.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from interpose.model.pod import Pod
from interpose.rpc.tasks import TaskBag
from interpose.runtimehooks.kubelet import KubeletPods
from interpose.runtimehooks.podfacts import PodFacts, overlay

_PATIENCE: Final = 0.25


class Facts(NamedTuple):
    """How a pod looks with what is known of it, and whether the source has ever told anything."""

    of: Callable[[Pod], Pod]
    known: bool = True


class FactSource:
    """The kubelet, or nobody. `changed` is called when it told something new after a round stopped waiting for it."""

    def __init__(self, kubelet: KubeletPods | None, changed: Callable[[], None]) -> None:
        self._kubelet = kubelet
        self._changed = changed
        self._tasks = TaskBag()
        self._asking: asyncio.Task[bool] | None = None

    async def ask(self) -> Facts:
        """What is known now, after a short wait for the latest."""
        kubelet = self._kubelet
        if kubelet is None:
            return Facts(self.of)
        if self._asking is None or self._asking.done():
            self._asking = self._tasks.spawn(kubelet.refresh(), name="ask the kubelet for its pods")
            done, _ = await asyncio.wait((self._asking,), timeout=_PATIENCE)
            if not done:
                before = kubelet.pods
                self._asking.add_done_callback(lambda asked: self._answered(asked, before))
        else:
            await asyncio.wait((self._asking,), timeout=_PATIENCE)
        return Facts(self.of, known=kubelet.refreshed_at is not None)

    def of(self, pod: Pod) -> Pod:
        """A pod with what was told of it last."""
        return pod if self._kubelet is None else overlay(pod, self._kubelet.pods.get(pod.uid))

    async def close(self) -> None:
        """Ask no more."""
        await self._tasks.cancel()

    def _answered(self, asked: "asyncio.Task[bool]", before: Mapping[str, PodFacts]) -> None:
        # A kubelet that is always late would otherwise cause one round after the other.
        if self._kubelet is not None and not asked.cancelled() and self._kubelet.pods != before:
            self._changed()
