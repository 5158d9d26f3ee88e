"""The highest memory that a process had while something happened to it."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support.lab.processes import children

if TYPE_CHECKING:
    from tests.support.lab.processes import Child

# Memory is looked at this often; the kernel keeps the highest, so only what a process does in its last moments is lost.
LOOK_EVERY = 0.01


class PeakMemory:
    """The highest resident memory of a process, or of one that it made, within a block."""

    def __init__(self, child: Child | None) -> None:
        self.bytes = 0
        self._child = child
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak", daemon=True)

    def __enter__(self) -> Self:
        if self._child is not None:
            # "5" starts the kernel's own record of the highest value anew.
            Path(f"/proc/{self._child.pid}/clear_refs").write_text("5")
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._child is not None:
            self._thread.join()

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._over.wait(LOOK_EVERY)
            self._look()

    def _look(self) -> None:
        if self._child is None:
            return
        for pid in (self._child.pid, *children(self._child.pid)):
            with contextlib.suppress(OSError):
                self.bytes = max(self.bytes, highest(Path(f"/proc/{pid}/status").read_text()))


def highest(status: str) -> int:
    """The highest resident memory so far, from a process's status; 0 for one that has ended."""
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
