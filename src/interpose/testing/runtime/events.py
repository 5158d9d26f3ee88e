"""The event feed of a fake runtime: every subscriber sees every event, from the moment it subscribed.

Memory is bounded: a subscriber that does not read loses its subscription, never the others theirs.
"""

import asyncio
from collections.abc import AsyncGenerator

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.changes import Changes


class EventHub:
    """Fan-out of events to all subscribers."""

    def __init__(self, backlog: int = 10_000) -> None:
        self._backlog = backlog
        self._queues: set[asyncio.Queue[cri.ContainerEventResponse | RpcError | None]] = set()
        self._changes = Changes()

    @property
    def subscribers(self) -> int:
        """How many streams are open."""
        return len(self._queues)

    async def wait_for_subscribers(self, count: int) -> None:
        """Return when exactly this many streams are open."""
        await self._changes.until(lambda: self.subscribers == count)

    def publish(self, event: cri.ContainerEventResponse) -> None:
        """Give one event to all subscribers."""
        for queue in list(self._queues):
            if queue.qsize() >= self._backlog:
                self._drop(queue)
                queue.put_nowait(RpcError(Code.RESOURCE_EXHAUSTED, f"{self._backlog} events not read"))
            else:
                queue.put_nowait(event)

    def end(self, error: RpcError | None = None) -> None:
        """End all open streams after what was published: cleanly, or with this error."""
        for queue in list(self._queues):
            self._drop(queue)
            queue.put_nowait(error)

    async def stream(self) -> AsyncGenerator[cri.ContainerEventResponse, None]:
        """One subscription; it begins with the first item asked for."""
        queue: asyncio.Queue[cri.ContainerEventResponse | RpcError | None] = asyncio.Queue()
        self._queues.add(queue)
        self._changes.notify()
        try:
            while (item := await queue.get()) is not None:
                if isinstance(item, RpcError):
                    raise item
                yield item
        finally:
            self._drop(queue)

    def _drop(self, queue: "asyncio.Queue[cri.ContainerEventResponse | RpcError | None]") -> None:
        self._queues.discard(queue)
        self._changes.notify()
