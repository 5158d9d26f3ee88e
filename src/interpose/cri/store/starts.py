"""Starts of containers that are in flight, and the rule that no update overtakes one.

A runtime makes the cgroup of a container from what it knew when the start began. containerd answers an
UpdateContainerResources that arrives before the start has ended, and changes only what it remembers: the process runs
with the old values. So an update waits for the start of its container (`wait_for_start`), and a start waits for an
update that is on its way. Where that takes too long they overlap all the same; then `on_lost` is called once both have
ended, and the owner of a value there sends it again. A start whose reply is lost is in flight until the runtime was
asked.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StartTracker:
    """Starts and updates in flight, by the full id of the container."""

    def __init__(self) -> None:
        self._starting: Counter[str] = Counter()
        self._doubtful: set[str] = set()  # the reply was lost, or the call did not pass here
        self._updating: Counter[str] = Counter()
        self._met: set[str] = set()  # an update and a start were in flight at the same time
        self._waiting: dict[str, list[asyncio.Event]] = {}
        # Called with a container in which updates may have had no effect, although the runtime took them.
        self.on_lost: Callable[[str], None] = _ignore
        # Called for a start with unknown outcome: finds out what became of it, and calls `settle`.
        self.on_doubt: Callable[[str], None] = self._settle_unknown

    def in_flight(self, container_id: str) -> bool:
        """Whether a start of this container may be in flight."""
        return container_id in self._starting or container_id in self._doubtful

    def is_updating(self, container_id: str) -> bool:
        """Whether an update of this container is at the runtime."""
        return container_id in self._updating

    async def wait_for_start(self, container_id: str) -> None:
        """Wait until no start of this container is in flight."""
        while self.in_flight(container_id):
            await self._wait_for_change(container_id)

    async def wait_for_updates(self, container_id: str) -> None:
        """Wait until no update of this container is in flight."""
        while self.is_updating(container_id):
            await self._wait_for_change(container_id)

    @contextmanager
    def starting(self, container_id: str) -> Iterator[None]:
        """A start is in flight during the block, and updates wait."""
        self._starting[container_id] += 1
        try:
            yield
        finally:
            self._decrement(self._starting, container_id)

    def on_sent(self, container_id: str) -> None:
        """Called when a start is sent to the runtime."""
        if container_id in self._updating:
            self._met.add(container_id)

    @contextmanager
    def updating(self, container_id: str) -> Iterator[None]:
        """An update is at the runtime during the block."""
        if self.in_flight(container_id):
            self._met.add(container_id)
        self._updating[container_id] += 1
        try:
            yield
        finally:
            self._decrement(self._updating, container_id)

    # -- starts with unknown outcome

    def doubt(self, container_id: str) -> None:
        """Note a start that may be in flight and whose reply will not be seen."""
        if container_id not in self._doubtful:
            self._doubtful.add(container_id)
            self.on_doubt(container_id)

    def settle(self, container_id: str, *, runs: bool) -> None:
        """End the doubt. A container that runs was started with values of an unknown time."""
        if container_id in self._doubtful:
            self._doubtful.discard(container_id)
            if runs:
                self._met.add(container_id)
            self._on_change(container_id)

    def in_doubt(self, container_id: str) -> bool:
        """Whether it is unknown if a start of this container is in flight."""
        return container_id in self._doubtful

    def on_running(self, container_id: str) -> None:
        """Called when the runtime shows a container as running whose start did not pass here."""
        if not self.in_flight(container_id):
            self.on_lost(container_id)

    # -- inside

    def _settle_unknown(self, container_id: str) -> None:
        """The default of `on_doubt`: there is no way to find out."""
        self.settle(container_id, runs=False)

    def _decrement(self, counts: Counter[str], container_id: str) -> None:
        counts[container_id] -= 1
        if not counts[container_id]:
            del counts[container_id]
        self._on_change(container_id)

    def _on_change(self, container_id: str) -> None:
        for event in self._waiting.pop(container_id, ()):
            event.set()
        if container_id in self._met and not self.in_flight(container_id) and container_id not in self._updating:
            self._met.discard(container_id)
            self.on_lost(container_id)

    async def _wait_for_change(self, container_id: str) -> None:
        event = asyncio.Event()
        waiting = self._waiting.setdefault(container_id, [])
        waiting.append(event)
        try:
            await event.wait()
        finally:
            if event in waiting:
                waiting.remove(event)
            if not waiting and self._waiting.get(container_id) is waiting:
                del self._waiting[container_id]


def _ignore(_container_id: str) -> None:
    """The default of `on_lost`: no value has an owner."""
