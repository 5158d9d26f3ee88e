"""The log file of a container in the format of CRI. A file that cannot be written costs lines, never the container.

A line is `2016-10-06T00:17:09.669794202Z stdout F text`; F ends a line, P is a part of one that is longer than the
limit, or the rest of the output of a program that did not end its line. A carriage return before the end of a line
belongs to the end, as on containerd: a terminal adds it to each line. Times are those of reading.
"""

import os
import time

from interpose.node.runtime.shim.event_loop import log_line

# Not blocking: a FIFO in the place of the file would stop the whole pod.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_MODE = 0o640


class LogFile:
    """A log file, written at once and in whole pieces, for readers that follow it. No path: no log."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._cut = False
        self._failing = False
        if path:
            self._try_open()

    def reopen(self) -> None:
        """Write to a new file of this name from now on; OSError if it cannot be opened, and the old one stays."""
        if not self._path:
            return
        fd = os.open(self._path, _FLAGS, _MODE)
        self.close()
        self._fd = fd

    def write(self, data: bytes) -> None:
        """Append; data that cannot be written is lost, which is logged once."""
        if not self._path or not data:
            return
        if self._fd < 0 and not self._try_open():
            return
        rest = b"\n" + data if self._cut else data
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            # Half a line stays half a line: the next one must not be glued to it.
            self._cut = self._cut if len(rest) > len(data) else len(rest) < len(data)
            self._failed(error)
            return
        self._cut = self._failing = False

    def close(self) -> None:
        """Close the log file; later writes open it again."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._cut = False

    def _try_open(self) -> bool:
        try:
            os.makedirs(os.path.dirname(self._path), 0o755, exist_ok=True)  # noqa: PTH103, PTH120
            self._fd = os.open(self._path, _FLAGS, _MODE)
        except OSError as error:
            self._failed(error)
            return False
        return True

    def _failed(self, error: OSError) -> None:
        if not self._failing:
            log_line(f"log {self._path} cannot be written, lines are lost: {error}")
        self._failing = True


LINE_LIMIT = 16 << 10


def stamp(at_ns: int) -> bytes:
    """A time in the format of CRI logs."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    return b"%s.%09dZ" % (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode(), rest)


class LogLines:
    """Splits the bytes of a stream into log lines. An unfinished line is buffered, up to the limit of a line."""

    def __init__(self, stream: str, limit: int = LINE_LIMIT) -> None:
        self._full = b" " + stream.encode() + b" F "
        self._part = b" " + stream.encode() + b" P "
        self._limit = limit
        self._rest = b""

    def feed(self, data: bytes, at_ns: int) -> bytes:
        """The log lines that these bytes complete; may be empty."""
        at = stamp(at_ns)
        *lines, rest = (self._rest + data).split(b"\n")
        head = at + self._full
        parts = at + self._part
        out = []
        for line in lines:
            line = line.removesuffix(b"\r")
            while len(line) > self._limit:
                out.append(parts + line[: self._limit])
                line = line[self._limit :]
            out.append(head + line)
        while len(rest) > self._limit:
            out.append(parts + rest[: self._limit])
            rest = rest[self._limit :]
        self._rest = rest
        return b"\n".join([*out, b""]) if out else b""

    def end(self, at_ns: int) -> bytes:
        """The rest without an end of line, as a part: readers of the log add no end to it."""
        rest, self._rest = self._rest, b""
        return stamp(at_ns) + self._part + rest + b"\n" if rest else b""
