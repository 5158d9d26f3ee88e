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
    """A lock on a file, held until `release`. A process with a copy of the descriptor holds it as well."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor` holds the lock already: another process passed it to us."""
        self._fd = descriptor

    @classmethod
    def take(
        cls,
        path: Path,
        refusal: Callable[[str], str],
        *,
        timeout: float = 2.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> "FileLock":
        """Lock a file. BlockingIOError with what `refusal` says of its owner; another OSError if it cannot be made.

        The lock of a process that was killed while it started another one can outlive it for a moment.
        """
        lock = cls(os.open(path, _OPEN, 0o600))
        left = timeout
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
        lock.write_owner()
        return lock

    @property
    def descriptor(self) -> int:
        """The descriptor that another process needs to hold the lock too; -1 after the release."""
        return self._fd

    def write_owner(self) -> None:
        """Write our PID into the file."""
        with suppress(OSError):  # only for people; there may be no room for it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock, unless another process has a copy; may be repeated."""
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
