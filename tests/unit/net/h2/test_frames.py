"""The bytes of the frames we send, read by somebody else's reader."""

from typing import Any

import pytest

from interpose.net.h2 import frames
from tests.support.net.h2_peer import NAMES, Frame, read_frames


def test_numbers() -> None:
    """Types by number, as RFC 9113 section 6 has them."""
    assert [getattr(frames, name) for name in NAMES] == list(range(10))


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (frames.settings({1: 2, 6: 2**32 - 1}), Frame("SETTINGS", 0, bytes.fromhex("000100000002 0006ffffffff"))),
        (frames.SETTINGS_ACK, Frame("SETTINGS", 0, b"", 1)),
        (frames.window_update(7, 2**31 - 1), Frame("WINDOW_UPDATE", 7, b"\x7f\xff\xff\xff")),
        (frames.rst_stream(2**31 - 1, 8), Frame("RST_STREAM", 2**31 - 1, b"\0\0\0\x08")),
        (frames.ping(b"12345678", ack=False), Frame("PING", 0, b"12345678")),
        (frames.ping(b"12345678", ack=True), Frame("PING", 0, b"12345678", 1)),
        (frames.goaway(5, 11, b"calm"), Frame("GOAWAY", 0, b"\0\0\0\x05\0\0\0\x0bcalm")),
    ],
)
def test_control_frames(wire: bytes, expected: Frame) -> None:
    """Each is one frame with the right type, flags, stream and payload."""
    assert read_frames(wire) == [expected]


@pytest.mark.parametrize(("size", "pieces"), [(0, 1), (10, 1), (11, 2), (20, 2), (21, 3), (35, 4)])
@pytest.mark.parametrize("end", [False, True])
def test_header_blocks(size: int, pieces: int, end: bool) -> None:
    """A block larger than a frame goes on in CONTINUATION; END_STREAM is on the first, END_HEADERS on the last."""
    block = bytes(range(size))
    found = read_frames(frames.headers(3, block, end, 10))
    assert b"".join(frame.payload for frame in found) == block
    assert [frame.kind for frame in found] == ["HEADERS"] + ["CONTINUATION"] * (pieces - 1)
    assert [frame.flags & 0x4 for frame in found] == [0] * (pieces - 1) + [0x4]
    assert [frame.flags & 0x1 for frame in found] == [int(end)] + [0] * (pieces - 1)
    assert {frame.stream for frame in found} == {3}


def test_read_settings() -> None:
    """Pairs in order, repeated keys included."""
    payload = bytes.fromhex("000400000001 000400000002")
    assert frames.read_settings(payload) == [(4, 1), (4, 2)]


@pytest.mark.parametrize(("unpack", "pack"), [(frames.unpack_short, frames.pack_short), frames.ARITHMETIC])
@pytest.mark.parametrize(
    "head", [(0, 0, 0, 0), (0, 16_384, 0x105, 2**31 - 1), (255, 2**16 - 1, 2**16 - 1, 2**32 - 1), (0, 1, 2, 3)]
)
def test_short_heads(unpack: Any, pack: Any, head: tuple[int, int, int, int]) -> None:
    """Both builds' ways read and write the same nine bytes."""
    wire = frames.SHORT_HEAD.pack(*head)
    assert pack(*head) == wire
    assert unpack(b"xyz" + wire + b"z", 3) == head
