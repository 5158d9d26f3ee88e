"""Large messages of intercepted calls take turns, because each is in memory several times.

A call holds its message as it came, parsed, and as it is sent on, until its end: interceptors may read the request
after the reply. Without turns, a few clients with a few kilobytes each that unpack to megabytes would use as much
memory as they like. A turn lasts as long as its call. A call that never ends (a stop with a long timeout) delays the
others for `TURN_WAIT` seconds; then they go on beside it, and only `limits.buffered` bounds them. Messages are unpacked
one at a time in any case. No call of a kubelet is that large.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from interpose.log import RateLimited
from interpose.net.h2.buffered import BufferedShare

_log = logging.getLogger(__name__)

LARGE: Final = 1 << 20  # bytes; what the API server stores of a pod is not larger
# Seconds. A create or update has an answer before; the kubelet's own deadline for most calls is two minutes, so that
# enough of it is left for the runtime.
TURN_WAIT: Final = 10.0


class LargeMessageQueue:
    """Calls with large messages that wait for each other. One per relay."""

    def __init__(self, turn_wait: float = TURN_WAIT) -> None:
        self.turn_wait = turn_wait
        self.turns = asyncio.Semaphore(1)  # held until a call ends, or not held by one that waited for too long
        self.unpacking = asyncio.Semaphore(1)  # held while a thread unpacks, which ends by itself
        self.warnings = RateLimited(_log)

    def turn(self, share: BufferedShare) -> "LargeMessageTurn":
        """The turn of one call, not yet taken. The size of an unpacked message is added to `share`."""
        return LargeMessageTurn(self, share)


class LargeMessageTurn:
    """The turn of one call: taken before its message is read, released when the call ends."""

    def __init__(self, queue: LargeMessageQueue, share: BufferedShare) -> None:
        self._queue = queue
        self._share = share
        self._held = False

    async def wait_for_turn(self, size: int) -> None:
        """Wait until no other call has a large message, at most `TURN_WAIT` seconds. A small message never waits."""
        if size >= LARGE:
            await self._acquire()

    async def unpack(self, unpack: Callable[[], bytes]) -> bytes:
        """Wait for the turn, then run `unpack` in a thread: how large the message is shows only afterwards.

        Raises what `unpack` raises. When the caller is cancelled, the turn lasts until the thread has ended.
        """
        await self._acquire()
        await self._queue.unpacking.acquire()
        work = asyncio.get_running_loop().run_in_executor(None, unpack)
        try:
            message = await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(partial(self._discard, self._held))
            self._held = False
            raise
        except Exception:
            self._queue.unpacking.release()
            raise
        self._share.add(len(message))
        self._queue.unpacking.release()
        if len(message) < LARGE:
            self.release()
        return message

    def release(self) -> None:
        """Let the next call have its turn. May be called twice, and without a turn."""
        if self._held:
            self._held = False
            self._queue.turns.release()

    async def _acquire(self) -> None:
        try:
            async with asyncio.timeout(self._queue.turn_wait):
                await self._queue.turns.acquire()
        except TimeoutError:
            self._queue.warnings.log(
                logging.WARNING,
                "A call with a large message does not end, reading the next one beside it",
                waited_seconds=self._queue.turn_wait,
            )
        else:
            self._held = True

    def _discard(self, held: bool, work: "asyncio.Future[bytes]") -> None:
        work.exception()  # retrieved, or asyncio logs it
        self._queue.unpacking.release()
        if held:
            self._queue.turns.release()
