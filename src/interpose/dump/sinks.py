"""Where the lines of a dump go: a file, and the log.

A file that cannot be written is tried again every few seconds, and lines that were lost are counted. A file that was
moved away by whoever rotates logs is made anew within a second. The log waits for its reader: this process has nothing
else to do, and no call waits for it.
"""

import errno
import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TextIO

from interpose.dump.text import Line
from interpose.instrumentation.logging import LEVELS, JsonFormatter, LineHandler, TextFormatter

_AGAIN: Final = 5.0
_MODE: Final = 0o600
SOURCE: Final = "message"  # of the lines in the log


class DumpFile:
    """The file of a dump. Lines carry their stamps."""

    def __init__(self, path: str, *, empty: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._now = now
        self._file: TextIO | None = None
        self._identity = (0, 0)
        self._due = 0.0
        self.lost = 0
        self.error: OSError | None = None
        self._open(empty=empty)

    def write(self, lines: Sequence[Line]) -> None:
        """Lines, or none if the file is away."""
        if not lines:
            return
        if self._file is None and self._now() >= self._due:
            self._open(empty=False)
        if self._file is None:
            self.lost += len(lines)
            return
        try:
            self._file.write("".join(f"{line.in_file}\n" for line in lines))
        except OSError as error:
            self.lost += len(lines)
            self._give_up(error)

    def flush(self) -> None:
        """On disk, as far as the system is concerned; and if the file was moved away, a new one from now on."""
        if self._file is None:
            return
        try:
            self._file.flush()
            if self._moved():
                self._close()
                self._open(empty=False)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """No more lines."""
        self.flush()
        self._close()

    def _moved(self) -> bool:
        try:
            status = Path(self._path).stat()
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _open(self, *, empty: bool) -> None:
        try:
            descriptor = _opened(self._path)
            if empty:
                os.ftruncate(descriptor, 0)
            status = os.fstat(descriptor)
        except OSError as error:
            self._give_up(error)
        else:
            self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")
            self._identity = (status.st_dev, status.st_ino)
            self.error = None

    def _give_up(self, error: OSError) -> None:
        self.error = error
        self._due = self._now() + _AGAIN
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self.error = error


def _opened(path: str) -> int:
    """A descriptor to append to. In a directory where anybody may write, a link or somebody else's file is refused:
    whoever put it there wants us to write somewhere, or to read along."""
    shared = Path(path).parent.stat().st_mode & stat.S_IWOTH
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_NOFOLLOW if shared else 0)
    descriptor = os.open(path, flags, _MODE)
    if shared and os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it belongs to somebody else, in a directory where anybody may write", path)
    return descriptor


class _Plain(TextFormatter):
    """A line of a dump is a line already: it is not put in quotes, and where it was made says nothing."""

    def format(self, record: logging.LogRecord) -> str:
        head, _, _ = super().format(record).partition("] ")
        return f"{head.rpartition(' ')[0]} {SOURCE}] {record.getMessage()}"


class DumpLog:
    """The log of the relay, written by a process of its own."""

    def __init__(self, form: str, stream: TextIO | None = None) -> None:
        self._logger = logging.getLogger(SOURCE)
        self._logger.propagate = False
        self._logger.setLevel(logging.INFO)
        handler = LineHandler(stream or sys.stderr)
        handler.setFormatter(JsonFormatter() if form == "json" else _Plain())
        self._logger.handlers = [handler]

    def write(self, lines: Sequence[Line]) -> None:
        """Lines without stamps: the log has its own."""
        for line in lines:
            self._logger.log(LEVELS[line.level], line.text)
