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
    """A few threads."""

    def __init__(self, count: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="images")

    async def run(self, work: Callable[[Callable[[], bool]], _T]) -> _T:
        """Do something that asks now and then whether it shall stop. It has ended when this returns or raises."""
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
                    continue  # once is enough
            if not done.cancelled():
                done.exception()  # nobody asks for it
            raise

    def close(self) -> None:
        """Wait for what runs."""
        self._pool.shutdown()


class KeyedSemaphore:
    """At most `most` have a turn for the same key; the others wait in the order in which they came."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._doors: dict[str, tuple[asyncio.Semaphore, int]] = {}  # with how many use or want it

    def __len__(self) -> int:
        return len(self._doors)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it."""
        door, users = self._doors.get(key) or (asyncio.Semaphore(self._most), 0)
        self._doors[key] = (door, users + 1)
        try:
            async with door:
                yield
        finally:
            door, users = self._doors.pop(key)
            if users > 1:
                self._doors[key] = (door, users - 1)
