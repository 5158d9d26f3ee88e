"""One connection of a hostile client: writes what it likes, reads if it likes, and knows when it was cut."""

import select
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Self

from tests.support.net import h2_peer

_READ_SIZE = 1 << 18


class CutError(Exception):
    """The other side ended the connection, or never took it."""


class SpentError(Exception):
    """Time or bytes are used up."""


class HostilePeer:
    """`send` and `idle` raise `CutError` or `SpentError` when it is over. `seen` counts frames by their name."""

    def __init__(self, path: Path, *, until: float, budget: float = float("inf"), receive_buffer: int = 0) -> None:
        """`until` is on the monotonic clock; `budget` is in bytes."""
        self.reads = True
        self.seen: Counter[str] = Counter()
        self.sent = 0
        self._path = path
        self._until = until
        self._budget = budget
        self._stream = -1
        self._rest = b""
        self._socket = socket.socket(socket.AF_UNIX)
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            # With a limit: a full backlog would let it wait for ever.
            self._socket.settimeout(2.0)
            self._socket.connect(str(path))
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise CutError(str(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def another(self) -> "HostilePeer":
        """One more connection to the same socket, for the same time."""
        return HostilePeer(self._path, until=self._until, budget=self._budget)

    def next_stream(self) -> int:
        """An id that was not used yet."""
        self._stream += 2
        return self._stream

    def hello(self, *settings: tuple[int, int]) -> None:
        """The preface and SETTINGS, as they should be."""
        self.send(h2_peer.PREFACE + h2_peer.settings(*settings) + h2_peer.settings_ack())

    def send(self, data: bytes) -> None:
        """Write all of it; what arrives meanwhile is read, unless `reads` is off."""
        view = memoryview(data)
        while view:
            self._wait(write=True, within=0.1)
            try:
                count = self._socket.send(view[: 1 << 16])
            except BlockingIOError:
                continue
            except OSError as error:
                raise CutError(str(error)) from None
            self.sent += count
            view = view[count:]

    def idle(self, seconds: float) -> None:
        """Say nothing for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._wait(write=False, within=min(left, 0.05))

    def await_frames(self, kind: str, count: int, seconds: float = 2.0) -> None:
        """Say nothing until that many frames of a kind have come in all, or the time is up."""
        end = time.monotonic() + seconds
        while self.seen[kind] < count and (left := end - time.monotonic()) > 0:
            self._wait(write=False, within=min(left, 0.05))

    def read(self, size: int) -> None:
        """Read that much at most, whatever `reads` says."""
        try:
            data = self._socket.recv(size)
        except BlockingIOError:
            return
        except OSError as error:
            raise CutError(str(error)) from None
        if not data:
            raise CutError("closed")
        self._count(data)

    def _wait(self, *, write: bool, within: float) -> None:
        if self.sent >= self._budget or time.monotonic() > self._until:
            raise SpentError
        poll = select.poll()
        poll.register(self._socket, (select.POLLIN if self.reads else 0) | (select.POLLOUT if write else 0))
        for _, events in poll.poll(within * 1000):
            if events & select.POLLIN:
                self.read(_READ_SIZE)
            elif events & (select.POLLHUP | select.POLLERR):
                # Who does not read still wants to know that the other side has gone.
                raise CutError("hung up")

    def _count(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, size = 0, len(data)
        while at + 9 <= size:
            end = at + 9 + int.from_bytes(data[at : at + 3], "big")
            if end > size:
                break
            kind = data[at + 3]
            if kind < len(h2_peer.NAMES):
                self.seen[h2_peer.NAMES[kind]] += 1
            at = end
        self._rest = data[at:]
