"""How long to wait before the next try: doubling up to a bound, and never the same for two nodes. Pure."""

from collections.abc import Callable
from typing import Final

# After one failure most servers answer again at once; 30 s is what a cluster of thousands of nodes can bear for long.
FIRST: Final = 0.2
MOST: Final = 30.0
# A server may ask for patience, but not for ever: its clock or its mind may be wrong.
_MOST_ASKED: Final = 300.0


class Backoff:
    """Counts failures in a row. `random` gives numbers from 0 up to 1; a wait is between half and all of its step."""

    def __init__(self, random: Callable[[], float], *, first: float = FIRST, most: float = MOST) -> None:
        self._random = random
        self._first = first
        self._most = most
        self._step = first

    def next(self, asked: float | None = None) -> float:
        """Seconds to wait after one more failure; at least as long as the server `asked` for, and a bit more."""
        step = self._step
        self._step = min(step * 2, self._most)
        waited = step * (1 + self._random()) / 2
        if asked is None or asked <= 0:
            return waited
        return max(waited, min(asked, _MOST_ASKED) * (1 + self._random() / 10))

    def reset(self) -> None:
        """It works again: the next failure is the first one."""
        self._step = self._first
