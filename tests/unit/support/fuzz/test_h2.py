"""The promises for any bytes: they hold for good input, and a broken engine does break them."""

import pytest

from interpose.net.h2.connection import Connection
from interpose.net.h2.headers import Headers
from interpose.net.h2.hpack import HpackDecoder
from interpose.net.h2.server import ServerConnection
from tests.support.fuzz import h2 as h2fuzz
from tests.support.net import h2_peer
from tests.support.net.h2_bench import REQUEST, RESPONSE
from tests.support.net.hpack import Encoder

HELLO = h2_peer.PREFACE + h2_peer.settings()
CALL = h2_peer.headers(1, Encoder().block(REQUEST), end=True)


def test_good_input() -> None:
    """A call is answered; a client's calls get their answers; a block decodes."""
    events, code, out = h2fuzz.run_server([HELLO + CALL])
    assert (events, code) == ([("request", 1, REQUEST, True)], None)
    assert "DATA" in {frame.kind for frame in h2_peer.read_frames(out)}
    wire = h2_peer.settings() + h2_peer.headers(1, Encoder().block(RESPONSE), end=True)
    assert h2fuzz.run_client([wire])[0][-1] == ("headers", 1, RESPONSE, True)
    h2fuzz.check_server(HELLO + CALL)
    h2fuzz.check_client(wire)
    h2fuzz.check_hpack(b"\x01\x82\x03\x40\x01a" + b"\x01\xbe")


def test_pieces_are_the_whole() -> None:
    """Nothing is lost by cutting."""
    data = bytes(range(256)) * 3
    pieces = h2fuzz.cut(data)
    assert b"".join(pieces) == data
    assert len({len(piece) for piece in pieces}) > 5
    assert h2fuzz.cut(b"") == []


def test_escaping_exception_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever leaves `receive` leaves the check as well."""

    def broken(self: Connection, number: int, headers: Headers, end: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(ServerConnection, "on_new_headers", broken)
    with pytest.raises(KeyError):
        h2fuzz.check_server(HELLO + CALL)


def test_difference_by_pieces_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that forgets half a frame."""
    receive = ServerConnection.receive

    def forgetful(self: ServerConnection, data: bytes) -> None:
        receive(self, data if len(data) > 30 else data[:-1])

    monkeypatch.setattr(ServerConnection, "receive", forgetful)
    with pytest.raises(AssertionError):
        h2fuzz.check_server(HELLO + CALL)


def test_wrong_header_list_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that does not forget blocks when its table changes."""
    decode = HpackDecoder._decode

    def stale(self: HpackDecoder, block: bytes) -> Headers:
        kept = dict(self.memo)
        headers = decode(self, block)
        self.memo.update(kept)
        return headers

    monkeypatch.setattr(HpackDecoder, "_decode", stale)
    insert = [b"\x40\x01a\x01" + value for value in (b"1", b"2")]
    blocks = [insert[0], b"\xbe", insert[1], b"\xbe"]
    with pytest.raises(AssertionError):
        h2fuzz.check_hpack(b"".join(bytes((len(block),)) + block for block in blocks))
