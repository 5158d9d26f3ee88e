"""How long to wait before the next try: twice as long after every failure in a row, up to a bound. Pure.

Who waits, and what counts as a failure, is the caller's business.
"""

from collections.abc import Callable
from typing import Final

# A server may ask for a pause, but not for ever: its clock may be wrong.
_LONGEST_RETRY_AFTER: Final = 300.0
# Doublings after which any bound is reached; further ones would overflow a float one day.
_MOST_DOUBLINGS: Final = 64


class Backoff:
    """Delays in seconds from `first` to `most`, and the number of `failures` in a row.

    `random` gives numbers from 0 up to 1 and shortens each delay by up to the part `jitter` of it, so that nodes that
    failed together do not come back together; without it the delays are exact.
    """

    __slots__ = ("_first", "_jitter", "_most", "_random", "failures")

    def __init__(
        self, first: float, most: float, *, random: Callable[[], float] | None = None, jitter: float = 0.5
    ) -> None:
        self._first = first
        self._most = most
        self._random = random
        self._jitter = jitter
        self.failures = 0

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row, 0 after none. Changes nothing."""
        if failures <= 0:
            return 0.0
        longest = min(self._first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self._most)
        return longest if self._random is None else longest * (1 - self._jitter + self._jitter * self._random())

    def next(self, retry_after: float | None = None) -> float:
        """Count one more failure; seconds to wait, at least as long as the server asked for and a bit more."""
        self.failures += 1
        delay = self.delay(self.failures)
        if retry_after is None or retry_after <= 0:
            return delay
        extra = 0.0 if self._random is None else self._random() / 10
        return max(delay, min(retry_after, _LONGEST_RETRY_AFTER) * (1 + extra))

    def reset(self) -> None:
        """After a success: the next failure is the first one."""
        self.failures = 0
