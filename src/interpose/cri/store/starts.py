"""Starts of containers that are in flight, and the rule that no update overtakes one.

A runtime makes the cgroup of a container from what it knew when the start began. containerd answers an
UpdateContainerResources that arrives before the start has ended, and changes only what it remembers: the process runs
with the old values. So whoever writes waits for the start of its container (`over`), and a start waits for an update
that is on its way. Where that takes too long they meet all the same; then `on_lost` is told once both have ended, and
whoever owns a value there sends it again. A start whose reply is lost is in flight until somebody knows better.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StartTracker:
    """All of them, by the full id of the container."""

    def __init__(self) -> None:
        self._starting: Counter[str] = Counter()
        self._doubtful: set[str] = set()  # the reply was lost, or nobody here saw the call
        self._updating: Counter[str] = Counter()
        self._met: set[str] = set()  # an update and a start were in flight at the same time
        self._waiting: dict[str, list[asyncio.Event]] = {}
        # Told of a container in which updates may have had no effect, although the runtime took them.
        self.on_lost: Callable[[str], None] = _nothing
        # Told of a start in doubt: finds out what became of it, and calls `settle`.
        self.on_doubt: Callable[[str], None] = self._unknown

    def in_flight(self, container_id: str) -> bool:
        """Whether a start of this container may be in flight."""
        return container_id in self._starting or container_id in self._doubtful

    def is_updated(self, container_id: str) -> bool:
        """Whether an update of this container is at the runtime."""
        return container_id in self._updating

    async def over(self, container_id: str) -> None:
        """Wait until no start of this container is in flight."""
        while self.in_flight(container_id):
            await self._change(container_id)

    async def updates_over(self, container_id: str) -> None:
        """Wait until no update of this container is in flight."""
        while self.is_updated(container_id):
            await self._change(container_id)

    @contextmanager
    def starting(self, container_id: str) -> Iterator[None]:
        """A start has come: updates wait from now on. It is in flight until the end of the block."""
        self._starting[container_id] += 1
        try:
            yield
        finally:
            self._less(self._starting, container_id)

    def sent(self, container_id: str) -> None:
        """A start goes to the runtime now."""
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
            self._less(self._updating, container_id)

    # -- starts nobody knows the end of

    def doubt(self, container_id: str) -> None:
        """A start may be in flight, and nobody here will see its reply."""
        if container_id not in self._doubtful:
            self._doubtful.add(container_id)
            self.on_doubt(container_id)

    def settle(self, container_id: str, *, runs: bool) -> None:
        """There is no doubt any more. One that runs was started with values of a time that nobody knows."""
        if container_id in self._doubtful:
            self._doubtful.discard(container_id)
            if runs:
                self._met.add(container_id)
            self._changed(container_id)

    def in_doubt(self, container_id: str) -> bool:
        """Whether nobody knows if a start of this container is in flight."""
        return container_id in self._doubtful

    def seen_running(self, container_id: str) -> None:
        """A look shows that a container runs, and no start of it has ended here."""
        if not self.in_flight(container_id):
            self.on_lost(container_id)

    # -- inside

    def _unknown(self, container_id: str) -> None:
        """Nobody can find out."""
        self.settle(container_id, runs=False)

    def _less(self, counts: Counter[str], container_id: str) -> None:
        counts[container_id] -= 1
        if not counts[container_id]:
            del counts[container_id]
        self._changed(container_id)

    def _changed(self, container_id: str) -> None:
        for event in self._waiting.pop(container_id, ()):
            event.set()
        if container_id in self._met and not self.in_flight(container_id) and container_id not in self._updating:
            self._met.discard(container_id)
            self.on_lost(container_id)

    async def _change(self, container_id: str) -> None:
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


def _nothing(_container_id: str) -> None:
    """Nobody owns a value."""
