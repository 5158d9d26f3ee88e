"""Frames from bytes in pieces, also from damaged ones."""

import zlib

import pytest

from interpose.dump.model import frame_reader as module
from interpose.dump.model.frame_reader import TRUNCATED, Damage, FrameStream
from interpose.dump.model.frames import (
    HEAD,
    MARK,
    Begin,
    Dropped,
    End,
    Frame,
    FrameKind,
    Message,
    MessageSide,
    Trailer,
    encode,
    encode_frame,
)
from tests.support.builds import patches_constants

FRAMES: list[Frame] = [
    Begin(number=1, time=1, path="/a/B"),
    Message(number=1, at=1, side=MessageSide.REQUEST, size=6, body=MARK * 3),
    Message(number=1, at=2, side=MessageSide.REPLY, size=0, body=b""),
    End(number=1, elapsed=3, code=0),
    Dropped(frames=1, size=1, time=1),
]
DATA = b"".join(map(encode, FRAMES))
BEGINS = [sum(len(encode(one)) for one in FRAMES[:index]) for index in range(len(FRAMES) + 1)]


def read(data: bytes, piece: int = 1 << 20) -> tuple[list[Frame], FrameStream]:
    """All frames, fed in pieces."""
    stream = FrameStream()
    frames = [one for at in range(0, len(data), piece) for one in stream.feed(data[at : at + piece])]
    return frames + stream.finish(), stream


@pytest.mark.parametrize("piece", [1, 2, 7, 12, 13, 1000])
def test_pieces_make_no_difference(piece: int) -> None:
    """Whole frames come out whatever the pieces are."""
    frames, stream = read(DATA, piece)
    assert frames == FRAMES
    assert stream.damage == []
    assert (stream.offset, stream.held) == (len(DATA), 0)


def test_places_are_told() -> None:
    """From where the stream begins."""
    stream = FrameStream(at=1000)
    placed = stream.feed_placed(DATA)
    assert [one.begin - 1000 for one in placed] == BEGINS[:-1]
    assert [one.end - 1000 for one in placed] == BEGINS[1:]


@pytest.mark.parametrize("cut", range(len(DATA)))
def test_every_truncation_gives_what_is_whole(cut: int) -> None:
    """And says where the rest begins, unless the cut is between two frames."""
    frames, stream = read(DATA[:cut])
    whole = max(index for index, begin in enumerate(BEGINS) if begin <= cut)
    assert frames == FRAMES[:whole]
    rest = cut - BEGINS[whole]
    assert stream.damage == ([Damage(offset=BEGINS[whole], size=rest, why=TRUNCATED)] if rest else [])


@pytest.mark.parametrize("at", range(len(DATA)))
@pytest.mark.parametrize("piece", [5, 1000])
def test_every_flipped_byte_loses_its_frame_only(at: int, piece: int) -> None:
    """The others are found again; the damage is where the frame was."""
    broken = bytearray(DATA)
    broken[at] ^= 0xFF
    frames, stream = read(bytes(broken), piece)
    hit = max(index for index, begin in enumerate(BEGINS) if begin <= at)
    if at == BEGINS[hit] + 3:  # means nothing
        assert (frames, stream.damaged) == (FRAMES, 0)
        return
    assert frames == FRAMES[:hit] + FRAMES[hit + 1 :]
    assert [(one.offset, one.size) for one in stream.damage] == [(BEGINS[hit], BEGINS[hit + 1] - BEGINS[hit])]
    assert (stream.damaged, stream.damaged_bytes) == (1, BEGINS[hit + 1] - BEGINS[hit])


def test_a_half_written_frame_does_not_hide_the_next() -> None:
    """That is what a full disk leaves."""
    half = encode(FRAMES[1])[:-3]
    frames, stream = read(DATA + half + DATA)
    assert frames == FRAMES + FRAMES
    assert [(one.offset, one.size) for one in stream.damage] == [(len(DATA), len(half))]


def test_a_mark_in_two_pieces_is_found_behind_damage() -> None:
    """The last byte of a piece may be its first half."""
    stream = FrameStream()
    assert stream.feed(b"garbage, long enough" + DATA[:1]) == []
    assert stream.feed(DATA[1:]) == FRAMES
    assert stream.damage == [Damage(offset=0, size=20, why="no frame begins here")]


