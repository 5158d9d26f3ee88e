"""When rounds happen: after a while, and at once when something says so. Causes that come together share a round."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# Causes come in bursts: a pod is several directories, a document several events.
_GATHER: Final = 0.02
_PAUSE_AFTER_FAILURE: Final = 1.0
_MOST_PAUSES: Final = 60
TICK: Final = "tick"


class Rounds:
    """Calls `work(reason)` every `interval` seconds and soon after `soon`; one call at a time."""

    def __init__(self, work: Callable[[str], Awaitable[None]], interval: float) -> None:
        self._work = work
        self._interval = interval
        self._reasons: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._tasks = TaskBag()
        self._timers: dict[str, asyncio.TimerHandle] = {}
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
        """Something is to be looked at in a while. Of one reason the last word counts."""
        if (timer := self._timers.pop(reason, None)) is not None:
            timer.cancel()
        self._timers[reason] = asyncio.get_running_loop().call_later(pause, self.soon, reason)

    async def close(self) -> None:
        """No more of them; one that is under way is cut off."""
        for timer in self._timers.values():
            timer.cancel()
        await self._tasks.cancel()

    async def _run(self) -> None:
        in_a_row = 0
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
                in_a_row = 0
            except Exception:
                self.failed += 1
                in_a_row += 1
                _log.exception("Reconciliation failed")
                # What it was about is not done, so it is tried again, though not too often.
                self._reasons = {**reasons, **self._reasons}
                self._wake.set()
                await asyncio.sleep(_PAUSE_AFTER_FAILURE * min(2 ** (in_a_row - 1), _MOST_PAUSES))
