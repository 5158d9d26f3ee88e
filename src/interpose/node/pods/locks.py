"""Locks: one process at a time acts on a pod, one manager at a time watches a root and runtime.

A pod's lock is a byte of ROOT/pods.lock, chosen by its uid: nothing has to be made or removed for a pod. All locks go
with the process that has them, however it ends.
"""

import asyncio
import fcntl
import hashlib
import os
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from interpose.host.file_lock import FileLock

_PAUSE: Final = 0.05
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class BusyPodError(Exception):
    """Another process is at work on the pod."""


class PodLocks:
    """The locks of all pods below one root."""

    def __init__(self, path: str) -> None:
        self._path = path

    def take(self, uid: str) -> int | None:
        """A handle for `give_back`; None if somebody else has it. OSError if there can be no locks."""
        Path(self._path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        fd = os.open(self._path, _OPEN, 0o600)
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _byte(fcntl.F_WRLCK, uid))
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return fd

    def give_back(self, handle: int) -> None:
        """Release the lock of a handle that `take` returned."""
        os.close(handle)

    @asynccontextmanager
    async def held(
        self, uid: str, *, patience: float = 0.0, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> AsyncGenerator[None]:
        """While the block lasts; BusyPodError if others have it for longer than our patience."""
        left = patience
        while (handle := self.take(uid)) is None:
            if left <= 0:
                raise BusyPodError("another process is at work on it")
            await sleep(_PAUSE)
            left -= _PAUSE
        try:
            yield
        finally:
            self.give_back(handle)


def _byte(kind: int, uid: str) -> bytes:
    place = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:7], "big")
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)


def watch_lock(root: str, runtime: str) -> FileLock:
    """One manager that watches, for each root and runtime. BlockingIOError names the process that has it."""
    name = hashlib.sha256(runtime.encode(errors="surrogateescape")).hexdigest()[:16]
    Path(root).mkdir(mode=0o755, parents=True, exist_ok=True)

    def refusal(owner: str) -> str:
        return (
            f"root {root!r}: pods on {runtime} are watched by another `interpose pod run --watch` "
            f"(process {owner}); name all manifests in one, or use another --root"
        )

    return FileLock.take(Path(root, f"watch-{name}.lock"), refusal, timeout=0)
