"""A file that others read while it changes: they see the old content or the new one, never a part.

Everything happens inside one directory that was opened first, so that nobody can lead a step elsewhere; the directory
must be ours or root's, and nobody else's to write to. Two who write the same file disturb each other in no other way
than that the last one wins.
"""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from interpose.host.atomic_file import replace_at
from interpose.host.file_trust import Trust

_DIRECTORY_MODE: Final = 0o755
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_LIMIT: Final = 8 << 20
# Nobody takes so long to write a file: whoever began to was killed.
_LEFT_BEHIND: Final = 300.0


class StateFile:
    """One file by its path. Its methods wait for the disk."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder, self._name = os.path.split(path)
        self._mark: tuple[int, ...] | None = None  # of the file as we left it
        self._tidied = False

    def read(self) -> str | None:
        """What it holds; None if there is none. OSError or ValueError if it cannot be read or believed."""
        try:
            with self._directory() as directory:
                return self._content(directory)
        except FileNotFoundError:
            return None

    def write(self, text: str) -> bool:
        """Put this in its place; false if it was so already. OSError or ValueError if it cannot be done."""
        self._make_directory()
        with self._directory() as directory:
            with suppress(OSError, ValueError):  # whatever is there, it will be another
                if self._content(directory) == text:
                    return False
            self._mark = None
            if not self._tidied:
                self._tidy(directory)
            # Not with our number, which somebody in another container may have too.
            temporary = f".{self._name}.{secrets.token_hex(8)}.tmp"
            self._mark = _mark(replace_at(directory, self._name, text.encode(), temporary=temporary))
        return True

    def is_as_written(self) -> bool:
        """Whether it is still as `write` left it, as far as can be told without reading it."""
        try:
            return self._mark is not None and _mark(os.lstat(self.path)) == self._mark
        except OSError:
            return False

    @contextmanager
    def _directory(self) -> Iterator[int]:
        folder = self._folder or "."
        try:
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
        except NotADirectoryError:
            raise ValueError(f"{folder} is not a directory, or a link to one") from None
        try:
            if doubts := Trust().doubts(os.fstat(directory)):
                raise ValueError(f"directory {folder} {doubts}")
            yield directory
        finally:
            os.close(directory)

    def _make_directory(self) -> None:
        folder = Path(self._folder or ".")
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(_DIRECTORY_MODE)  # whatever our umask is: its readers are other processes

    def _content(self, directory: int) -> str | None:
        try:
            fd = os.open(self._name, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise ValueError(f"{self.path} is not a regular file") from None
            raise
        try:
            found = os.fstat(fd)
            if doubts := self._doubts(found):
                raise ValueError(f"{self.path} {doubts}")
            self._mark = _mark(found)
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read(_LIMIT).decode()
        finally:
            os.close(fd)

    @staticmethod
    def _doubts(found: os.stat_result) -> str | None:
        if not stat.S_ISREG(found.st_mode):
            return "is not a regular file"
        if found.st_size > _LIMIT:
            return f"is larger than {_LIMIT} bytes"
        return Trust().doubts(found)

    def _tidy(self, directory: int) -> None:
        """Take away what processes left behind that were killed while they wrote."""
        self._tidied = True
        pattern = re.compile(rf"\.{re.escape(self._name)}\.([0-9a-f]+\.)?tmp")
        for name in os.listdir(directory):
            if pattern.fullmatch(name):
                with suppress(OSError):
                    if time.time() - os.lstat(name, dir_fd=directory).st_mtime > _LEFT_BEHIND:
                        os.unlink(name, dir_fd=directory)


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode, found.st_uid
