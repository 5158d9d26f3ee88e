"""The log file of a container. A file that cannot be written costs lines, never the container."""

import os

from interpose.node.runtime.shim.event_loop import say

# Not blocking: a FIFO in the place of the file would stop the whole pod.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_MODE = 0o640


class LogFile:
    """Writes at once and as a whole, so that nothing is held back when somebody else looks. No path: no log."""

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
        """Append; what cannot be written is lost, and said once."""
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
        """No more lines."""
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
            say(f"log {self._path} cannot be written, lines are lost: {error}")
        self._failing = True
