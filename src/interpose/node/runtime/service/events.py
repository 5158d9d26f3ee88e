"""The feed of container events: every subscriber sees every event from the moment it subscribed.

Memory is bounded: a subscriber that does not read loses its subscription, never the others theirs.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError

_Item: TypeAlias = cri.ContainerEventResponse | RpcError


class _Queue:
    """What one subscriber has not read. The last item is an error."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[_Item] = asyncio.Queue()
        self.size = 0  # bytes

    def __len__(self) -> int:
        return self._items.qsize()

    def put(self, item: _Item, size: int = 0) -> None:
        """Add one of so many bytes."""
        self.size += size
        self._items.put_nowait(item)

    async def get(self) -> cri.ContainerEventResponse:
        """The next event; raises the error when it comes."""
        item = await self._items.get()
        if isinstance(item, RpcError):
            raise item
        self.size -= item.ByteSize()
        return item


class EventFeed:
    """Fan-out of events. A subscriber may leave so many unread, or so many bytes and one event more."""

    def __init__(self, backlog: int = 10_000, room: int = 16 << 20) -> None:
        self._backlog = backlog
        self._room = room  # an event shows a pod with its annotations: a few can be much
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
        size = event.ByteSize()
        for queue in list(self._queues):
            if len(queue) >= self._backlog or queue.size >= self._room:
                self._queues.discard(queue)
                words = f"{len(queue)} events not read, {queue.size} bytes"
                queue.put(RpcError(Code.RESOURCE_EXHAUSTED, words))
            else:
                queue.put(event, size)

    def close(self) -> None:
        """End all streams after what was published."""
        for queue in self._queues:
            queue.put(RpcError(Code.UNAVAILABLE, "the runtime is shutting down"))
        self._queues.clear()

    async def stream(self) -> AsyncGenerator[cri.ContainerEventResponse, None]:
        """One subscription; it begins with the first item asked for."""
        queue = _Queue()
        self._queues.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues.discard(queue)
