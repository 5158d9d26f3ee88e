"""So many at a time for each of any number of keys; a key that nobody uses is forgotten."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
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
