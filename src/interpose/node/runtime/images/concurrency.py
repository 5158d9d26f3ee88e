"""Long work in threads of its own, so that short work elsewhere does not wait for it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
