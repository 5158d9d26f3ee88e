"""Full passes of the garbage collector, at moments when they are short.

Such a pass walks over everything that was made since the start and is alive, and the loop stands still meanwhile: 20 ms
with thousands of calls in progress, which is exactly when the interpreter would begin one. What a call leaves behind is
freed without it; only old objects that refer to each other wait for it, and to them a minute more does not matter.
"""

import gc
from collections.abc import Callable
from typing import Final

# Seconds between two passes, with few calls in progress and whatever there is.
_EVERY: Final = 60
_AT_LATEST: Final = 600
_FEW_CALLS: Final = 100
_PASSES_UNTIL_DUE: Final = gc.get_threshold()[2]
_NEVER: Final = 1_000_000_000


def due() -> bool:
    """Whether the interpreter by itself would begin one, by the number of smaller passes."""
    return gc.get_count()[2] > _PASSES_UNTIL_DUE


class FullCollection:
    """Begins the passes that the interpreter begins no more."""

    def __init__(
        self,
        calls: Callable[[], int],
        *,
        due: Callable[[], bool] = due,
        collect: Callable[[], object] = gc.collect,
    ) -> None:
        """`calls` says how many are in progress."""
        self._calls = calls
        self._due = due
        self._collect = collect
        self._seconds = 0

    def start(self) -> None:
        """Turn off the interpreter's own full passes; objects that exist by now are not walked over again."""
        gc.collect()
        gc.freeze()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, _NEVER)

    def tick(self) -> None:
        """Called once a second: begins a pass if one is due."""
        self._seconds += 1
        if self._seconds >= _EVERY and self._due() and (self._calls() <= _FEW_CALLS or self._seconds >= _AT_LATEST):
            self._seconds = 0
            self._collect()
