"""A folder for one runtime alone: two would undo each other's work. The lock goes with the process, however it ends."""

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from interpose.errors import ConfigError

_PAUSE: Final = 0.05


class FolderLock:
    """Held from its making to `release`."""

    def __init__(
        self, folder: Path, what: str, *, patience: float = 2.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """`what` it is, for people. ConfigError names the process that has it.

        Of a process that was killed while it started another one the lock can outlive it for a moment.
        """
        path = folder / "lock"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        left = patience
        while not self._taken():
            if left <= 0:
                owner = os.read(self._fd, 32).decode(errors="replace").strip() or "unknown"
                os.close(self._fd)
                raise ConfigError(f"{what} {str(folder)!r}: in use by another runtime (process {owner})")
            sleep(_PAUSE)
            left -= _PAUSE
        with suppress(OSError):  # only for people; there may be no room for it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let others have it; may be repeated."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)
