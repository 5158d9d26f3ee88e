"""Writing lines to a descriptor whose reader may have stopped reading.

Under systemd stderr is a socket to journald, elsewhere often a pipe. A plain write would wait for a reader that hangs,
and with it every call on the node. So a line is written only if the descriptor takes it now; else it is lost, which the
caller counts. Pieces are small enough that a descriptor that polls writable takes them without waiting.
"""

import os
import select
from typing import Final

# What POSIX calls PIPE_BUF on Linux: a pipe that polls writable has room for so much.
_PIECE: Final = 4096


class UnblockedText:
    """A text stream over a descriptor that never waits. The descriptor's own flags stay: others may share them."""

    def __init__(self, fd: int = 2) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, text: str) -> int:
        """Write all of it, or raise OSError at the first piece that would have to wait."""
        data = text.encode("utf-8", "backslashreplace")
        for start in range(0, len(data), _PIECE):
            if not any(events & select.POLLOUT for _, events in self._poll.poll(0)):
                raise BlockingIOError(f"descriptor {self._fd} does not take more now")
            os.write(self._fd, data[start : start + _PIECE])
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""
