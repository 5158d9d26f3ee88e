"""When to dial a hook server: the socket file tells.

A hook server that is away costs a stat every 50 ms and nothing else. A socket file that was not there before is dialled
at once, one that keeps failing later and later; a server cannot come back without making the file anew.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

LOOK_EVERY: Final = 0.05
_LONGEST_PAUSE: Final = 1.0
# A connection that ended sooner than this was of no use: dialling again at once would go round in circles.
_OF_USE: Final = 1.0

Identity: TypeAlias = tuple[int, int, int]


class Lookout:
    """The socket file at one path, and the dials it has seen. `dialled` is the file that was dialled last."""

    def __init__(self, path: str, now: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.dialled: Identity | None = None
        self._file = Path(path)
        self._now = now
        self._dials = 0  # of this very file, without a connection that was of use
        self._last = now()

    def look(self) -> Identity | None:
        """Which file is there now."""
        try:
            return self._stat()
        except OSError:
            return None

    @property
    def replaced(self) -> bool:
        """Whether another file has taken the place of the one that was dialled."""
        found = self.look()
        return found is not None and found != self.dialled

    def find(self) -> str:
        """Called before each dial. Without a file there is none, and the error is that of the stat."""
        before, self.dialled = self.dialled, None
        self.dialled = self._stat()
        self._dials = self._dials + 1 if self.dialled == before else 1
        self._last = self._now()
        return self.path

    def _stat(self) -> Identity:
        """Inode numbers are used again at once, so the time of the file's making is part of it."""
        found = self._file.stat()
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def connected(self) -> None:
        """The dial went well."""
        self._last = self._now()

    def lost(self) -> None:
        """The connection ended."""
        if self._now() - self._last >= _OF_USE:
            self._dials = 0

    async def pace(self, failed: int) -> None:
        """Wait until a dial may go better than the one before: another file, or enough time."""
        if self._dials == 0 and not failed:
            return
        pause = min(LOOK_EVERY * 2.0 ** min(max(self._dials - 1, 0), 16), _LONGEST_PAUSE)
        until = self._last + pause
        while (found := self.look()) == self.dialled and (found is None or self._now() < until):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(LOOK_EVERY)
