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
_PERIOD: Final = 0.1  # seconds from one check to the next


class CpuOverlaps:
    """The overlaps of all containers.

    `lasts` tells whether others are still on the CPUs of a container. `clock` is the loop's.
    """

    def __init__(self, lasts: Callable[[Key], bool], clock: Callable[[], float]) -> None:
        self._lasts = lasts
        self._clock = clock
        self._open: dict[Key, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0

    @property
    def seconds(self) -> Buckets:
        """The lengths of overlaps that have ended."""
        return Buckets(_BOUNDS, tuple(self._counts), self._sum)

    def begin(self, key: Key) -> None:
        """Begin an overlap: others may still be on the CPUs of this container."""
        self._open.setdefault(key, self._clock())
        if self._timer is None:
            self._check()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        for key in [open_key for open_key in self._open if not self._lasts(open_key)]:
            length = self._clock() - self._open.pop(key)
            self._counts[bisect_left(_BOUNDS, length)] += 1
            self._sum += length
        self._timer = asyncio.get_running_loop().call_later(_PERIOD, self._check) if self._open else None
