"""When rounds happen: after a while, and at once when something says so. Causes that come together share a round."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from interpose.rpc.tasks import TaskBag

_log = logging.getLogger(__name__)

# Causes come in bursts: a pod is several directories, a document several events.
_GATHER: Final = 0.02
_PAUSE_AFTER_FAILURE: Final = 1.0
TICK: Final = "tick"


class Rounds:
    """Calls `work(reason)` every `interval` seconds and soon after `soon`; one call at a time."""

    def __init__(self, work: Callable[[str], Awaitable[None]], interval: float) -> None:
        self._work = work
        self._interval = interval
        self._reasons: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._tasks = TaskBag()
        self._timer: asyncio.TimerHandle | None = None
        self.failed = 0

    def start(self) -> None:
        """Begin, with a round at once."""
        self.soon("start")
        self._tasks.spawn(self._run(), name="rounds")

    def soon(self, reason: str) -> None:
        """Something happened."""
        self._reasons[reason] = None
        self._wake.set()

    def later(self, reason: str, pause: float) -> None:
        """Something is to be looked at in a while. The last word counts: it takes the place of one said before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(pause, self.soon, reason)

    async def close(self) -> None:
        """No more of them; one that is under way is cut off."""
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.cancel()

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval):
                    await self._wake.wait()
                await asyncio.sleep(_GATHER)
            except TimeoutError:
                self.soon(TICK)
            self._wake.clear()
            reasons, self._reasons = self._reasons, {}
            try:
                await self._work(", ".join(reasons))
            except Exception:
                self.failed += 1
                _log.exception("Round failed")
                await asyncio.sleep(_PAUSE_AFTER_FAILURE)
