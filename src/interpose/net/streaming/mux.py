"""Several channels over one byte transport: what SPDY and WebSocket have in common once the bytes are events.

One task reads the transport and fills the inboxes of the channels. A full inbox, or all of them together, makes it
wait: then nothing more is read, and the peer is slowed down. `Multiplexer` is the base of both kinds.

Invariant: what is held per channel is one window, and of all channels `MOST_HELD`, with what one read of the
transport brings on top; a multiplexer that has ended has ended all its channels, and has set `lost`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Final

from interpose.net.spdy.connection import WINDOW
from interpose.net.streaming.byte_transport import ByteTransport
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
PIECE: Final = 1 << 15  # bytes of one frame that we send
MOST_HELD: Final = 8 << 20  # bytes that wait on all channels: a peer may open many that are not read
_UNREAD: Final = 4 << 20  # bytes that wait for a peer; what writers send waits far below
_PEER_CHECK_INTERVAL: Final = 5.0  # seconds between looks for a peer that may have left while we do not read


class MultiplexerLostError(ConnectionError):
    """The peer has closed, or takes no more on this channel."""


class ChannelOutcome(Enum):
    """How the peer's side of a channel ended."""

    FINISHED = "finished"
    RESET = "reset"
    LOST = "lost"


class Channel:
    """One of several byte streams on a multiplexer. One reader and one writer at a time."""

    def __init__(self, mux: "Multiplexer", number: int, headers: Mapping[str, str] | None = None) -> None:
        self.number = number
        self.headers = headers or {}
        self.end: ChannelOutcome | None = None
        self.held = 0
        self._mux = mux
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._unwanted = False

    async def read(self) -> bytes:
        """The next bytes; empty when no more follow, and `end` says why."""
        while not self._inbox:
            if self.end is not None:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        data = self._inbox.popleft()
        self._release(len(data))
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes and wait until there is room for more. MultiplexerLostError if they cannot arrive."""
        for at in range(0, len(data), PIECE):
            await self._mux.write(self.number, data[at : at + PIECE])

    def finish(self) -> None:
        """Tell the peer that no more bytes follow."""
        self._mux.finish(self.number)

    def reset(self) -> None:
        """End both ways; what comes after is dropped."""
        self.discard()
        self._mux.reset(self.number)
        self.on_end(ChannelOutcome.RESET)

    def discard(self) -> None:
        """Drop all bytes that arrive here from now on."""
        self._unwanted = True
        self._inbox.clear()
        self._release(self.held)

    def on_data(self, data: bytes) -> None:
        """Called by the multiplexer with bytes for this channel."""
        if self._unwanted:
            self._mux.consumed(self.number, len(data))
            return
        self._inbox.append(data)
        self.held += len(data)
        self._mux.held += len(data)
        self._arrived.set()

    def on_end(self, end: ChannelOutcome) -> None:
        """Called when no more bytes follow. Those that arrived before can still be read."""
        if self.end is None:
            self.end = end
        self._arrived.set()

    def _release(self, count: int) -> None:
        self.held -= count
        self._mux.held -= count
        self._mux.room.set()
        self._mux.consumed(self.number, count)


class Multiplexer:
    """The base of multiplexers over SPDY and WebSocket: the reading task and the closing."""

    def __init__(self, wire: ByteTransport) -> None:
        self.lost = asyncio.Event()
        self.reason = ""  # why it was lost, if that is known
        self.last_activity = asyncio.get_running_loop().time()  # when bytes last went either way
        self.held = 0  # on all channels, also on those that are over and still read
        self.room = asyncio.Event()  # set whenever there is less of it
        self._wire = wire
        self._tasks = TaskBag()
        self._channels: dict[int, Channel] = {}

    def start(self) -> None:
        """Begin to read the transport."""
        self._tasks.spawn(self._read(), name="streaming link")

    async def close(self, linger: float = 0.0) -> None:
        """Send a close, give the peer `linger` seconds to read everything and to leave, and close the transport."""
        if not self.lost.is_set():
            for channel in self._channels.values():
                channel.discard()
            self._send_close()
            if linger:
                await _within(self.lost, linger)
        await self._tasks.cancel()
        self._end()
        await self._wire.close()

    def abort(self) -> None:
        """Close the transport at once."""
        self._wire.abort()

    async def write(self, number: int, data: bytes) -> None:
        """Send bytes on a channel."""
        raise NotImplementedError

    def finish(self, number: int) -> None:
        """Send no more on a channel."""
        raise NotImplementedError

    def reset(self, number: int) -> None:
        """End a channel both ways."""
        raise NotImplementedError

    def consumed(self, number: int, count: int) -> None:
        """Called when bytes of a channel were read, so that the peer may send more."""

    def _on_bytes(self, data: bytes) -> list[Channel]:
        """Handle received bytes; returns the channels that got some."""
        raise NotImplementedError

    def _send_close(self) -> None:
        """Send the closing message of the protocol."""
        raise NotImplementedError

    def _closed(self) -> bool:
        """Whether the protocol says that nothing more comes."""
        raise NotImplementedError

    def _send(self, data: bytes) -> None:
        if data:
            self.last_activity = asyncio.get_running_loop().time()
            self._wire.send(data)

    async def _drain(self) -> None:
        try:
            await self._wire.drain()
        except OSError as error:
            raise MultiplexerLostError(str(error)) from None

    async def _read(self) -> None:
        try:
            while not self._closed() and (data := await self._wire.read()):
                self.last_activity = asyncio.get_running_loop().time()
                for channel in self._on_bytes(data):
                    await self._make_room(channel)
                # Not `drain`: two peers that both wait for the other to read would wait for ever.
                if self._wire.pending() > _UNREAD:
                    raise ConnectionAbortedError("the peer asks and does not read the answers")
        except OSError as error:
            self.reason = self.reason or str(error)
        finally:
            self._end()

    async def _make_room(self, channel: Channel) -> None:
        while channel.held > WINDOW or self.held > MOST_HELD:
            self.room.clear()
            if not await _within(self.room, _PEER_CHECK_INTERVAL) and self._wire.is_gone():
                raise ConnectionResetError("the peer left")

    def _end(self) -> None:
        self.lost.set()
        for channel in self._channels.values():
            channel.on_end(ChannelOutcome.LOST)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def wait_until_idle(mux: Multiplexer, idle: float) -> None:
    """Return when the multiplexer is lost, or when no byte passed it for `idle` seconds."""
    loop = asyncio.get_running_loop()
    while (left := mux.last_activity + idle - loop.time()) > 0:
        if await _within(mux.lost, left):
            return
