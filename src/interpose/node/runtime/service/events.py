"""The feed of container events: every subscriber gets every event from its subscription on.

Memory is bounded: a subscriber that does not read loses its subscription, never the others theirs.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError

_Item: TypeAlias = cri.ContainerEventResponse | RpcError


class _Queue:
    """The events that a subscriber has not read. The last item is an error."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[_Item] = asyncio.Queue()
        self.size = 0  # bytes

    def __len__(self) -> int:
        return self._items.qsize()

    def put(self, item: _Item, size: int = 0) -> None:
        """Add an event or the final error; `size` is its size in bytes."""
        self.size += size
        self._items.put_nowait(item)

    async def get(self) -> cri.ContainerEventResponse:
        """The next event; raises the error that ends the stream."""
        item = await self._items.get()
        if isinstance(item, RpcError):
            raise item
        self.size -= item.ByteSize()
        return item


class EventFeed:
    """Fan-out of events. A subscriber may have `backlog` unread events, or `max_bytes` and one event more."""

    def __init__(self, backlog: int = 10_000, max_bytes: int = 16 << 20) -> None:
        self._backlog = backlog
        self._max_bytes = max_bytes  # an event has a pod with its annotations: a few can be large
        self._queues: set[_Queue] = set()

    @property
    def subscribers(self) -> int:
        """The number of open event streams."""
        return len(self._queues)

    def publish(self, make: Callable[[], cri.ContainerEventResponse]) -> None:
        """Send an event to all subscribers; it has the whole pod, so `make` is called only if there are any."""
        if not self._queues:
            return
        event = make()
        size = event.ByteSize()
        for queue in list(self._queues):
            if len(queue) >= self._backlog or queue.size >= self._max_bytes:
                self._queues.discard(queue)
                message = f"{len(queue)} events not read, {queue.size} bytes"
                queue.put(RpcError(Code.RESOURCE_EXHAUSTED, message))
            else:
                queue.put(event, size)

    def close(self) -> None:
        """End all streams after the events published so far."""
        for queue in self._queues:
            queue.put(RpcError(Code.UNAVAILABLE, "the runtime is shutting down"))
        self._queues.clear()

    async def stream(self) -> AsyncGenerator[cri.ContainerEventResponse, None]:
        """A subscription; it begins when the first event is asked for."""
        queue = _Queue()
        self._queues.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues.discard(queue)
