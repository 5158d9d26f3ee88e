"""A file that one process at a time holds: two would undo each other's work. The lock goes with the process, however it
ends; the file stays, with the number of the last owner in it for people.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAUSE: Final = 0.05
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class FileLock:
    """Held until `release`. Whoever has a copy of the descriptor holds it as well."""

    def __init__(self, descriptor: int) -> None:
        """By a descriptor with which the file is locked: another process gave it to us."""
        self._fd = descriptor

    @classmethod
    def take(
        cls,
        path: Path,
        refusal: Callable[[str], str],
        *,
        patience: float = 2.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> "FileLock":
        """BlockingIOError with the refusal, which is told who has it; another OSError if the file cannot be made.

        Of a process that was killed while it started another one the lock can outlive it for a moment.
        """
        lock = cls(os.open(path, _OPEN, 0o600))
        left = patience
        try:
            while not try_lock(lock.descriptor):
                if left <= 0:
                    owner = os.pread(lock.descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
                    raise BlockingIOError(errno.EAGAIN, refusal(owner))
                sleep(_PAUSE)
                left -= _PAUSE
        except BaseException:
            lock.release()
            raise
        lock.sign()
        return lock

    @property
    def descriptor(self) -> int:
        """What another process needs to hold it, too; -1 after the release."""
        return self._fd

    def sign(self) -> None:
        """Write down that it is ours."""
        with suppress(OSError):  # only for people; there may be no room for it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have it, unless somebody else has a copy; may be repeated."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)


def open_locked(path: Path) -> int:
    """Open a file, made if needed, and wait for its lock; the descriptor holds it until it is closed."""
    descriptor = os.open(path, _OPEN, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def try_lock(descriptor: int) -> bool:
    """Lock an open file without waiting; False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
