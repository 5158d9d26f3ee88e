"""Garbage collection of a store, in a thread of its own: callers need not wait, nor does it wait for unpacking.

Any number of requests during a collection make one more collection. A failure is logged, and retried with the next
request: a caller that removes an image or a container can do nothing about it.
"""

import asyncio
import logging
from collections.abc import Callable

from interpose.log import kv
from interpose.node.runtime.images.concurrency import Threads
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)


class ImageCollector:
    """Collections of one store, one after the other."""

    def __init__(self, collect: Callable[[], object]) -> None:
        self._collect = collect
        self._threads = Threads(1)
        self._tasks = TaskBag()
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Future[None] | None = None  # done when a collection that has not begun yet has ended

    def request(self) -> "asyncio.Future[None]":
        """Request a collection; the future is done when it has ended, and need not be awaited."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._running is None:
                self._running = self._tasks.spawn(self._run(), name="images: collection")
        return self._next

    async def run(self) -> None:
        """Request a collection and wait for its end. It goes on if the caller is cancelled."""
        await asyncio.shield(self.request())

    async def close(self) -> None:
        """Finish requested collections, then stop."""
        if self._running is not None:
            await asyncio.wait((self._running,))
        await asyncio.to_thread(self._threads.close)

    async def _run(self) -> None:
        try:
            while (requested := self._next) is not None:
                self._next = None
                try:
                    await self._threads.run(lambda _: self._collect())
                except Exception as error:
                    _log.warning("Failed to remove unused image data", extra=kv(err=str(error)))
                finally:
                    requested.set_result(None)
        finally:
            self._running = None
