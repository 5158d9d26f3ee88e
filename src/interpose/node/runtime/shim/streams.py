"""Our ends of the pipes and terminals of a process. Buffers are bounded: a slow reader makes the writer wait."""

import fcntl
import os
import struct
import termios

from interpose.node.runtime.shim.event_loop import READ, WRITE, EventLoop

TYPE_CHECKING = False  # importing typing costs a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 1 << 16
_DRAIN = 1 << 20


class OutputPipe:
    """The output of a process. `on_data(data)` gets each piece, `on_end()` is called once at its end."""

    def __init__(
        self, loop: EventLoop, fd: int, on_data: "Callable[[bytes], None]", on_end: "Callable[[], None]"
    ) -> None:
        os.set_blocking(fd, False)
        self.open = True
        self._loop = loop
        self._fd = fd
        self._on_data = on_data
        self._on_end = on_end
        self.resume()

    def pause(self) -> None:
        """Pause reading: the process will block once its pipe is full."""
        if self.open:
            self._loop.unwatch(self._fd)

    def resume(self) -> None:
        """Resume reading after `pause`."""
        if self.open:
            self._loop.watch(self._fd, READ, self._readable)

    def drain(self) -> None:
        """Read everything that is in the pipe now, paused or not: an exited process has written all of it."""
        taken = 0
        while self.open and taken < _DRAIN and (got := self._read()):
            taken += got

    def close(self) -> None:
        """Close the pipe; writers get SIGPIPE or SIGHUP."""
        if self.open:
            self.open = False
            self._loop.unwatch(self._fd)
            os.close(self._fd)

    def _readable(self, _events: int) -> None:
        self._read()

    def _read(self) -> int:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return 0
        except OSError:  # EIO: no process has the terminal open any more
            data = b""
        if data:
            self._on_data(data)
        else:
            self.close()
            self._on_end()
        return len(data)


class InputPipe:
    """The input of a process. Writers check `full` and wait with `when_room`."""

    def __init__(self, loop: EventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._waiting = bytearray()
        self._ending = False
        self._room: list[Callable[[], None]] = []

    @property
    def full(self) -> bool:
        """True while the process does not read its input."""
        return len(self._waiting) >= CHUNK

    def when_room(self, call: "Callable[[], None]") -> None:
        """Call `call` once the buffer has room again."""
        self._room.append(call)

    def write(self, data: bytes) -> None:
        """Write to the process; dropped if it reads no more."""
        if self._fd >= 0 and not self._ending:
            self._waiting += data
            self._flush()

    def end(self) -> None:
        """Close the pipe after the buffered input."""
        self._ending = True
        self._flush()

    def close(self) -> None:
        """Close the pipe at once."""
        if self._fd >= 0:
            self._loop.unwatch(self._fd)
            os.close(self._fd)
        self._fd = -1
        self._waiting.clear()
        self._notify_room()

    def _flush(self) -> None:
        if self._fd < 0:
            return
        try:
            while self._waiting:
                del self._waiting[: os.write(self._fd, self._waiting[:CHUNK])]
        except BlockingIOError:
            self._loop.watch(self._fd, WRITE, lambda _events: self._flush())
        except OSError:
            self.close()
            return
        if not self._waiting:
            if self._ending:
                self.close()
                return
            self._loop.unwatch(self._fd)
        if not self.full:
            self._notify_room()

    def _notify_room(self) -> None:
        waiting, self._room = self._room, []
        for call in waiting:
            call()


def resize_terminal(fd: int, width: int, height: int) -> None:
    """Set the size of a terminal; nothing happens if it is gone."""
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    except OSError:
        return
