"""Counters of the data path: plain numbers in plain lists, turned into metrics at a scrape.

One record per known method and API version; unknown paths share one, so that a client cannot grow them.
"""

from bisect import bisect_left
from typing import Final

# Upper bounds in seconds. A pass-through call takes about 200 us, a pod's sandbox a second, an image pull minutes.
BOUNDS: Final[tuple[float, ...]] = (
    0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0,
)  # fmt: skip
CODES: Final = 17


class MethodStats:
    """What is known about the calls of one method."""

    __slots__ = (
        "backend_buckets",
        "backend_sum",
        "bytes_received",
        "bytes_sent",
        "codes",
        "endless",
        "method",
        "own_buckets",
        "own_sum",
        "resets",
        "service",
        "started",
    )

    def __init__(self, service: str, method: str, *, endless: bool = False) -> None:
        self.service = service
        self.method = method
        self.endless = endless  # its streams end only with the client or the process
        self.started = 0
        self.codes = [0] * CODES
        self.resets = 0
        self.bytes_received = 0
        self.bytes_sent = 0
        self.backend_buckets = [0] * (len(BOUNDS) + 1)
        self.backend_sum = 0.0
        self.own_buckets = [0] * (len(BOUNDS) + 1)
        self.own_sum = 0.0

    @property
    def in_flight(self) -> int:
        """Calls begun and not ended."""
        return self.started - sum(self.codes)

    def finish(self, code: int, backend: float) -> None:
        """A call ended that spent this many seconds at the backend and next to none here."""
        self.codes[code] += 1
        self.backend_buckets[bisect_left(BOUNDS, backend)] += 1
        self.backend_sum += backend

    def spent(self, own: float) -> None:
        """Seconds a call spent here: waiting for the backend, or with interceptors. Not called for other calls."""
        self.own_buckets[bisect_left(BOUNDS, own)] += 1
        self.own_sum += own
