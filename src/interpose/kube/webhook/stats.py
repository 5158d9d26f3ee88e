"""What is counted about requests. Plain numbers; `metrics` reads them when somebody scrapes."""

from bisect import bisect_left
from collections import Counter

# Seconds. A pod takes a fraction of a millisecond; API servers give up after some seconds.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

ERROR = "error"  # a request that could not be answered by a review


class Stats:
    """Counters of one webhook."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, bool]] = Counter()  # operation, result, dry run
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.handshake_failures = 0

    def count(self, operation: str, result: str, seconds: float, *, dry_run: bool = False) -> None:
        """One request was answered."""
        self.requests[operation, result, dry_run] += 1
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds
