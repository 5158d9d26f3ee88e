"""A bounded queue of frames to one reader: the dump worker, or somebody attached to the admin socket.

Putting a frame never waits. A reader that is too slow loses frames, never the caller time: the body of a message first,
then whole frames; both are counted, and the reader is told how much is missing once there is room again. What has come
together is written together, a moment later.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from interpose.dump.model.frames import Dropped, encode
from interpose.relay.api import Interest

# How long a frame may wait for company: few enough for a person to call it live. Waking up and writing costs more than
# the frames of ten calls, so this is most of what a dump costs a relay that has little to do.
_GATHER: Final = 0.01
_BATCH: Final = 1 << 18
# Beginnings and ends of calls are small and make sense of the rest: they still fit when messages do not.
_RESERVE: Final = 1.25


class FrameQueue:
    """Frames for one reader. `interest` says for a method how much of it the reader wants."""

    def __init__(self, name: str, interest: Callable[[str], Interest], *, limit: int, wall: Callable[[], int]) -> None:
        self.name = name
        self.interest = interest
        self.limit = limit
        self.waiting = 0  # bytes
        self.frames = 0
        self.size = 0  # bytes taken
        self.bodies_lost = 0
        self.frames_lost = 0
        self.bytes_lost = 0
        self._reported = (0, 0)  # frames and bytes whose loss was told
        self._missing = False  # whether there are others
        self._most = int(limit * _RESERVE)
        self._wall = wall
        self._queue: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._finished = False

    # -- the side of the tap

    def put(self, data: bytes, *, reserve: bool = False) -> bool:
        """Take a frame, or not: then it is for the caller to say so with `lose`."""
        size = len(data)
        if self.waiting + size > (self._most if reserve else self.limit):
            return False
        if self._missing:
            self._report_loss()
        self._add(data, size)
        return True

    def has_room(self, size: int) -> bool:
        """Whether a message of this size would be taken."""
        return self.waiting + size <= self.limit

    def lose(self, size: int) -> None:
        """A frame of this size did not fit."""
        self.frames_lost += 1
        self.bytes_lost += size
        self._missing = True

    def _report_loss(self) -> None:
        frames, size = self.frames_lost - self._reported[0], self.bytes_lost - self._reported[1]
        self._reported = (self.frames_lost, self.bytes_lost)
        self._missing = False
        data = encode(Dropped(frames=frames, size=size, time=self._wall()))
        self._add(data, len(data))

    def _add(self, data: bytes, size: int) -> None:
        if not self._queue:  # else its reader knows already
            self._more.set()
        self._queue.append(data)
        self.frames += 1
        self.size += size
        self.waiting += size

    def finish(self) -> None:
        """No more frames will come."""
        self._finished = True
        self._more.set()

    # -- the side of the reader

    async def run(self, sock: socket.socket) -> None:
        """Write to a non-blocking socket until `finish`, and then what is left. OSError if the reader is gone."""
        loop = asyncio.get_running_loop()
        while True:
            await self._more.wait()
            if not self._finished and self.waiting < _BATCH:
                await asyncio.sleep(_GATHER)
            batch = self._batch()
            if batch:
                try:
                    await loop.sock_sendall(sock, b"".join(batch))
                except BaseException:
                    for data in batch:  # some of them may have arrived; nobody knows which
                        self.lose(len(data))
                    raise
            elif self._missing:
                self._report_loss()
            else:
                return

    def _batch(self) -> list[bytes]:
        """What is to be written next; nothing if there was an end and everything is written."""
        batch: list[bytes] = []
        size = 0
        queue = self._queue
        while queue and size < _BATCH:
            data = queue.popleft()
            batch.append(data)
            size += len(data)
        self.waiting -= size
        if not queue and not self._finished:
            self._more.clear()
        return batch


class Losses:
    """Adds up over readers that have come and gone, so that counters never fall."""

    def __init__(self) -> None:
        self._gone: dict[tuple[str, str], int] = {}

    def add_closed(self, queue: FrameQueue) -> None:
        """Keep the counts of a queue whose reader is gone."""
        for field, value in _values(queue).items():
            key = (queue.name, field)
            self._gone[key] = self._gone.get(key, 0) + value

    def totals(self, queues: Sequence[FrameQueue]) -> dict[tuple[str, str], int]:
        """By kind of reader and by what is counted."""
        totals = dict(self._gone)
        for queue in queues:
            for field, value in _values(queue).items():
                totals[queue.name, field] = totals.get((queue.name, field), 0) + value
        return totals


def _values(queue: FrameQueue) -> dict[str, int]:
    return {
        "frames": queue.frames,
        "bytes": queue.size,
        "frames_dropped": queue.frames_lost,
        "bodies_dropped": queue.bodies_lost,
    }
