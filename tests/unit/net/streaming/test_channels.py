"""Channels over a WebSocket: the first byte of a message says to which it belongs."""

from interpose.net.streaming.channels import (
    STDIN,
    STDOUT,
    ChannelData,
    ChannelEnd,
    Splitter,
    end_message,
    message,
    port_bytes,
)
from interpose.net.websocket import MessagePiece


def sorted_out(*pieces: MessagePiece, closes: bool = True) -> list[ChannelData | ChannelEnd]:
    splitter = Splitter(closes=closes)
    return [event for piece in pieces for event in splitter.feed(piece)]


def whole(data: bytes) -> MessagePiece:
    return MessagePiece(data, True, True)


def test_messages_go_to_their_channels() -> None:
    """Without the byte that says to which."""
    assert sorted_out(whole(message(STDOUT, b"out")), whole(message(STDIN, b"in"))) == [
        ChannelData(STDOUT, b"out"),
        ChannelData(STDIN, b"in"),
    ]


def test_pieces_follow_the_first_of_their_message() -> None:
    """Also if the first byte came alone, or nothing came with the head."""
    pieces = (
        MessagePiece(b"", True, False),
        MessagePiece(b"\x01", False, False),
        MessagePiece(b"a", False, False),
        MessagePiece(b"b", False, True),
    )
    assert sorted_out(*pieces) == [ChannelData(1, b"a"), ChannelData(1, b"b")]


def test_empty_messages_mean_nothing() -> None:
    """Servers send them to say that they are ready."""
    assert sorted_out(whole(b""), whole(b"\x01")) == []


def test_a_channel_is_ended_by_its_number() -> None:
    """What else the message has means nothing."""
    assert sorted_out(whole(end_message(STDIN)), whole(b"\xff\x00\x01\x02")) == [ChannelEnd(STDIN)] * 2
    pieces = (
        MessagePiece(b"\xff", True, False),
        MessagePiece(b"\x00", False, False),
        MessagePiece(b"\x01", False, True),
    )
    assert sorted_out(*pieces) == [ChannelEnd(STDIN)]


def test_before_v5_no_channel_ends() -> None:
    """255 is one like others then, and nobody listens to it."""
    assert sorted_out(whole(end_message(STDIN)), closes=False) == [ChannelData(255, b"\x00")]


def test_ports_are_written_with_their_low_byte_first() -> None:
    """As Go's servers write them."""
    assert port_bytes(8080) == b"\x90\x1f"
