"""Threads for long image work, and a semaphore for each of any number of keys.

Image work has threads of its own, so that short work elsewhere does not wait for it.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

_T = TypeVar("_T")


class Threads:
    """A pool of a few threads for work that can be stopped."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="images")

    async def run(self, work: Callable[[Callable[[], bool]], _T]) -> _T:
        """Run `work`, which polls its argument whether to stop. It has ended when this returns or raises."""
        stop = threading.Event()
        done = asyncio.get_running_loop().run_in_executor(self._pool, work, stop.is_set)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            stop.set()
            while not done.done():
                try:
                    await asyncio.wait((done,))
                except asyncio.CancelledError:
                    continue  # the second cancellation changes nothing
            if not done.cancelled():
                done.exception()  # marks the exception as retrieved
            raise

    def close(self) -> None:
        """Wait for work that runs; none is begun afterwards."""
        self._pool.shutdown()


class KeyedSemaphore:
    """A semaphore of `limit` for each key; waiters are served in the order in which they came."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._semaphores: dict[str, tuple[asyncio.Semaphore, int]] = {}  # with the number of holders and waiters

    def __len__(self) -> int:
        return len(self._semaphores)

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncIterator[None]:
        """Hold the semaphore of a key."""
        semaphore, users = self._semaphores.get(key) or (asyncio.Semaphore(self._limit), 0)
        self._semaphores[key] = (semaphore, users + 1)
        try:
            async with semaphore:
                yield
        finally:
            semaphore, users = self._semaphores.pop(key)
            if users > 1:
                self._semaphores[key] = (semaphore, users - 1)
