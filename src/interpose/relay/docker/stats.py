"""Counters of HTTP calls: plain numbers per endpoint, turned into metrics at a scrape.

Endpoints come from a fixed table, so a client cannot grow them. Pure.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from interpose.relay.stats import BOUNDS

CLASSES: Final = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")
"""Of answers, by the first digit of their status; no answer at all comes first."""


class EndpointStats:
    """What is known about the calls of one endpoint."""

    __slots__ = (
        "bytes_received",
        "bytes_sent",
        "duration_buckets",
        "duration_sum",
        "endpoint",
        "started",
        "statuses",
    )

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.started = 0
        self.statuses = [0] * len(CLASSES)
        self.duration_buckets = [0] * (len(BOUNDS) + 1)
        self.duration_sum = 0.0
        self.bytes_received = 0
        self.bytes_sent = 0

    @property
    def in_flight(self) -> int:
        """Calls begun and not ended."""
        return self.started - sum(self.statuses)

    @property
    def failed(self) -> int:
        """Calls without an answer, or with one that says what went wrong."""
        return self.statuses[0] + self.statuses[4] + self.statuses[5]

    def finish(self, status: int, duration: float) -> None:
        """A call ended with this status, 0 if there was none, after this many seconds."""
        kind = status // 100
        self.statuses[kind if kind < len(CLASSES) else 0] += 1
        self.duration_buckets[bisect_left(BOUNDS, duration)] += 1
        self.duration_sum += duration

    def row(self) -> Mapping[str, object]:
        """For a list of what was called."""
        ended = sum(self.statuses)
        return {
            "service": "docker",
            "method": self.endpoint,
            "calls": self.started,
            "in_flight": self.in_flight,
            "failed": self.failed,
            "mean_ms": round(self.duration_sum / ended * 1000, 3) if ended else None,
            "received_bytes": self.bytes_received,
            "sent_bytes": self.bytes_sent,
        }
