"""Watches the files on which the configuration depends: calls `on_change` when one of them has another content.

Files and directories, which may come later, be replaced, or be links. What counts is what is in them and who may write
there, not when they were written. A new version counts when it has stood still for a moment: the first half of a
document may be a document, with another meaning.

Invariant: whatever changes after `on_change` was called leads to another call; calls never overlap. Changes deep inside
a directory are noticed within seconds, all others within a fraction of one.
"""

import asyncio
import hashlib
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from interpose.config.documents.yaml import MAX_FILE_BYTES
from interpose.host.dirwatch import DirWatch
from interpose.log import RateLimited
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

# Seconds without a change after which a version counts: time enough for a file that is written in several steps.
SETTLE: Final = 0.2
# Seconds after which files that never stand still are complained about.
_RESTLESS: Final = 10.0
# More than any directory of pools has.
_MAX_ENTRIES: Final = 20_000
# CMK's lists of who runs where. They change all the time and say nothing about pools.
_VOLATILE: Final = frozenset(("tasks",))


class ConfigFiles:
    """Follows from the first `watch` until `close`, on the running loop. `on_change` must not raise."""

    def __init__(self, on_change: Callable[[], Awaitable[None]], *, settle: float = SETTLE) -> None:
        self._on_change = on_change
        self._settle = settle
        self._paths: tuple[str, ...] = ()
        self._folders: dict[str, DirWatch] = {}
        self._last: Mapping[str, bytes] = {}  # what `on_change` was called for
        self._again = False
        self._following = False
        self._closed = False
        self._tasks = TaskBag()
        self._limited = RateLimited(_log)

    def watch(self, paths: tuple[str, ...]) -> None:
        """Watch these files and directories from now on, and no others."""
        if self._closed:
            return
        self._paths = tuple(str(Path(path).absolute()) for path in paths)
        folders = {str(Path(path).parent) for path in self._paths}
        for folder in self._folders.keys() - folders:
            self._folders.pop(folder).close()
        for folder in folders - self._folders.keys():
            self._folders[folder] = DirWatch(folder, self._check_soon)  # it calls when it is set up
        self._check_soon()

    async def close(self) -> None:
        """`on_change` is not called after this."""
        self._closed = True
        for folder in self._folders.values():
            folder.close()
        self._folders.clear()
        await self._tasks.cancel()

    def _check_soon(self) -> None:
        """Begin a check; a change during a check leads to one more."""
        self._again = True
        if not self._following and not self._closed:
            self._following = True
            self._tasks.spawn(self._follow(), name="configuration files")

    async def _follow(self) -> None:
        try:
            while self._again:
                self._again = False
                seen = await asyncio.to_thread(fingerprints, self._paths)
                if any(self._last.get(path) != now for path, now in seen.items()):
                    self._last = await self._wait_until_stable(seen)
                    await self._on_change()
        finally:
            self._following = False

    async def _wait_until_stable(self, seen: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The fingerprints once they do not change any more."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            await asyncio.sleep(self._settle)
            now = await asyncio.to_thread(fingerprints, tuple(seen))
            if now == seen:
                return seen
            seen = now
            if loop.time() - began > _RESTLESS:
                self._limited.log(logging.WARNING, "Configuration changes all the time", files=", ".join(seen))


def fingerprints(paths: tuple[str, ...]) -> Mapping[str, bytes]:
    """A hash of each file or directory, with its owner and mode; never fails."""
    return {path: _fingerprint(path) for path in paths}


def _fingerprint(path: str) -> bytes:
    made = hashlib.sha256()
    for part in _parts(path):
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.digest()


def _parts(path: str) -> Iterator[bytes]:
    yield from _file_parts(path)
    if not os.path.isdir(path):  # noqa: PTH112 - links are followed
        return
    entries = 0
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted([*folders, *files]):
            entries += 1
            if entries > _MAX_ENTRIES:
                return
            below = os.path.join(folder, name)  # noqa: PTH118 - names may be any bytes
            yield os.fsencode(below)
            if name not in _VOLATILE:
                yield from _file_parts(below)


def _file_parts(path: str) -> Iterator[bytes]:
    """Owner and mode of a file, and its content if it is a regular one: to open anything else can have effects."""
    try:
        found = os.stat(path)  # noqa: PTH116 - of whatever the name leads to
        yield f"{found.st_mode:o} {found.st_uid} {found.st_gid}".encode()
        if stat.S_ISREG(found.st_mode):
            with open(path, "rb") as file:  # noqa: PTH123
                yield file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        yield f"error {error.errno}".encode()
