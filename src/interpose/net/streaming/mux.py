"""Several channels over one wire: what SPDY and WebSocket have in common once the bytes are events.

One task reads the wire and fills the inboxes of the channels. One that is full, or all together, make it wait: then
nothing more is read, and the peer feels it. `Multiplexer` is the base of both kinds.

Invariant: what is held per channel is one window, and of all channels `MOST_HELD`, with what one read of the wire
brings on top; a link that has ended has ended all its channels, and says so by `lost`.
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
MOST_HELD: Final = 8 << 20  # bytes that wait on all channels: a peer may open many that nobody reads
_UNREAD: Final = 4 << 20  # bytes that wait for a peer; what writers send waits far below
_LOOK: Final = 5.0  # seconds between looks for a peer that may have left while we do not read


class MultiplexerLostError(ConnectionError):
    """The peer is gone, or takes no more on this channel."""


class ChannelOutcome(Enum):
    """How the peer's side of a channel ended."""

    FINISHED = "finished"
    RESET = "reset"
    LOST = "lost"


class Channel:
    """Bytes both ways, one of several on a link. One reader and one writer at a time."""

    def __init__(self, link: "Multiplexer", number: int, headers: Mapping[str, str] | None = None) -> None:
        self.number = number
        self.headers = headers or {}
        self.end: ChannelOutcome | None = None
        self.held = 0
        self._link = link
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._unwanted = False

    async def read(self) -> bytes:
        """The next bytes; empty when no more come, `end` says why."""
        while not self._inbox:
            if self.end is not None:
                return b""
            self._arrived.clear()
            await self._arrived.wait()
        data = self._inbox.popleft()
        self._let_go(len(data))
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes and wait until there is room for more. LinkLostError if they cannot arrive."""
        for at in range(0, len(data), PIECE):
            await self._link.write(self.number, data[at : at + PIECE])

    def finish(self) -> None:
        """We send no more."""
        self._link.finish(self.number)

    def reset(self) -> None:
        """End both ways; what comes after is dropped."""
        self.discard()
        self._link.reset(self.number)
        self.ended(ChannelOutcome.RESET)

    def discard(self) -> None:
        """Whatever comes here is dropped from now on."""
        self._unwanted = True
        self._inbox.clear()
        self._let_go(self.held)

    def arrived(self, data: bytes) -> None:
        """The link has bytes for this channel."""
        if self._unwanted:
            self._link.consumed(self.number, len(data))
            return
        self._inbox.append(data)
        self.held += len(data)
        self._link.held += len(data)
        self._arrived.set()

    def ended(self, end: ChannelOutcome) -> None:
        """No more comes. What was there before can still be read."""
        if self.end is None:
            self.end = end
        self._arrived.set()

    def _let_go(self, count: int) -> None:
        self.held -= count
        self._link.held -= count
        self._link.room.set()
        self._link.consumed(self.number, count)


class Multiplexer:
    """What both kinds share: the reading task, and the end."""

    def __init__(self, wire: ByteTransport) -> None:
        self.lost = asyncio.Event()
        self.reason = ""  # why it was lost, if anybody knows
        self.touched = asyncio.get_running_loop().time()  # when bytes last went either way
        self.held = 0  # on all channels, also on those that are over and still read
        self.room = asyncio.Event()  # set whenever there is less of it
        self._wire = wire
        self._tasks = TaskBag()
        self._channels: dict[int, Channel] = {}

    def start(self) -> None:
        """Begin to read."""
        self._tasks.spawn(self._read(), name="streaming link")

    async def close(self, linger: float = 0.0) -> None:
        """Say goodbye, give the peer so many seconds to read everything and to leave, and let go."""
        if not self.lost.is_set():
            for channel in self._channels.values():
                channel.discard()
            self._goodbye()
            if linger:
                await _within(self.lost, linger)
        await self._tasks.cancel()
        self._end()
        await self._wire.close()

    def abort(self) -> None:
        """Let go at once."""
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
        """Bytes of a channel are out of the way."""

    def _take(self, data: bytes) -> list[Channel]:
        """Bytes came; the channels that got some."""
        raise NotImplementedError

    def _goodbye(self) -> None:
        """Tell the peer that we end."""
        raise NotImplementedError

    def _closed(self) -> bool:
        """Whether the protocol says that nothing more comes."""
        raise NotImplementedError

    def _send(self, data: bytes) -> None:
        if data:
            self.touched = asyncio.get_running_loop().time()
            self._wire.send(data)

    async def _drain(self) -> None:
        try:
            await self._wire.drain()
        except OSError as error:
            raise MultiplexerLostError(str(error)) from None

    async def _read(self) -> None:
        try:
            while not self._closed() and (data := await self._wire.read()):
                self.touched = asyncio.get_running_loop().time()
                for channel in self._take(data):
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
            if not await _within(self.room, _LOOK) and self._wire.gone():
                raise ConnectionResetError("the peer left")

    def _end(self) -> None:
        self.lost.set()
        for channel in self._channels.values():
            channel.ended(ChannelOutcome.LOST)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def until_idle(link: Multiplexer, idle: float) -> None:
    """Return when the link is lost, or when nothing went over it for so many seconds."""
    loop = asyncio.get_running_loop()
    while (left := link.touched + idle - loop.time()) > 0:
        if await _within(link.lost, left):
            return
