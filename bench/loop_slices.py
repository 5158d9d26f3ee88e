"""A relay on asyncio's own event loop, which writes down how long its turns take: `loop_slices.py FILE relay ...`.

A turn is everything between two waits of the loop: no other call is looked at meanwhile. Counted is the CPU time of the
thread, so that a busy machine does not make turns longer. Each turn above `LEAST` is a line: its end, and its length in
microseconds.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import time
from typing import TYPE_CHECKING

import uvloop

from interpose.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 300e-6


class TimedSelector(selectors.EpollSelector):
    """The selector of a loop, told apart from the rest of each turn."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file
        self._since = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        spent = time.thread_time() - self._since
        if spent > LEAST:
            os.write(self._file, b"%.6f %d\n" % (time.monotonic(), spent * 1e6))
        ready = super().select(timeout)
        self._since = time.thread_time()
        return ready


def run(argv: Sequence[str]) -> None:
    file = os.open(argv[0], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    # The one door of all daemons to their loop.
    vars(uvloop)["new_event_loop"] = lambda: asyncio.SelectorEventLoop(TimedSelector(file))
    sys.argv = ["interpose", *argv[1:]]
    main()


if __name__ == "__main__":
    run(sys.argv[1:])
