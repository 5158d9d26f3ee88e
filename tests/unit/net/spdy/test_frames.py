"""Frames of SPDY: what is written is read again, what is broken is refused."""

import struct

import pytest

from interpose.net.spdy.frames import (
    Data,
    Frame,
    FrameReader,
    GoAway,
    Ping,
    RstStream,
    Settings,
    SpdyError,
    SpdyHeaders,
    SynReply,
    SynStream,
    WindowUpdate,
    encode,
)

FRAMES: list[Frame] = [
    SynStream(1, b"block", True),
    SynStream(3, b""),
    SynReply(1, b"block"),
    RstStream(5, 3),
    Settings(((7, 65536), (4, 100))),
    Settings(()),
    Ping(9),
    GoAway(7, 1),
    SpdyHeaders(1, b"more", True),
    WindowUpdate(1, 4096),
    Data(1, b"hello"),
    Data(1, b"bye", True),
    Data(1, b"", True),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_what_is_written_is_read_again(frame: Frame) -> None:
    """Each kind of frame, with and without its end."""
    assert list(FrameReader().feed(encode(frame))) == [frame]


def test_the_bytes_are_those_of_the_protocol() -> None:
    """One control frame and one data frame, written out by hand."""
    assert encode(Ping(1)) == bytes.fromhex("80030006 00000004 00000001".replace(" ", ""))
    assert encode(Data(3, b"ab", True)) == bytes.fromhex("00000003 01000002 6162".replace(" ", ""))


def test_data_goes_out_as_it_comes() -> None:
    """A long frame is not collected; the end is told with its last bytes."""
    reader = FrameReader()
    whole = encode(Data(1, b"abcdef", True))
    assert list(reader.feed(whole[:10])) == [Data(1, b"ab")]
    assert reader.held == 0
    assert list(reader.feed(whole[10:])) == [Data(1, b"cdef", True)]


def test_control_frames_are_held_until_they_are_whole() -> None:
    """Byte by byte gives the same, once."""
    reader = FrameReader()
    whole = encode(SynReply(1, b"block"))
    assert [list(reader.feed(whole[at : at + 1])) for at in range(len(whole))][:-1] == [[]] * (len(whole) - 1)
    assert reader.held == 0


def test_control_frames_of_unknown_kinds_are_skipped() -> None:
    """However long they are; the next one is read."""
    unknown = struct.pack(">HHI", 0x8003, 77, 100_000) + bytes(100_000)
    reader = FrameReader()
    data = unknown + encode(Ping(1))
    assert [frame for at in range(0, len(data), 999) for frame in reader.feed(data[at : at + 999])] == [Ping(1)]


BROKEN = {
    "another version": struct.pack(">HHI", 0x8002, 1, 10),
    "a ping of five bytes": struct.pack(">HHI", 0x8003, 6, 5),
    "a reset that is too short": struct.pack(">HHI", 0x8003, 3, 4),
    "an opening that is too short": struct.pack(">HHI", 0x8003, 1, 9),
    "an opening that is too long": struct.pack(">HHI", 0x8003, 1, 1 << 20),
    "settings that are fewer than they say": struct.pack(">HHII", 0x8003, 4, 4, 1000),
    "noise": b"\xff" * 8,
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_refused(name: str) -> None:
    """As soon as it is known, without waiting for the rest."""
    with pytest.raises(SpdyError):
        list(FrameReader(1 << 16).feed(BROKEN[name]))


def test_frames_before_a_broken_one_are_given_out() -> None:
    """Frames before a broken one are right and are passed on."""
    frames = FrameReader().feed(encode(Ping(1)) + BROKEN["another version"])
    assert next(frames) == Ping(1)
    with pytest.raises(SpdyError):
        next(frames)
