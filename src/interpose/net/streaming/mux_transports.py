"""Channels as streams of SPDY/3.1, over any wire.

Invariant: header blocks are packed and sent in one go, so that the peer inflates them in the order they were made in.
"""

import asyncio
from collections import deque
from collections.abc import Mapping

from interpose.net.spdy.connection import (
    Connection,
    Ended,
    Failed,
    Opened,
    Received,
    Replied,
    SpdyLimits,
    WasReset,
    Widened,
)
from interpose.net.streaming.byte_transport import Wire
from interpose.net.streaming.mux import Channel, End, Link, LinkLostError


class SpdyLink(Link):
    """One SPDY connection. Streams of the peer wait in `accept`."""

    def __init__(self, wire: Wire, *, client: bool, limits: SpdyLimits | None = None) -> None:
        super().__init__(wire)
        self._spdy = Connection(client=client, limits=limits)
        self._opened: deque[Channel] = deque()
        self._news = asyncio.Event()  # replaced whenever it is set
        self._replied: set[int] = set()
        self._failed = False
        self._spdy.begin()
        self._flush()

    async def accept(self) -> Channel:
        """The next stream that the peer opened; say `reply` or `reset`. LinkLostError when none can come."""
        while not self._opened:
            if self.lost.is_set():
                raise LinkLostError(self.reason or "the connection was closed")
            await self._news.wait()
        return self._opened.popleft()

    def reply(self, channel: Channel) -> None:
        """Accept a stream."""
        self._spdy.reply(channel.number)
        self._flush()

    async def open(self, headers: Mapping[str, str]) -> Channel:
        """A stream of ours that the peer has accepted. LinkLostError if it does not."""
        if self.lost.is_set():
            raise LinkLostError(self.reason or "the connection was closed")
        channel = Channel(self, self._spdy.open(headers), headers)
        self._channels[channel.number] = channel
        self._flush()
        try:
            while channel.number not in self._replied:
                if channel.end is not None:
                    raise LinkLostError(self.reason or "the server refused the stream")
                await self._news.wait()
        except BaseException:
            channel.reset()  # nobody will read or end it
            raise
        finally:
            self._replied.discard(channel.number)
        return channel

    async def write(self, number: int, data: bytes) -> None:
        """Send bytes on a stream, as many at a time as the peer's window lets us."""
        while data:
            if self.lost.is_set() or not self._spdy.can_send(number):
                raise LinkLostError(self.reason or "the stream was closed")
            room = self._spdy.room(number)
            if not room:
                await self._news.wait()
                continue
            self._spdy.send(number, data[:room])
            data = data[room:]
            self._flush()
            await self._drain()

    def finish(self, number: int) -> None:
        """Send no more on a stream."""
        self._spdy.finish(number)
        self._flush()
        self._forget(number)

    def reset(self, number: int) -> None:
        """End a stream both ways."""
        self._spdy.reset(number)
        self._flush()
        self._forget(number)

    def consumed(self, number: int, count: int) -> None:
        """The peer may send more on a stream."""
        if not self.lost.is_set():
            self._spdy.consumed(number, count)
            self._flush()

    def _take(self, data: bytes) -> list[Channel]:
        filled: list[Channel] = []
        for event in self._spdy.receive(data):
            match event:
                case Received(number, piece):
                    channel = self._channels[number]
                    channel.arrived(piece)
                    filled.append(channel)
                case Opened(number, headers):
                    channel = self._channels[number] = Channel(self, number, headers)
                    self._opened.append(channel)
                case Replied(number):
                    self._replied.add(number)  # whoever has opened it waits
                case Ended(number):
                    self._ended(number, End.FINISHED)
                case WasReset(number):
                    self._ended(number, End.RESET)
                case Failed(reason):
                    self.reason = reason
                    self._failed = True
                case Widened():
                    pass
                case _:
                    continue
            self._tell()
        self._flush()
        return filled

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _ended(self, number: int, end: End) -> None:
        """The peer's side is over. A reset that came together with an end finds the channel forgotten."""
        if (channel := self._channels.get(number)) is not None:
            channel.ended(end)
            self._forget(number)

    def _forget(self, number: int) -> None:
        """A stream that is over both ways is not ours to end any more; who holds its channel reads on."""
        if not self._spdy.is_open(number):
            self._channels.pop(number, None)

    def _end(self) -> None:
        super()._end()
        self._tell()

    def _goodbye(self) -> None:
        self._spdy.go_away()
        self._flush()
        self._wire.farewell()

    def _closed(self) -> bool:
        return self._failed

    def _flush(self) -> None:
        self._send(self._spdy.take())
