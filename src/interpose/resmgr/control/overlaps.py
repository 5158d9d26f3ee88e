"""How long containers shared CPUs of their own with others that had not given them up yet.

An overlap begins when a container is created although others may still run on its CPUs, and ends when none of them
does, or the container is gone.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from interpose.core.policy.request import Key
from interpose.metrics import Buckets

_BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds
_LOOK: Final = 0.1  # seconds from one look to the next


class CpuOverlaps:
    """All of them. `lasts` tells whether others are still on the CPUs of a container. `clock` is the loop's."""

    def __init__(self, lasts: Callable[[Key], bool], clock: Callable[[], float]) -> None:
        self._lasts = lasts
        self._clock = clock
        self._open: dict[Key, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0

    @property
    def seconds(self) -> Buckets:
        """Their lengths; one that lasts is in it when it has ended."""
        return Buckets(_BOUNDS, tuple(self._counts), self._sum)

    def begin(self, key: Key) -> None:
        """Others may still be on the CPUs of this container."""
        self._open.setdefault(key, self._clock())
        if self._timer is None:
            self._look()

    def close(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        for key in [one for one in self._open if not self._lasts(one)]:
            length = self._clock() - self._open.pop(key)
            self._counts[bisect_left(_BOUNDS, length)] += 1
            self._sum += length
        self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look) if self._open else None
