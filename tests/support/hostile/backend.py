"""A backend that does to each call what its path says (`paths`), cheaply, so that a proxy is what one measures.

`python -m tests.support.hostile.backend SOCKET`. It reads frames itself and finds the path as plain bytes in the
header block: proxies that are measured with it send it so.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.support.hostile.paths import BIG, FLOOD, MIDDLING, STALLED, TAKEN
from tests.support.net.h2_peer import PREFACE, data, headers, ping, settings, settings_ack, window_update
from tests.support.net.hpack import Encoder

_HEAD = Encoder().block([(b":status", b"200"), (b"content-type", b"application/grpc")], "plain", coded=False)
_TRAILERS = Encoder().block([(b"grpc-status", b"0")], "plain", coded=False)
_INTERIM = Encoder().block([(b":status", b"103"), (b"link", b"v" * 1000)], "plain", coded=False)


def message(size: int) -> bytes:
    """A gRPC message of about this size that any method's reply may be: it has one field that nobody knows."""
    length = bytes((size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14))
    content = b"\xc2\x3e" + length + bytes(size)
    return b"\0" + len(content).to_bytes(4, "big") + content


SMALL_REPLY = message(16)
MIDDLING_REPLY = message(4000)
BIG_REPLY = message(200_000)
_WINDOW = 2**20
_FRAME = 16_384
# Credit is given back in steps.
_CREDIT = 64 * 1024
# Frames between two looks at whether the socket is full.
_ROUND = 16


class _Stream:
    __slots__ = ("block", "left", "queued", "taken", "window")

    def __init__(self, block: bytes, window: int) -> None:
        self.block = block
        self.window = window
        self.left: bytes | memoryview = b""
        self.queued = False
        self.taken = 0


