"""What a call waits for on its way to the runtime and back, and how long: never more than half of what its caller has.

Whoever does not get what it waits for goes on all the same. A container that has CPUs then which are not its own, or
that gets CPUs which others may still have, is counted and told of.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from interpose.core.policy.request import Key
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Call
from interpose.resmgr.counters import PolicyCounters
from interpose.resmgr.tracker import AllocationTracker

# Seconds: for the books to be made at the start, for a look at others, for one more container to lose CPUs, for all of
# them, for others to grow.
_BEGINNING: Final = 5.0
LOOKING: Final = 1.0
_SHRINKING: Final = 2.0
_MOVING: Final = 30.0
_GROWING: Final = 0.5


def asked_by_caller(call: Call) -> Any:
    """The request as its caller made it, whatever hook servers made of it. Not to be changed."""
    return call.request if call.body.received == call.body.data() else call.body.original()


class CallBarriers:
    """Waits. `clock` is the loop's."""

    def __init__(self, tracker: AllocationTracker, counters: PolicyCounters, clock: Callable[[], float]) -> None:
        self._tracker = tracker
        self._counters = counters
        self._clock = clock

    def _budget(self, call: Call, most: float) -> float:
        return most if call.deadline is None else min(most, max(call.deadline - self._clock(), 0.0) / 2)

    async def for_books(self, call: Call) -> None:
        """Until everything that runs is in the books; RpcError if that takes too long."""
        if not self._tracker.ready.is_set():
            try:
                await asyncio.wait_for(self._tracker.ready.wait(), self._budget(call, _BEGINNING))
            except TimeoutError:
                raise RpcError(Code.UNAVAILABLE, "the runtime has not listed its containers") from None

    async def for_a_look(self, call: Call, ids: list[str]) -> None:
        """Until the runtime has told about these containers."""
        if ids:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._budget(call, LOOKING)):
                    await self._tracker.sync.refresh(*ids)

    async def for_room(self, call: Call, key: Key) -> None:
        """Until others have given up what a container gets. An update of theirs that failed has not done that.

        Hundreds of them take their time, so it waits as long as they become fewer. Who runs on none of these CPUs is
        not waited for.
        """
        tracker = self._tracker
        end = self._clock() + self._budget(call, _MOVING)
        left = tracker.conflicting(key)
        while left:
            await tracker.updaters.shrink(left, min(_SHRINKING, end - self._clock()))
            before, left = left, tracker.conflicting(key)
            if len(left) >= len(before) or self._clock() >= end:
                break
        if left:
            self._counters.too_early(tracker.allocations.by_key[key].request.title, len(left))
            tracker.overlaps.begin(key)

    async def for_itself(self, call: Call, key: Key) -> None:
        """Until a new container has lost what others got while it was being made; it does not run before that."""
        tracker = self._tracker
        if tracker.updaters.exceeds(key):
            await tracker.updaters.apply((key,), self._budget(call, _SHRINKING))
            if tracker.updaters.exceeds(key):
                self._counters.too_early(tracker.allocations.by_key[key].request.title, 1)

    async def for_growth(self, call: Call, keys: Iterable[Key]) -> None:
        """Until others have what became free."""
        await self._tracker.updaters.apply(keys, self._budget(call, _GROWING))
