"""Where the lines of a dump go: a file, and the log.

A file that cannot be written is tried again every few seconds, and lines that were lost are counted. A file that was
moved away by whoever rotates logs is made anew within a second. Two processes may append to one file while one takes
over from the other: only whole lines are handed to the system, many at once. The log waits for its reader: this process
has nothing else to do, and no call waits for it.
"""

import errno
import logging
import os
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Final, TextIO

from interpose.dump.output.text import DumpLine
from interpose.log import LEVELS, JsonFormatter, LineHandler, TextFormatter

_AGAIN: Final = 5.0
_MODE: Final = 0o600
_BUFFER_BYTES: Final = 64 << 10
# Pipes that were opened for us. Another one has a reader that may go or be slow, and we would wait for it.
_OUR_STREAMS: Final = frozenset(
    f"{folder}/{name}"
    for folder, names in (("/dev", ("stdout", "stderr")), ("/dev/fd", "12"), ("/proc/self/fd", "12"))
    for name in names
)
SOURCE: Final = "message"  # of the lines in the log


class DumpFile:
    """The file of a dump. Lines carry their stamps."""

    def __init__(self, path: str, *, empty: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._now = now
        self._fd: int | None = None
        self._identity = (0, 0)
        self._due = 0.0
        self._lines: list[bytes] = []
        self._held = 0  # bytes of these
        self._torn = False  # what the system took ends within a line
        self.lost = 0
        self.error: OSError | None = None
        self._open(empty=empty)

    def write(self, lines: Sequence[DumpLine]) -> None:
        """Lines, or none if the file is away."""
        if not lines:
            return
        if self._fd is None and self._now() >= self._due:
            self._open(empty=False)
        if self._fd is None:
            self.lost += len(lines)
            return
        for line in lines:
            data = f"{line.in_file}\n".encode(errors="backslashreplace")
            self._lines.append(data)
            self._held += len(data)
        if self._held >= _BUFFER_BYTES:
            self._write_lines(self._fd)

    def flush(self) -> None:
        """On disk, as far as the system is concerned; and if the file was moved away, a new one from now on."""
        if self._fd is None or not self._write_lines(self._fd):
            return
        try:
            if self._was_moved():
                self._close()
                self._open(empty=False)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Write the lines that are waiting and close the file."""
        self.flush()
        self._close()

    def _write_lines(self, descriptor: int) -> bool:
        """The lines to the system, with one call unless it takes a part of them only."""
        lines, self._lines, self._held = self._lines, [], 0
        if not lines:
            return True
        if self._torn:
            lines[0] = b"\n" + lines[0]
        data = b"".join(lines)
        done = 0
        try:
            while done < len(data):
                done += os.write(descriptor, data[done:])
        except OSError as error:
            self._count(lines, done)
            self._fail(error)
            return False
        self._torn = False
        return True

    def _count(self, lines: Sequence[bytes], done: int) -> None:
        """So many bytes of these lines were taken: what is missing?"""
        ends = [end for end in accumulate(map(len, lines)) if end <= done]
        self.lost += len(lines) - len(ends)
        self._torn = done > (ends[-1] if ends else 0) or (self._torn and not ends)

    def _was_moved(self) -> bool:
        try:
            status = Path(self._path).stat()
        except FileNotFoundError:
            return True
        return (status.st_dev, status.st_ino) != self._identity

    def _open(self, *, empty: bool) -> None:
        try:
            descriptor = _opened(self._path, empty=empty)
        except OSError as error:
            self._fail(error)
            return
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        self._torn = self._torn and identity == self._identity
        self._fd, self._identity = descriptor, identity
        self.error = None

    def _fail(self, error: OSError) -> None:
        self.error = error
        self._due = self._now() + _AGAIN
        self._close()

    def _close(self) -> None:
        descriptor, self._fd = self._fd, None
        if descriptor is not None:
            try:
                os.close(descriptor)
            except OSError as error:
                self.error = error


def _opened(path: str, *, empty: bool) -> int:
    """A descriptor to append to. OSError if it is nothing that we should write to."""
    shared = bool(Path(path).parent.stat().st_mode & stat.S_IWOTH)
    # Opened without waiting: a pipe may have no reader.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if shared else 0)
    descriptor = os.open(path, flags, _MODE)
    try:
        status = os.fstat(descriptor)
        if refusal := _refusal(path, status, shared=shared):
            raise PermissionError(errno.EPERM, refusal, path)
        if stat.S_ISREG(status.st_mode):
            if status.st_uid == os.geteuid() and status.st_mode & 0o777 != _MODE:
                with suppress(PermissionError):  # a file system without modes
                    os.fchmod(descriptor, _MODE)
            if empty:
                os.ftruncate(descriptor, 0)
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refusal(path: str, status: os.stat_result, *, shared: bool) -> str:
    """Why we do not write there; empty if we do. In a directory where anybody may write, a link or somebody else's file
    was put there by someone who wants us to write somewhere, or to read along."""
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISCHR(status.st_mode) or path in _OUR_STREAMS):
        return "it is neither a file nor a terminal"
    if shared and status.st_uid != os.geteuid():
        return "it belongs to another user, in a world-writable directory"
    if shared and status.st_nlink > 1:
        return "it has another name, and is in a directory where anybody may write"
    return ""


class _MessageFormatter(TextFormatter):
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
        handler.setFormatter(JsonFormatter() if form == "json" else _MessageFormatter())
        self._logger.handlers = [handler]

    def write(self, lines: Sequence[DumpLine]) -> None:
        """Lines without stamps: the log has its own."""
        for line in lines:
            self._logger.log(LEVELS[line.level], line.text)
