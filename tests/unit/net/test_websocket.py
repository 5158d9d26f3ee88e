"""A WebSocket without a socket: both ends, in pieces, and what is refused."""

import pytest

from interpose.net.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    NO_STATUS,
    NORMAL,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    MessagePiece,
    PongReceived,
    WebSocket,
    WebSocketClosed,
    WebSocketFailed,
    apply_mask,
)

MASK = b"\x01\x02\x03\x04"


def client() -> WebSocket:
    return WebSocket(client=True, random=lambda size: MASK[:size])


def server() -> WebSocket:
    return WebSocket(client=False, random=lambda size: MASK[:size])


def frame(opcode: int, payload: bytes = b"", *, final: bool = True) -> bytes:
    """From a server, short."""
    return bytes(((0x80 if final else 0) | opcode, len(payload))) + payload


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 100_000])
def test_messages_of_all_sizes_arrive(size: int) -> None:
    """Both ways; each size has its form of head."""
    data = bytes(number % 251 for number in range(size))
    for sender, receiver in ((client(), server()), (server(), client())):
        sender.message(data)
        assert receiver.receive(sender.take()) == [MessagePiece(data, True, True)]


def test_the_bytes_are_those_of_the_rfc() -> None:
    """The example of RFC 6455, 5.7: "Hello" from a client, as text there."""
    socket = WebSocket(client=True, random=lambda _: bytes.fromhex("37fa213d"))
    socket.message(b"Hello")
    assert socket.take() == bytes.fromhex("828537fa213d7f9f4d5158")


def test_masks_go_on_where_a_piece_was_cut() -> None:
    """The mask goes on with its next byte, wherever a piece was cut."""
    data = bytes(range(50))
    whole = apply_mask(data, MASK)
    for cut in range(50):
        assert apply_mask(whole[:cut], MASK) + apply_mask(whole[cut:], MASK, cut) == data


def test_a_message_comes_in_pieces_as_its_bytes_do() -> None:
    """The first and the last are marked; nothing is held."""
    sender, receiver = client(), server()
    sender.message(b"hello")
    data = sender.take()
    assert receiver.receive(data[:8]) == [MessagePiece(b"he", True, False)]
    assert receiver.held == 0
    assert receiver.receive(data[8:]) == [MessagePiece(b"llo", False, True)]


def test_fragments_are_one_message() -> None:
    """Control frames may stand between them; text is bytes."""
    data = frame(TEXT, b"a", final=False) + frame(PONG, b"x") + frame(CONTINUATION, b"", final=False)
    data += frame(CONTINUATION, b"b")
    assert client().receive(data) == [
        MessagePiece(b"a", True, False),
        PongReceived(b"x"),
        MessagePiece(b"", False, False),
        MessagePiece(b"b", False, True),
    ]


def test_pings_are_answered() -> None:
    """With what was in them; one that is empty too."""
    socket = client()
    assert socket.receive(frame(PING, b"abc") + frame(PING)) == []
    assert server().receive(socket.take()) == [PongReceived(b"abc"), PongReceived(b"")]


def test_a_ping_may_come_in_pieces() -> None:
    """It is answered when it is whole."""
    socket = client()
    whole = frame(PING, b"abc")
    for at in range(len(whole)):
        assert socket.take() == b""
        assert socket.receive(whole[at : at + 1]) == []
    assert server().receive(socket.take()) == [PongReceived(b"abc")]


def test_our_own_pings_come_back() -> None:
    """From whoever is there."""
    one, other = client(), server()
    one.ping(b"here?")
    other.receive(one.take())
    assert one.receive(other.take()) == [PongReceived(b"here?")]


def test_a_close_is_answered_and_ends_everything() -> None:
    """What comes after it is not heard, what we say after it is not sent."""
    one, other = client(), server()
    one.close(1001, "leaving")
    one.close()
    one.message(b"too late")
    one.ping()
    assert other.receive(one.take() + b"rubbish") == [WebSocketClosed(1001, "leaving")]
    other.message(b"too late")
    assert one.receive(other.take()) == [WebSocketClosed(1001, "")]
    assert one.receive(frame(BINARY, b"x")) == []
    assert one.take() == b""


def test_a_ping_after_our_close_is_not_answered() -> None:
    """Nothing is sent after a close."""
    socket = client()
    socket.close()
    socket.take()
    assert socket.receive(frame(PING, b"x")) == []
    assert socket.take() == b""


def test_a_close_without_a_code_is_answered_with_the_usual_one() -> None:
    """The peer gave no reason."""
    socket = client()
    assert socket.receive(frame(CLOSE)) == [WebSocketClosed(NO_STATUS, "")]
    assert server().receive(socket.take()) == [WebSocketClosed(NORMAL, "")]


def test_long_reasons_are_cut_between_letters() -> None:
    """A control frame has 125 bytes."""
    one, other = server(), client()
    one.close(NORMAL, "ä" * 100)
    assert other.receive(one.take()) == [WebSocketClosed(NORMAL, "ä" * 61)]


BROKEN = {
    "bits nobody agreed on": bytes((0x80 | 0x40 | BINARY, 0)),
    "an unknown opcode": bytes((0x83, 0)),
    "a ping in fragments": frame(PING, b"", final=False),
    "a ping that is too long": bytes((0x80 | PING, 126)),
    "a mask from a server": bytes((0x80 | BINARY, 0x81)),
    "a fragment of nothing": frame(CONTINUATION, b"x"),
    "a message within a message": frame(BINARY, b"a", final=False) + frame(BINARY, b"b"),
    "a length beyond everything": bytes((0x80 | BINARY, 127)) + b"\xff" * 8,
    "half a code": frame(CLOSE, b"\x03"),
    "a code that is none": frame(CLOSE, (999).to_bytes(2, "big")),
    "a code that is never sent": frame(CLOSE, NO_STATUS.to_bytes(2, "big")),
    "a code for later": frame(CLOSE, (2000).to_bytes(2, "big")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_refused(name: str) -> None:
    """The peer is told by a close, and nothing is heard any more."""
    socket = client()
    events = socket.receive(BROKEN[name])
    assert isinstance(events[-1], WebSocketFailed)
    closed = server().receive(socket.take())[-1]
    assert isinstance(closed, WebSocketClosed)
    assert closed.code == PROTOCOL_ERROR
    assert socket.receive(frame(BINARY, b"x")) == []


def test_a_client_that_does_not_mask_is_refused() -> None:
    """Frames of clients have to be masked (RFC 6455, 5.1)."""
    assert server().receive(frame(BINARY, b"x")) == [WebSocketFailed("a client did not mask its frame")]


@pytest.mark.parametrize("code", [1000, 1003, 1007, 1014, 3000, 4999])
def test_codes_that_may_be_sent_are_taken(code: int) -> None:
    """The registered ones and those for everybody."""
    assert client().receive(frame(CLOSE, code.to_bytes(2, "big") + b"why")) == [WebSocketClosed(code, "why")]
