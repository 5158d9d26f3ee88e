"""Our ends of the pipes and terminals of a process. Nothing here grows: who cannot take more makes others wait."""

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
    """What a process writes. `take(data)` gets it as it comes, `ended()` is called once at its end."""

    def __init__(self, loop: EventLoop, fd: int, take: "Callable[[bytes], None]", ended: "Callable[[], None]") -> None:
        os.set_blocking(fd, False)
        self.open = True
        self._loop = loop
        self._fd = fd
        self._take = take
        self._ended = ended
        self.resume()

    def pause(self) -> None:
        """Read no more for now: the process will wait once its pipe is full."""
        if self.open:
            self._loop.unwatch(self._fd)

    def resume(self) -> None:
        """Go on reading."""
        if self.open:
            self._loop.watch(self._fd, READ, self._readable)

    def drain(self) -> None:
        """Take everything that is there now, paused or not: what a process that ended has written is all there."""
        taken = 0
        while self.open and taken < _DRAIN and (got := self._read()):
            taken += got

    def close(self) -> None:
        """Take no more; who writes gets SIGPIPE or SIGHUP."""
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
        except OSError:  # EIO: nobody has the terminal open any more
            data = b""
        if data:
            self._take(data)
        else:
            self.close()
            self._ended()
        return len(data)


class InputPipe:
    """What a process reads. Writers ask `full` and wait with `when_room`."""

    def __init__(self, loop: EventLoop, fd: int) -> None:
        os.set_blocking(fd, False)
        self._loop = loop
        self._fd = fd
        self._waiting = bytearray()
        self._ending = False
        self._room: list[Callable[[], None]] = []

    @property
    def full(self) -> bool:
        """True while the process does not take what there is."""
        return len(self._waiting) >= CHUNK

    def when_room(self, call: "Callable[[], None]") -> None:
        """Call back once there is room again."""
        self._room.append(call)

    def write(self, data: bytes) -> None:
        """Hand it on; thrown away if nobody reads any more."""
        if self._fd >= 0 and not self._ending:
            self._waiting += data
            self._flush()

    def end(self) -> None:
        """No more, after what is waiting."""
        self._ending = True
        self._flush()

    def close(self) -> None:
        """No more, at once."""
        if self._fd >= 0:
            self._loop.unwatch(self._fd)
            os.close(self._fd)
        self._fd = -1
        self._waiting.clear()
        self._tell()

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
            self._tell()

    def _tell(self) -> None:
        waiting, self._room = self._room, []
        for call in waiting:
            call()


def resize_terminal(fd: int, width: int, height: int) -> None:
    """Tell a terminal its size; nothing if it is gone."""
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    except OSError:
        return