class BackendConnection(asyncio.Protocol):
    """One connection of a proxy."""

    frames_in_a_turn = 200

    def __init__(self) -> None:
        self._transport: Any = None
        self._rest = b""
        self._greeted = False
        self._out: list[bytes] = []
        self._streams: dict[int, _Stream] = {}
        self._window = 65_535
        self._initial = 65_535
        self._block: tuple[int, int, bytes] | None = None
        self._floods: set[int] = set()
        self._active: deque[int] = deque()
        self._behind = False  # frames wait for their turn
        self._paused = False
        self._taken = 0
        self._to_write = False  # it has asked for a further turn
        self._writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(settings((3, 100_000), (4, _WINDOW)) + window_update(0, 2**31 - 1 - 65_535))

    def data_received(self, received: bytes) -> None:
        self._rest = self._rest + received if self._rest else received
        if not self._greeted:
            if len(self._rest) < len(PREFACE):
                return
            self._greeted = True
            self._rest = self._rest[len(PREFACE) :]
        if not self._behind:
            self._take()

    def _take(self) -> None:
        """Some frames; other connections have their turn before the next ones, as with servers that have threads."""
        received = self._rest
        at, size = 0, len(received)
        self._behind = False
        for _ in range(self.frames_in_a_turn):
            if at + 9 > size:
                break
            end = at + 9 + int.from_bytes(received[at : at + 3], "big")
            if end > size:
                break
            number = int.from_bytes(received[at + 5 : at + 9], "big")
            self._frame(received[at + 3], received[at + 4], number, received[at + 9 : end])
            at = end
        else:
            self._behind = True
        self._rest = received[at:]
        self._flush()
        self._write_more()
        if self._behind != self._paused and not self._transport.is_closing():
            self._paused = self._behind
            (self._transport.pause_reading if self._behind else self._transport.resume_reading)()
        if self._behind:
            self._again(self._take)

    def _flush(self) -> None:
        if self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def _frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == 0:
            self._data(flags, number, len(payload))
        elif kind == 1:
            self._headers(flags, number, payload)
        elif kind == 9 and self._block is not None:
            number, first, block = self._block
            self._headers(first | flags, number, block + payload)
        elif kind == 3:
            self._streams.pop(number, None)
            self._floods.discard(number)
        elif kind == 4 and not flags & 1:
            self._settings(payload)
        elif kind == 6 and not flags & 1:
            self._out.append(ping(payload, ack=True))
        elif kind == 8:
            self._credit(number, int.from_bytes(payload, "big"))

    def _headers(self, flags: int, number: int, block: bytes) -> None:
        if not flags & 4:
            self._block = (number, flags, block)
            return
        self._block = None
        if (stream := self._streams.get(number)) is None:  # else trailers
            stream = self._streams[number] = _Stream(block, self._initial)
        if flags & 1:
            self._answer(number, stream)

    def _data(self, flags: int, number: int, size: int) -> None:
        stream = self._streams.get(number)
        self._taken += size
        if self._taken >= _CREDIT:
            self._out.append(window_update(0, self._taken))
            self._taken = 0
        if stream is None:
            return
        if flags & 1:
            self._answer(number, stream)
        elif TAKEN in stream.block:
            stream.taken += size
            if stream.taken >= _CREDIT:
                self._out.append(window_update(number, stream.taken))
                stream.taken = 0

    def _answer(self, number: int, stream: _Stream) -> None:
        if STALLED in stream.block:
            return
        if FLOOD in stream.block:
            self._floods.add(number)
            self._flood()
            return
        block = stream.block
        reply = BIG_REPLY if BIG in block else MIDDLING_REPLY if MIDDLING in block else SMALL_REPLY
        stream.left = memoryview(reply)  # cut into frames without copies of the rest
        self._out.append(headers(number, _HEAD))
        self._pump(number, stream)

    def _pump(self, number: int, stream: _Stream) -> None:
        """Let it have its turn among those that have something to send, as servers do that are fair."""
        if stream.window > 0 and not stream.queued:
            stream.queued = True
            self._active.append(number)

    def _write_more(self) -> None:
        """A frame of each in turn, as long as the socket takes it; other connections have their turn in between."""
        active = self._active
        for _ in range(self.frames_in_a_turn // _ROUND):
            if not active or self._window <= 0 or not self._writable:
                return
            for _ in range(min(len(active), _ROUND)):
                number = active.popleft()
                stream = self._streams.get(number)
                if stream is not None:
                    self._write_some(number, stream)
            self._flush()
        if not self._to_write:
            self._to_write = True
            self._again(self._write_on)

    def _write_on(self) -> None:
        self._to_write = False
        self._write_more()

    def _write_some(self, number: int, stream: _Stream) -> None:
        allowed = min(len(stream.left), stream.window, self._window, _FRAME)
        stream.queued = False
        if allowed > 0:
            self._out.append(data(number, bytes(stream.left[:allowed])))
            stream.left = stream.left[allowed:]
            stream.window -= allowed
            self._window -= allowed
        if not stream.left:
            self._out.append(headers(number, _TRAILERS, end=True))
            del self._streams[number]
        elif stream.window > 0:
            stream.queued = True
            self._active.append(number)

    def _credit(self, number: int, count: int) -> None:
        if not number:
            self._window += count
            return
        stream = self._streams.get(number)
        if stream is not None:
            stream.window += count
            if stream.left:
                self._pump(number, stream)

    def _settings(self, payload: bytes) -> None:
        self._out.append(settings_ack())
        for at in range(0, len(payload), 6):
            if payload[at : at + 2] == b"\x00\x04":
                value = int.from_bytes(payload[at + 2 : at + 6], "big")
                for number, stream in self._streams.items():
                    stream.window += value - self._initial
                    if stream.left:
                        self._pump(number, stream)
                self._initial = value

    def _flood(self) -> None:
        """Interim responses as long as the socket takes them, and again a moment later."""
        if self._floods and self._writable and not self._transport.is_closing():
            self._out += [headers(number, _INTERIM) for number in self._floods for _ in range(16)]
            self._flush()
            self._again(self._flood)

    def _again(self, act: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(act)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._write_more()
        self._flood()


async def main(path: str) -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(BackendConnection, path, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
