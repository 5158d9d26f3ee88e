"""Clocks that stand still until a test moves them."""

import threading

from interpose.testing.eventually import WAIT_LIMIT


class PluginClock:
    """Called, it gives seconds, as time.monotonic does: no plugin is late because the machine is busy."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    def hang(self, release: threading.Event, seconds: float = 1.0) -> None:
        """What a plugin does that takes so long by this clock, and does not return before it is let."""
        self.time += seconds
        release.wait(WAIT_LIMIT)


class ManualClock:
    """Called, it gives nanoseconds since the epoch, as time.time_ns does."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = int(start * 1_000_000_000)

    def __call__(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on; time never goes back."""
        if seconds < 0:
            raise ValueError(f"the clock cannot go back: {seconds}")
        self._now += int(seconds * 1_000_000_000)
