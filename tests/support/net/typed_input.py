"""What somebody types, for tests of exec and attach: the stdin of a client."""

import asyncio


class Typed:
    """These pieces, then the end."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        return self._pieces.pop(0) if self._pieces else await self._last()

    async def _last(self) -> bytes:
        return b""


class Open(Typed):
    """These pieces, and no end."""

    async def _last(self) -> bytes:
        await asyncio.Event().wait()
        return b""


class Vanishing(Typed):
    """These pieces, then the client is gone."""

    async def _last(self) -> bytes:
        raise ConnectionError("gone")
