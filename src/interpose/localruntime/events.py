"""The feed of container events: every subscriber sees every event from the moment it subscribed.

Memory is bounded: a subscriber that does not read loses its subscription, never the others theirs.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from interpose.cri.messages import cri
from interpose.rpc.status import Code, RpcError

_Queue: TypeAlias = "asyncio.Queue[cri.ContainerEventResponse | RpcError]"


class EventFeed:
    """Fan-out of events."""

    def __init__(self, backlog: int = 10_000) -> None:
        self._backlog = backlog
        self._queues: set[_Queue] = set()

    @property
    def subscribers(self) -> int:
        """How many streams are open."""
        return len(self._queues)

    def publish(self, make: Callable[[], cri.ContainerEventResponse]) -> None:
        """Give one event to all; it shows the whole pod, so it is made only if somebody listens."""
        if not self._queues:
            return
        event = make()
        for queue in list(self._queues):
            if queue.qsize() >= self._backlog:
                self._queues.discard(queue)
                queue.put_nowait(RpcError(Code.RESOURCE_EXHAUSTED, f"{self._backlog} events not read"))
            else:
                queue.put_nowait(event)

    def close(self) -> None:
        """End all streams after what was published."""
        for queue in self._queues:
            queue.put_nowait(RpcError(Code.UNAVAILABLE, "the runtime is shutting down"))
        self._queues.clear()

    async def stream(self) -> AsyncGenerator[cri.ContainerEventResponse, None]:
        """One subscription; it begins with the first item asked for."""
        queue: _Queue = asyncio.Queue()
        self._queues.add(queue)
        try:
            while True:
                item = await queue.get()
                if isinstance(item, RpcError):
                    raise item
                yield item
        finally:
            self._queues.discard(queue)
