"""The channels of a session over SPDY/3.1 and over WebSocket.

Over SPDY a channel is a stream. Over WebSocket it is the first byte of each message: the channels are known beforehand,
and what comes for others is dropped, as Go's servers do.

Invariant: SPDY header blocks are packed and sent in one go, so that the peer inflates them in the order they were made
in.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from interpose.net.spdy.connection import (
    DataReceived,
    SpdyConnection,
    SpdyFailed,
    SpdyLimits,
    StreamAccepted,
    StreamEnded,
    StreamOpened,
    StreamReset,
    WindowWidened,
)
from interpose.net.streaming.byte_transport import ByteTransport
from interpose.net.streaming.channels import ChannelData, Splitter, end_message, message
from interpose.net.streaming.mux import Channel, ChannelOutcome, Multiplexer, MultiplexerLostError
from interpose.net.websocket import MessagePiece, WebSocket, WebSocketClosed, WebSocketFailed


class SpdyMultiplexer(Multiplexer):
    """One SPDY connection. Streams of the peer wait in `accept`."""

    def __init__(self, wire: ByteTransport, *, client: bool, limits: SpdyLimits | None = None) -> None:
        super().__init__(wire)
        self._spdy = SpdyConnection(client=client, limits=limits)
        self._opened: deque[Channel] = deque()
        self._changed = asyncio.Event()  # replaced whenever it is set
        self._replied: set[int] = set()
        self._failed = False
        self._spdy.begin()
        self._flush()

    async def accept(self) -> Channel:
        """The next stream that the peer opened, for `reply` or `reset`. MultiplexerLostError when none can come."""
        while not self._opened:
            if self.lost.is_set():
                raise MultiplexerLostError(self.reason or "the connection was closed")
            await self._changed.wait()
        return self._opened.popleft()

    def reply(self, channel: Channel) -> None:
        """Accept a stream that the peer opened."""
        self._spdy.reply(channel.number)
        self._flush()

    async def open(self, headers: Mapping[str, str]) -> Channel:
        """A stream of ours that the peer has accepted. MultiplexerLostError if it does not."""
        if self.lost.is_set():
            raise MultiplexerLostError(self.reason or "the connection was closed")
        channel = Channel(self, self._spdy.open(headers), headers)
        self._channels[channel.number] = channel
        self._flush()
        try:
            while channel.number not in self._replied:
                if channel.end is not None:
                    raise MultiplexerLostError(self.reason or "the server refused the stream")
                await self._changed.wait()
        except BaseException:
            channel.reset()  # no task will read or end it
            raise
        finally:
            self._replied.discard(channel.number)
        return channel

    async def write(self, number: int, data: bytes) -> None:
        """Send bytes on a stream, as many at a time as the peer's window lets us."""
        while data:
            if self.lost.is_set() or not self._spdy.can_send(number):
                raise MultiplexerLostError(self.reason or "the stream was closed")
            room = self._spdy.room(number)
            if not room:
                await self._changed.wait()
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

    def _on_bytes(self, data: bytes) -> list[Channel]:
        filled: list[Channel] = []
        for event in self._spdy.receive(data):
            match event:
                case DataReceived(number, piece):
                    channel = self._channels[number]
                    channel.on_data(piece)
                    filled.append(channel)
                case StreamOpened(number, headers):
                    channel = self._channels[number] = Channel(self, number, headers)
                    self._opened.append(channel)
                case StreamAccepted(number):
                    self._replied.add(number)  # `open` waits for it
                case StreamEnded(number):
                    self._ended(number, ChannelOutcome.FINISHED)
                case StreamReset(number):
                    self._ended(number, ChannelOutcome.RESET)
                case SpdyFailed(reason):
                    self.reason = reason
                    self._failed = True
                case WindowWidened():
                    pass
                case _:
                    continue
            self._notify()
        self._flush()
        return filled

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _ended(self, number: int, end: ChannelOutcome) -> None:
        """The peer's side is over. A reset that came together with an end finds the channel forgotten."""
        if (channel := self._channels.get(number)) is not None:
            channel.on_end(end)
            self._forget(number)

    def _forget(self, number: int) -> None:
        """A stream that is over both ways is not ours to end any more; who holds its channel reads on."""
        if not self._spdy.is_open(number):
            self._channels.pop(number, None)

    def _end(self) -> None:
        super()._end()
        self._notify()

    def _send_close(self) -> None:
        self._spdy.go_away()
        self._flush()
        self._wire.send_close()

    def _closed(self) -> bool:
        return self._failed

    def _flush(self) -> None:
        self._send(self._spdy.take())


class WebSocketMultiplexer(Multiplexer):
    """One WebSocket. `closes`: channels can be ended one by one (v5)."""

    def __init__(
        self, wire: ByteTransport, numbers: Iterable[int], *, client: bool, closes: bool, random: Callable[[int], bytes]
    ) -> None:
        super().__init__(wire)
        self._websocket = WebSocket(client=client, random=random)
        self._splitter = Splitter(closes=closes)
        self._closes = closes
        self._client = client
        self._ended_by_peer = False
        self._channels = {number: Channel(self, number) for number in numbers}

    def channel(self, number: int) -> Channel:
        """The channel of that number."""
        return self._channels[number]

    async def write(self, number: int, data: bytes) -> None:
        """Send bytes as a message."""
        if self.lost.is_set() or self._ended_by_peer:
            raise MultiplexerLostError(self.reason or "the connection was closed")
        self._websocket.message(message(number, data))
        self._flush()
        await self._drain()

    def announce(self, number: int) -> None:
        """An empty message on a channel: servers show with it that they are ready."""
        self._websocket.message(message(number, b""))
        self._flush()

    def finish(self, number: int) -> None:
        """Send no more on a channel; only v5 has a message for that, and only clients send it."""
        if self._closes and self._client:
            self._websocket.message(end_message(number))
            self._flush()

    def reset(self, number: int) -> None:
        """Nothing: the protocol cannot end a single channel."""

    def _on_bytes(self, data: bytes) -> list[Channel]:
        filled: list[Channel] = []
        for event in self._websocket.receive(data):
            match event:
                case MessagePiece():
                    filled += self._dispatch(event)
                case WebSocketClosed(code, reason):
                    self._ended_by_peer = True
                    self.reason = reason or f"the connection was closed with code {code}"
                case WebSocketFailed(reason):
                    self._ended_by_peer = True
                    self.reason = reason
                case _:
                    pass
        self._flush()
        return filled

    def _dispatch(self, piece: MessagePiece) -> Iterable[Channel]:
        for event in self._splitter.feed(piece):
            channel = self._channels.get(event.channel)
            if channel is None:
                continue
            if isinstance(event, ChannelData):
                channel.on_data(event.data)
                yield channel
            else:
                channel.on_end(ChannelOutcome.FINISHED)

    def _send_close(self) -> None:
        self._websocket.close()
        self._flush()

    def _closed(self) -> bool:
        return self._ended_by_peer

    def _flush(self) -> None:
        self._send(self._websocket.take())
