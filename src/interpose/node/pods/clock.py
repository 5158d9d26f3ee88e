"""The clocks of the pod manager, replaceable in tests."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """`now`: nanoseconds of the day, comparable with a runtime's. `elapsed`: seconds that never go back."""

    now: Callable[[], int] = time.time_ns
    elapsed: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def seconds(self) -> float:
        """The time of day in seconds."""
        return self.now() / 1e9
