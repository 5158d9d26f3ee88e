"""The frames of the test peer: written by hand once, so that the engine is not its own judge."""

import pytest

from tests.support.net import h2_peer
from tests.support.net.h2_peer import BadFramesError, Frame, read_frames


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (h2_peer.data(1, b"ab", end=True), "000002 00 01 00000001 6162"),
        (h2_peer.data(1, b"ab", pad=2), "000005 00 08 00000001 02 6162 0000"),
        (h2_peer.headers(3, b"\x82", end=True), "000001 01 05 00000003 82"),
        (h2_peer.headers(3, b"\x82", more=True, pad=1, depends_on=1), "000008 01 28 00000003 01 00000001 10 82 00"),
        (h2_peer.priority(5, 3), "000005 02 00 00000005 00000003 10"),
        (h2_peer.rst_stream(5), "000004 03 00 00000005 00000008"),
        (h2_peer.settings((4, 65535)), "000006 04 00 00000000 0004 0000ffff"),
        (h2_peer.settings_ack(), "000000 04 01 00000000"),
        (h2_peer.push_promise(1, 2, b"\x82"), "000005 05 04 00000001 00000002 82"),
        (h2_peer.ping(b"12345678", ack=True), "000008 06 01 00000000 3132333435363738"),
        (h2_peer.goaway(7, 11, b"x"), "000009 07 00 00000000 00000007 0000000b 78"),
        (h2_peer.window_update(0, 1), "000004 08 00 00000000 00000001"),
        (h2_peer.continuation(1, b"\x82"), "000001 09 04 00000001 82"),
        (h2_peer.continuation(1, b"", more=True), "000000 09 00 00000001"),
        (h2_peer.raw(0xFF, 0xFF, 2**32 - 1, b"x", length=5), "000005 ff ff ffffffff 78"),
    ],
)
def test_builders(wire: bytes, text: str) -> None:
    """Each frame, byte for byte."""
    assert wire == bytes.fromhex(text)


def test_reading() -> None:
    """Frames come back with their parts."""
    wire = (
        h2_peer.settings((1, 2), (3, 4)) + h2_peer.rst_stream(1, 5) + h2_peer.goaway(3, 9) + h2_peer.window_update(1, 8)
    )
    settings, reset, goaway, update = read_frames(wire)
    assert settings.settings == {1: 2, 3: 4}
    assert (reset.kind, reset.stream, reset.code) == ("RST_STREAM", 1, 5)
    assert (goaway.number, goaway.code) == (3, 9)
    assert update.number == 8
    assert read_frames(h2_peer.data(1, b"x", end=True)) == [Frame("DATA", 1, b"x", 1)]


@pytest.mark.parametrize(
    "wire",
    [b"\0", h2_peer.ping()[:-1], h2_peer.raw(10, 0, 0), h2_peer.data(1, bytes(16_385)), h2_peer.ping() + b"\0" * 8],
)
def test_the_reader_is_strict(wire: bytes) -> None:
    """Cut, unknown or oversized frames are never what the engine should have written."""
    with pytest.raises(BadFramesError, match="no frame"):
        read_frames(wire)
