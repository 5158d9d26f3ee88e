"""Logs of containers that have grown too large are moved aside, and of those only a few are kept.

`0.log` becomes `0.log.20260102-150405`, and the runtime is told to write to a new file; the one before that is
compressed. Names and rules are the kubelet's, so that its tools read them. A rotation that is cut short at any point is
completed by the next. Of several managers one rotates at a time, by a lock on the folder of the log; a log that was
moved aside never takes the place of another, and its name is later than theirs.
"""

import asyncio
import calendar
import fcntl
import gzip
import logging
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interpose.core.model.pod import ContainerState
from interpose.cri.services import ContainerManager
from interpose.log import RateLimited
from interpose.net.grpc.status import RpcError
from interpose.node.pods.clock import Clocks
from interpose.node.pods.logs.files import PACKED, list_rotated, stamp_of
from interpose.node.pods.status.types import ContainerStatus, PodStatus

_log = logging.getLogger(__name__)

_FORM: Final = "%Y%m%d-%H%M%S"
_UNFINISHED: Final = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """`size`: bytes of a log after which it is moved aside. `files`: how many there are of it, the current one too."""

    size: int = 10 << 20
    files: int = 5


class LogRotation:
    """Rotates logs of running containers."""

    def __init__(self, runtime: ContainerManager, clocks: Clocks, limits: LogLimits) -> None:
        self._runtime = runtime
        self._clocks = clocks
        self._limits = limits
        self._remarks = RateLimited(_log, burst=3)

    async def rotate(self, pods: Iterable[PodStatus]) -> None:
        """Look at the logs of all running containers; failures are logged and tried again next time."""
        for pod in pods:
            for container in pod.containers:
                if container.state is ContainerState.RUNNING and container.log_path:
                    try:
                        await self._one(container)
                    except (OSError, RpcError) as error:
                        why = str(error)
                        self._remarks.log(
                            logging.WARNING, "Log was not rotated", key=container.id, path=container.log_path, err=why
                        )

    async def _one(self, container: ContainerStatus) -> None:
        path = Path(container.log_path)
        size = await asyncio.to_thread(_size, path)
        if size is None:
            # Somebody was ended after he had moved it aside: the runtime still writes to that file.
            await self._runtime.reopen_container_log(container.id)
            return
        if size < self._limits.size:
            return
        lock = await asyncio.to_thread(_locked, path.parent)
        if lock is None:
            return  # another one is at it
        try:
            await self._rotate(container, path)
        finally:
            os.close(lock)

    async def _rotate(self, container: ContainerStatus, path: Path) -> None:
        if (await asyncio.to_thread(_size, path) or 0) < self._limits.size:
            return  # another one was at it
        await asyncio.to_thread(remove_old_logs, path, self._limits.files - 2)
        aside = await asyncio.to_thread(_move_aside, path, self._clocks.seconds)
        try:
            await self._runtime.reopen_container_log(container.id)
        except RpcError:
            await asyncio.to_thread(_undo, aside, path)
            raise
        _log.debug("Log was rotated", extra={"kv": {"path": str(path)}})


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the lock of a folder while it is open; None if somebody else does."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _move_aside(path: Path, now: float) -> Path:
    """Give it a name with the time: a later one than all others have, though the clock may have been set back."""
    moment = max([now, *(_parse_stamp(stamp_of(rotated)) + 1 for rotated in list_rotated(path))])
    aside = path.with_name(f"{path.name}.{time.strftime(_FORM, time.gmtime(moment))}")
    path.rename(aside)
    return aside


def _parse_stamp(stamp: str) -> int:
    try:
        return calendar.timegm(time.strptime(stamp, _FORM))
    except ValueError:
        return 0  # digits, but no time


def _undo(aside: Path, path: Path) -> None:
    """It goes on writing to the old file, which must keep its name then; unless the new one is there after all."""
    if not path.exists():
        aside.rename(path)


def remove_old_logs(path: Path, keep: int) -> None:
    """Keep so many of the logs that were moved aside, all of them compressed. Blocking."""
    for entry in path.parent.glob("*" + _UNFINISHED):
        if entry.name.startswith(f"{path.name}."):
            entry.unlink(missing_ok=True)
    aside = list_rotated(path)
    for old in aside[: max(len(aside) - max(keep, 0), 0)]:
        old.unlink(missing_ok=True)
        old.with_name(old.name + PACKED).unlink(missing_ok=True)
    for rotated in aside[max(len(aside) - max(keep, 0), 0) :]:
        if rotated.suffix != PACKED:
            _compress(rotated)


def _compress(path: Path) -> None:
    packed = path.with_name(path.name + PACKED)
    unfinished = packed.with_name(packed.name + _UNFINISHED)
    with path.open("rb") as source, gzip.open(unfinished, "wb", compresslevel=6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    shutil.copystat(path, unfinished)  # by its time those who read it know it again
    unfinished.rename(packed)
    path.unlink(missing_ok=True)
