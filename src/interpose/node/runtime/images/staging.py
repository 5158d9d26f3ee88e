"""Staging folders: one for each process, for files that are not in the store yet, or no longer.

A process holds the lock of its folder as long as it lives. A folder without a lock holder is removed. A folder that
cannot be removed is logged and stays until the next attempt: it is not part of the store, so no call fails because of
it.

A process can claim names here: other processes see them as long as it lives and has not released them.
"""

import logging
import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

from interpose.host.file_lock import open_locked, try_lock
from interpose.host.rmtree import remove_tree
from interpose.log import kv

_LOCK: Final = ".lock"
_CLAIM: Final = "claim"

_log = logging.getLogger(__name__)


class StagingDir:
    """The staging folder of a process below `parent`, made when it is first needed."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._name = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._lock: int | None = None
        self._numbers = count(1)
        self._making = threading.Lock()

    def new_path(self, kind: str) -> Path:
        """A new path in the folder."""
        return self._folder() / f"{kind}-{next(self._numbers)}"

    def _folder(self) -> Path:
        folder = self._parent / self._name
        with self._making:
            if self._lock is None:
                # The lock first: a folder without a lock is removed.
                self._lock = _lock(self._parent / f"{self._name}{_LOCK}")
                folder.mkdir(mode=0o700)
        return folder

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            discard(self._parent / self._name)
            with suppress(FileNotFoundError):
                (self._parent / f"{self._name}{_LOCK}").unlink()
            os.close(lock)

    def remove_abandoned(self) -> list[str]:
        """Remove the folders of processes that are gone; their names. The caller holds the lock of the store."""
        removed = []
        for path in sorted(self._parent.iterdir()):
            name = path.name.removesuffix(_LOCK)
            if name == self._name or not _is_abandoned(self._parent / f"{name}{_LOCK}"):
                continue
            if discard(self._parent / name):
                with suppress(OSError):
                    (self._parent / f"{name}{_LOCK}").unlink()
                removed.append(name)
        return sorted(set(removed))

    @contextmanager
    def claim(self, names: Iterable[str]) -> Iterator[None]:
        """Claim names. The caller holds the lock of the store until this is entered, but not when it is left."""
        path = self.new_path(_CLAIM)
        path.write_text("\n".join(names), encoding="ascii")
        try:
            yield
        finally:
            with suppress(FileNotFoundError):
                path.unlink()

    def claimed(self) -> set[str]:
        """The names that running processes claim."""
        names: set[str] = set()
        for folder in self._parent.iterdir():
            if folder.suffix != _LOCK and not _is_abandoned(self._parent / f"{folder.name}{_LOCK}"):
                for path in folder.glob(f"{_CLAIM}-*"):
                    with suppress(FileNotFoundError):
                        names.update(path.read_text(encoding="ascii").splitlines())
        return names


def _lock(path: Path) -> int:
    """Create and lock a file. Another process may remove it in between; then it is created again."""
    while True:
        descriptor = open_locked(path)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _is_abandoned(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return try_lock(descriptor)
    finally:
        os.close(descriptor)


def discard(path: Path) -> bool:
    """Remove a file or a tree, whatever its modes; False if that failed, which is logged."""
    try:
        remove_tree(path)
    except OSError as error:
        _log.warning("Failed to remove obsolete data", extra=kv(path=str(path), err=str(error)))
        return False
    return True
