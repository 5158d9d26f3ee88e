"""Large messages of intercepted calls, one after the other.

Whoever reads a message has it several times: as it came, parsed, and as it would be sent on. A few clients with a few
kilobytes each, which unpack to megabytes, would have as much memory as they like. No call of a kubelet is that large.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from interpose.net.h2.buffered import BufferedShare

LARGE: Final = 1 << 20  # bytes; what the API server stores of a pod is not larger


class LargeMessages:
    """Whose turn it is. One per relay."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(1)

    def turn(self, share: BufferedShare) -> "LargeMessageTurn":
        """For one call; what is unpacked counts for this share."""
        return LargeMessageTurn(self._free, share)


class LargeMessageTurn:
    """One call's: it comes before a message is read, and ends with the call."""

    def __init__(self, free: asyncio.Semaphore, share: BufferedShare) -> None:
        self._free = free
        self._share = share
        self._has = False

    async def come(self, size: int) -> None:
        """Wait, if a message of this size has to."""
        if size >= LARGE:
            await self._take()

    async def unpack(self, unpack: Callable[[], bytes]) -> bytes:
        """The same for one whose size shows only now. In a thread: the loop has others to serve."""
        await self._take()
        work = asyncio.get_running_loop().run_in_executor(None, unpack)
        try:
            message = await asyncio.shield(work)
        except asyncio.CancelledError:
            self._has = False
            work.add_done_callback(self._unpacked_for_nobody)
            raise
        self._share.add(len(message))
        if len(message) < LARGE:
            self.end()
        return message

    def end(self) -> None:
        """Somebody else's turn. May be said twice."""
        if self._has:
            self._has = False
            self._free.release()

    async def _take(self) -> None:
        await self._free.acquire()
        self._has = True

    def _unpacked_for_nobody(self, work: "asyncio.Future[bytes]") -> None:
        work.exception()  # nobody is left to be told
        self._free.release()