def test_damage_is_let_go_of() -> None:
    """A file of something else does not fill the memory."""
    stream = FrameStream()
    for _ in range(10):
        stream.feed(b"x" * 1000)
    assert (stream.held, stream.offset) == (0, 10_000)
    assert stream.finish() == []
    assert stream.damage == [Damage(offset=0, size=10_000, why="no frame begins here")]


def test_a_length_that_is_damaged_is_waited_for_until_the_end() -> None:
    """Then what lies behind it is found."""
    broken = HEAD.pack(MARK, FrameKind.MESSAGE, 1 << 20, 0)
    stream = FrameStream()
    assert stream.feed(broken + DATA) == []
    assert stream.held == len(broken) + len(DATA)
    assert stream.finish() == FRAMES
    assert stream.damage == [Damage(offset=0, size=HEAD.size, why=TRUNCATED)]


def test_unknown_kinds_are_passed_over() -> None:
    """They are no damage."""
    frames, stream = read(encode(FRAMES[0]) + encode_frame(99, b"later") + encode(FRAMES[3]))
    assert frames == [FRAMES[0], FRAMES[3]]
    assert (stream.unknown, stream.damaged) == (1, 0)


def test_the_last_byte_may_be_half_a_mark() -> None:
    """Nothing comes after it."""
    _, stream = read(DATA + b"xx" + MARK[:1])
    assert [(one.offset, one.size) for one in stream.damage] == [(len(DATA), 3)]


@patches_constants
def test_reports_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count goes on."""
    monkeypatch.setattr(module, "KEPT_DAMAGE", 2)
    _, stream = read((b"?" + encode(Trailer(index_at=1))) * 5)
    assert (len(stream.damage), stream.damaged, stream.damaged_bytes) == (2, 5, 5)


def test_damage_is_a_sentence() -> None:
    """With the file if there is one."""
    damage = Damage(offset=5, size=3, why="why")
    assert str(damage) == "3 bytes at offset 5: why"
    assert str(Damage(offset=5, size=3, why="why", file="a.crirec")) == "a.crirec: 3 bytes at offset 5: why"


@patches_constants
def test_what_only_looks_like_frames_is_not_looked_at_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many heads of large frames, each in the others: the time for them is limited. Small frames are still found."""
    looked_at = 0
    crc32 = zlib.crc32

    def counted(data: bytes | memoryview, value: int = 0) -> int:
        nonlocal looked_at
        looked_at += len(data)
        return crc32(data, value)

    monkeypatch.setattr(module, "BUDGET", 100_000)
    monkeypatch.setattr("zlib.crc32", counted)
    hostile = HEAD.pack(MARK, FrameKind.MESSAGE, 10_000, 0) * 5000
    frames, stream = read(hostile + DATA)
    assert frames == FRAMES
    assert stream.damaged == 1
    assert looked_at < 100_000 + 10 * len(hostile)


@pytest.mark.parametrize("piece", [1000, 1 << 20])
def test_a_large_frame_behind_damage_is_found(piece: int) -> None:
    """Small damage costs nothing but itself."""
    large = encode(Message(number=1, at=1, side=MessageSide.REPLY, size=1 << 20, body=bytes(1 << 20)))
    frames, stream = read(DATA[:20] + large + DATA, piece)
    assert frames[1:] == FRAMES
    assert (stream.damaged, stream.damaged_bytes) == (1, 20)


@patches_constants
@pytest.mark.parametrize("piece", [100, 1 << 20])
def test_what_passes_pays_for_the_search(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """Large frames are found again behind what was too much, whatever pieces it came in."""
    monkeypatch.setattr(module, "BUDGET", 20_000)
    large = encode(Message(number=1, at=1, side=MessageSide.REPLY, size=9000, body=bytes(9000)))
    hostile = HEAD.pack(MARK, FrameKind.MESSAGE, 9000, 0) * 100
    frames, stream = read(hostile + large * 4, piece)
    assert len(frames) == 3
    assert stream.damaged_bytes == len(hostile) + len(large)
