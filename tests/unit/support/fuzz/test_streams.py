"""The promises that the streaming fuzzer checks: they hold for right bytes, and are noticed when they do not."""

import pytest

from interpose.net import websocket
from interpose.net.spdy import connection as spdy
from interpose.net.spdy.frames import Data, Ping, encode
from interpose.net.streaming.terminal_size import SizeReader, encode_size
from tests.support.fuzz.streams import BrokenPromise, check_documents, check_spdy, check_websocket


def test_right_bytes_keep_all_promises() -> None:
    """And what they mean is given back."""
    client = spdy.SpdyConnection(client=True)
    client.send(client.open({"streamType": "stdin"}), b"typed")
    events, _ = check_spdy(b"\x00" + client.take())
    assert [type(event) for event in events] == [spdy.StreamOpened, spdy.DataReceived]
    socket = websocket.WebSocket(client=True, random=bytes)
    socket.message(b"\x01out")
    assert check_websocket(b"\x00" + socket.take())[0] == [(1, b"out")]
    assert check_documents(encode_size(80, 24))[0] == [(80, 24)]
    assert check_spdy(b"\x01" + encode(Data(1, b"x")))[0] == [spdy.DataReceived(1, b"x")]


def test_rubbish_keeps_them_too() -> None:
    """It is a failure, and the last thing that is told."""
    assert isinstance(check_spdy(b"\x00" + b"\xff" * 50)[0][-1], spdy.SpdyFailed)
    assert isinstance(check_websocket(b"\x01" + b"\xff" * 50)[0][-1], websocket.WebSocketFailed)


def test_a_reader_for_which_cuts_matter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that forgets what it held."""
    monkeypatch.setattr(SizeReader, "feed", lambda _self, data: [len(data)])
    with pytest.raises(BrokenPromise, match="cut every 1 bytes"):
        check_documents(b"abc")


def test_a_connection_that_talks_too_much_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a small multiple of what came."""
    monkeypatch.setattr(spdy.SpdyConnection, "take", lambda _self: bytes(10_000))
    with pytest.raises(BrokenPromise, match="bytes were said"):
        check_spdy(b"\x00" + encode(Ping(1)))
