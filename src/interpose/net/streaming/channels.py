"""Several channels over one WebSocket, as Kubernetes does it: the first byte of a message says to which it belongs.

Commands have the channels below. v5 adds a way to say that a channel ends: byte 255, then the channel; without it, in
v4 and before, stdin cannot end. Forwarded ports have two channels each, data (both ways) and errors, the first message
of which is the port.

Invariant: pieces of a message go to its channel as they come, however the bytes were cut.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from interpose.net.websocket import MessagePiece

STDIN, STDOUT, STDERR, ERROR, RESIZE = 0, 1, 2, 3, 4
CLOSE: Final = 255
MOST_PORTS: Final = CLOSE // 2  # with two channels each

V1: Final = "channel.k8s.io"
V2: Final = "v2.channel.k8s.io"
V3: Final = "v3.channel.k8s.io"
V4: Final = "v4.channel.k8s.io"
V5: Final = "v5.channel.k8s.io"
PORT_FORWARD: Final = "portforward.k8s.io"
TUNNEL: Final = "SPDY/3.1+portforward.k8s.io"  # SPDY, whose bytes are the messages


class ChannelData(NamedTuple):
    """Bytes that arrived for a channel."""

    channel: int
    data: bytes


class ChannelEnd(NamedTuple):
    """The peer sends no more on this channel."""

    channel: int


class Splitter:
    """Sorts the pieces of messages by their channels."""

    def __init__(self, *, closes: bool) -> None:
        self._has_close_channel = closes  # v5
        self._channel: int | None = None

    def feed(self, piece: MessagePiece) -> Iterator[ChannelData | ChannelEnd]:
        """The channel events of a piece of a message. Empty messages give none."""
        data = piece.data
        if piece.first:
            self._channel = None
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        if data and self._channel is not None:
            if self._has_close_channel and self._channel == CLOSE:
                yield ChannelEnd(data[0])
                self._channel = -1  # the rest of the message has no meaning
            elif self._channel >= 0:
                yield ChannelData(self._channel, data)


def message(channel: int, data: bytes) -> bytes:
    """A message for a channel."""
    return bytes((channel,)) + data


def end_message(channel: int) -> bytes:
    """The message that ends a channel, in v5."""
    return bytes((CLOSE, channel))


def port_bytes(port: int) -> bytes:
    """How a forwarded port begins its channels."""
    return port.to_bytes(2, "little")
