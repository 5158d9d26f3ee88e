"""A load client that costs little: all requests are built before the clock starts, replies are only counted.

h2load repeats the same headers for ever; here `traceparent` differs in every call, encoded as grpc-go would. Reading is
frame heads only: one walk over big buffers. That all replies are good is seen from their DATA: an error has none.
"""

from __future__ import annotations

import hashlib
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from interpose.net.h2 import frames
from tests.support.lab.indexing import TABLE_SIZE, IndexingEncoder
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VERSION_PATH = b"/runtime.v1.RuntimeService/Version"
EMPTY_MESSAGE = b"\0\0\0\0\0"
# Larger reads would be a fresh memory mapping each time and cost more than they save.
READ_SIZE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One timed run: how many calls, how long in all, and the duration of each in microseconds."""

    seconds: float
    durations: list[float]

    @property
    def rate(self) -> float:
        return len(self.durations) / self.seconds


def traceparent(number: int) -> bytes:
    """A W3C trace context that is different for each number."""
    digest = hashlib.md5(number.to_bytes(8, "big"), usedforsecurity=False).hexdigest()
    return f"00-{digest}-{digest[::-2]}-01".encode()


def build_requests(count: int, path: bytes = VERSION_PATH, *, changing: bool = True) -> list[bytes]:
    """HEADERS and DATA of each call of one connection, in order, with odd stream ids from 1."""
    encoder = IndexingEncoder()
    requests = []
    for number in range(count):
        block = encoder.encode(
            [
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", path),
                (b":authority", b"localhost"),
                (b"content-type", b"application/grpc"),
                (b"user-agent", b"grpc-go/1.73.0"),
                (b"te", b"trailers"),
                (b"grpc-timeout", b"120S"),
                *([(b"traceparent", traceparent(number))] if changing else []),
            ]
        )
        stream = 2 * number + 1
        requests.append(
            frames.headers(stream, block, False, frames.DEFAULT_FRAME_SIZE)
            + frames.FRAME_HEAD.pack(len(EMPTY_MESSAGE) << 8 | frames.DATA, frames.END_STREAM, stream)
            + EMPTY_MESSAGE
        )
    return requests


class RawConnection:
    """One connection; `run` goes on with the next requests of the list it was given."""

    def __init__(self, path: Path, requests: Sequence[bytes], timeout: float = 30.0) -> None:
        self._requests = requests
        self._next = 0
        self._window = frames.DEFAULT_WINDOW
        self._reply_size = 0
        self._buffer = b""
        self._settled = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
            self._handshake()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def run(self, count: int, streams: int) -> Timing:
        """This many calls, `streams` of them in flight; the first run sets the size of a good reply."""
        if self._next + count > len(self._requests):
            raise ValueError(f"{count} more calls of {len(self._requests)} built, {self._next} already sent")
        first, last = self._next, self._next + count
        started: list[float] = [0.0] * count
        ended: dict[int, float] = {}
        data = 0
        begin = time.perf_counter()
        while len(ended) < count:
            room = min(first + len(ended) + streams, last) - self._next
            room = min(room, self._window // len(EMPTY_MESSAGE))
            if room > 0:
                batch = b"".join(self._requests[self._next : self._next + room])
                now = time.perf_counter()
                started[self._next - first : self._next - first + room] = [now] * room
                self._next += room
                self._window -= room * len(EMPTY_MESSAGE)
                self._socket.sendall(batch)
            data += self._read(ended, first)
        seconds = time.perf_counter() - begin
        self._reply_size = self._reply_size or data // count
        if data != self._reply_size * count or not data:
            raise LabError(
                f"{count} replies had {data} bytes of DATA; {self._reply_size} each were due: some calls failed"
            )
        return Timing(seconds=seconds, durations=[(ended[n] - started[n]) * 1e6 for n in range(count)])

    def _handshake(self) -> None:
        # Wide windows: this client never makes a peer wait for credit.
        self._socket.sendall(
            frames.PREFACE
            + frames.settings({frames.INITIAL_WINDOW_SIZE: frames.LARGEST_WINDOW})
            + frames.window_update(0, frames.LARGEST_WINDOW - frames.DEFAULT_WINDOW)
        )
        while not self._settled:
            self._read({}, 0)

    def _read(self, ended: dict[int, float], first: int) -> int:
        """Take in what has arrived; note the ends of streams, return the bytes of DATA."""
        received = self._socket.recv(READ_SIZE)
        if not received:
            raise LabError("the server closed the connection")
        now = time.perf_counter()
        buffer = self._buffer + received if self._buffer else received
        position, size, data = 0, len(buffer), 0
        unpack, head_size = frames.FRAME_HEAD.unpack_from, frames.HEAD_SIZE
        while position + head_size <= size:
            length_and_type, flags, stream = unpack(buffer, position)
            end = position + head_size + (length_and_type >> 8)
            if end > size:
                break
            kind = length_and_type & 0xFF
            if kind <= frames.HEADERS:
                if kind == frames.DATA:
                    data += length_and_type >> 8
                if flags & frames.END_STREAM:
                    ended[(stream >> 1) - first] = now
            else:
                self._control(kind, flags, stream, buffer[position + head_size : end])
            position = end
        self._buffer = buffer[position:]
        return data

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == frames.SETTINGS and not flags & frames.ACK:
            values = dict(frames.read_settings(payload))
            if values.get(frames.HEADER_TABLE_SIZE, TABLE_SIZE) < TABLE_SIZE:
                raise LabError("the server allows a smaller header table than the requests were built for")
            self._socket.sendall(frames.SETTINGS_ACK)
            self._settled = True
        elif kind == frames.PING and not flags & frames.ACK:
            self._socket.sendall(frames.ping(payload, ack=True))
        elif kind == frames.WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind == frames.RST_STREAM and not any(payload):
            return  # NO_ERROR behind a whole reply: grpc-go saw the end of the request a moment too late
        elif kind in (frames.RST_STREAM, frames.GOAWAY):
            raise LabError(f"the server sent frame type {kind} on stream {stream}: {payload!r}")
