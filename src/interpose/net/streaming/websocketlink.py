"""Channels as first bytes of WebSocket messages.

The channels are known beforehand; what comes for others is dropped, as Go's servers do.
"""

from collections.abc import Callable, Iterable

from interpose.net.streaming.byte_transport import Wire
from interpose.net.streaming.channels import ChannelData, Splitter, end_message, message
from interpose.net.streaming.mux import Channel, End, Link, LinkLostError
from interpose.net.websocket import Closed, Failed, Piece, WebSocket


class WebSocketLink(Link):
    """One WebSocket. `closes`: channels can be ended one by one (v5)."""

    def __init__(
        self, wire: Wire, numbers: Iterable[int], *, client: bool, closes: bool, random: Callable[[int], bytes]
    ) -> None:
        super().__init__(wire)
        self._websocket = WebSocket(client=client, random=random)
        self._splitter = Splitter(closes=closes)
        self._closes = closes
        self._client = client
        self._over = False
        self._channels = {number: Channel(self, number) for number in numbers}

    def channel(self, number: int) -> Channel:
        """The channel of that number."""
        return self._channels[number]

    async def write(self, number: int, data: bytes) -> None:
        """Send bytes as a message."""
        if self.lost.is_set() or self._over:
            raise LinkLostError(self.reason or "the connection was closed")
        self._websocket.message(message(number, data))
        self._flush()
        await self._drain()

    def announce(self, number: int) -> None:
        """An empty message on a channel: how servers say that they are ready."""
        self._websocket.message(message(number, b""))
        self._flush()

    def finish(self, number: int) -> None:
        """Send no more on a channel; only v5 has a word for that, and only clients use it."""
        if self._closes and self._client:
            self._websocket.message(end_message(number))
            self._flush()

    def reset(self, number: int) -> None:
        """There is no word for that."""

    def _take(self, data: bytes) -> list[Channel]:
        filled: list[Channel] = []
        for event in self._websocket.receive(data):
            match event:
                case Piece():
                    filled += self._sort(event)
                case Closed(code, reason):
                    self._over = True
                    self.reason = reason or f"the connection was closed with code {code}"
                case Failed(reason):
                    self._over = True
                    self.reason = reason
                case _:
                    pass
        self._flush()
        return filled

    def _sort(self, piece: Piece) -> Iterable[Channel]:
        for one in self._splitter.feed(piece):
            channel = self._channels.get(one.channel)
            if channel is None:
                continue
            if isinstance(one, ChannelData):
                channel.arrived(one.data)
                yield channel
            else:
                channel.ended(End.FINISHED)

    def _goodbye(self) -> None:
        self._websocket.close()
        self._flush()

    def _closed(self) -> bool:
        return self._over

    def _flush(self) -> None:
        self._send(self._websocket.take())
