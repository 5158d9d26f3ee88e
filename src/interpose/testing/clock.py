"""A clock that stands still until a test moves it."""


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
