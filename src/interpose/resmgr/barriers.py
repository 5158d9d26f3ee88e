"""What a call waits for on its way to the runtime and back, and how long: at most half of its remaining deadline.

A call whose wait ends without success goes on all the same. A container that then has CPUs which are not its own, or
that gets CPUs which others may still have, is counted and logged.
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

# Seconds: for the restore at the start, for a refresh of others, for one more container to lose CPUs, for all of them,
# for others to grow.
_RESTORE_TIMEOUT: Final = 5.0
REFRESH_TIMEOUT: Final = 1.0
_SHRINKING: Final = 2.0
_MOVING: Final = 30.0
_GROWING: Final = 0.5


def caller_request(call: Call) -> Any:
    """The request as its caller made it, without changes of hook servers. Not to be changed."""
    return call.request if call.body.received == call.body.data() else call.body.original()


class CallBarriers:
    """Bounded waits of calls. `clock` is the loop's."""

    def __init__(self, tracker: AllocationTracker, counters: PolicyCounters, clock: Callable[[], float]) -> None:
        self._tracker = tracker
        self._counters = counters
        self._clock = clock

    def _budget(self, call: Call, most: float) -> float:
        return most if call.deadline is None else min(most, max(call.deadline - self._clock(), 0.0) / 2)

    async def wait_until_ready(self, call: Call) -> None:
        """Wait until all running containers are tracked; RpcError if that takes too long."""
        if not self._tracker.ready.is_set():
            try:
                await asyncio.wait_for(self._tracker.ready.wait(), self._budget(call, _RESTORE_TIMEOUT))
            except TimeoutError:
                raise RpcError(Code.UNAVAILABLE, "the runtime has not listed its containers") from None

    async def refresh(self, call: Call, ids: list[str]) -> None:
        """Refresh the records of these containers from the runtime, as far as time allows."""
        if ids:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._budget(call, REFRESH_TIMEOUT)):
                    await self._tracker.sync.refresh(*ids)

    async def wait_for_room(self, call: Call, key: Key) -> None:
        """Wait until others have given up what a container gets. An update of theirs that failed has not done that.

        Hundreds of containers take their time, so it waits as long as they become fewer. A container on none of these
        CPUs is not waited for.
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
            self._counters.count_late(tracker.allocations.by_key[key].request.title, len(left))
            tracker.overlaps.begin(key)

    async def wait_for_excess(self, call: Call, key: Key) -> None:
        """Wait until a new container has lost what others got while it was created; it does not run before that."""
        tracker = self._tracker
        if tracker.updaters.exceeds(key):
            await tracker.updaters.apply((key,), self._budget(call, _SHRINKING))
            if tracker.updaters.exceeds(key):
                self._counters.count_late(tracker.allocations.by_key[key].request.title, 1)

    async def wait_for_quota(self, call: Call, key: Key, *, watch: bool = False) -> None:
        """Wait until the pod of a container has the CFS quota that it should have now, or none.

        `watch`: the caller resizes the container, and may write the quota of the pod itself before or after that.
        """
        quotas, directory = self._tracker.pod_quotas, self._tracker.quota_directory(key)
        if watch:
            quotas.check_soon(directory, watch=True)
        await quotas.settle(directory, self._budget(call, _SHRINKING))

    async def wait_for_growth(self, call: Call, keys: Iterable[Key]) -> None:
        """Wait until others have what became free."""
        await self._tracker.updaters.apply(keys, self._budget(call, _GROWING))
