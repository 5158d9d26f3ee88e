"""Waiting for a condition without polling or sleeping.

Whoever changes state calls `notify`; whoever waits gives a predicate that is looked at after each change.
Belongs to one event loop.
"""

import asyncio
from collections.abc import Callable


class Changes:
    """A place to wait until something that others change has become true."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Let every waiter look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Return as soon as the predicate holds; at once if it already does."""
        while not predicate():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
