"""Takes away what nobody needs, in a thread of its own: whoever asks for it need not wait, nor does it for unpacking.

Any number of wishes that come while one collection runs are one more collection. What fails is logged, and tried again
with the next wish: nobody who removes an image or a container can do anything about it.
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

    def ask(self) -> "asyncio.Future[None]":
        """A collection shall begin soon; what is returned is done when it has ended, and need not be waited for."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._running is None:
                self._running = self._tasks.spawn(self._run(), name="images: collection")
        return self._next

    async def done(self) -> None:
        """A collection that begins after this call has ended. It goes on if the caller goes away."""
        await asyncio.shield(self.ask())

    async def close(self) -> None:
        """Whatever was asked for is done first."""
        if self._running is not None:
            await asyncio.wait((self._running,))
        await asyncio.to_thread(self._threads.close)

    async def _run(self) -> None:
        try:
            while (wished := self._next) is not None:
                self._next = None
                try:
                    await self._threads.run(lambda _: self._collect())
                except Exception as error:
                    _log.warning("Failed to remove unused image data", extra=kv(err=str(error)))
                finally:
                    wished.set_result(None)
        finally:
            self._running = None
