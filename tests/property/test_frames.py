"""Frames and streams of them: whatever is written comes back, whatever is broken is reported and loses nothing else."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from interpose.dump.model.call import Assembler, CallEventKind
from interpose.dump.model.frame_reader import FrameStream
from interpose.dump.model.frames import (
    MAX_PAYLOAD,
    Begin,
    Context,
    DamagedFrameError,
    Dropped,
    End,
    Flags,
    Frame,
    Header,
    Index,
    Message,
    MessageSide,
    Packing,
    Trailer,
    decode,
    encode,
)
from interpose.dump.recording.index import IndexBuilder, read_index

NUMBERS = st.integers(0, (1 << 64) - 1)
FEW = st.integers(1, 4)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)
# What the relay decodes from bytes of others: any of them, kept as they are.
TEXTS = st.binary(max_size=20).map(lambda data: data.decode(errors="surrogateescape"))
FACTS = st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3)


def frames(numbers: st.SearchStrategy[int] = NUMBERS) -> st.SearchStrategy[Frame]:
    """A frame of any kind."""
    return st.one_of(
        st.builds(
            Begin,
            number=numbers,
            time=TIMES,
            path=TEXTS,
            origin=TEXTS,
            pid=st.integers(-(1 << 31), (1 << 31) - 1),
            uid=st.integers(0, (1 << 32) - 1),
            flags=st.integers(0, 3).map(Flags),
            metadata=st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
        ),
        st.builds(
            Message,
            number=numbers,
            at=NUMBERS,
            side=st.sampled_from(MessageSide),
            packing=st.sampled_from(Packing),
            size=st.integers(0, MAX_PAYLOAD),
            body=st.binary(max_size=60),
        ),
        st.builds(
            End,
            number=numbers,
            elapsed=NUMBERS,
            code=st.integers(0, 255),
            message=TEXTS,
            changed_by=st.lists(TEXTS, max_size=2).map(tuple),
        ),
        st.builds(Dropped, frames=NUMBERS, size=NUMBERS, time=TIMES),
        st.builds(Header, facts=FACTS),
        st.builds(Context, facts=FACTS),
        st.builds(Index, facts=FACTS),
        st.builds(Trailer, index_at=NUMBERS),
    )


def read(data: bytes, cuts: list[int]) -> tuple[list[Frame], FrameStream]:
    """Frames from bytes that come in pieces."""
    stream = FrameStream()
    found: list[Frame] = []
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        found += stream.feed(data[begin:end])
    return found + stream.finish(), stream


@given(frames())
def test_a_frame_comes_back(frame: Frame) -> None:
    """Whatever is in it."""
    data = encode(frame)
    assert decode(data) == (frame, data)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_damage(data: bytes) -> None:
    """Nothing else is raised."""
    try:
        _, wire = decode(data)
        assert 0 < len(wire) <= len(data)
    except (DamagedFrameError, EOFError):
        pass


@given(st.lists(frames(), max_size=8), st.lists(st.integers(0, 5000), max_size=8))
def test_a_stream_gives_what_was_written(written: list[Frame], cuts: list[int]) -> None:
    """In any pieces."""
    data = b"".join(map(encode, written))
    found, stream = read(data, cuts)
    assert found == written
    assert (stream.damaged, stream.held, stream.offset) == (0, 0, len(data))


@given(
    st.lists(st.tuples(st.binary(max_size=40), frames()), min_size=1, max_size=6),
    st.lists(st.integers(0, 5000), max_size=6),
)
def test_garbage_between_frames_is_all_that_is_lost(mixed: list[tuple[bytes, Frame]], cuts: list[int]) -> None:
    """It is reported to the byte, and pieces make no difference."""
    data = b"".join(garbage + encode(frame) for garbage, frame in mixed)
    found, stream = read(data, cuts)
    assert found == [frame for _, frame in mixed]
    assert stream.damaged_bytes == sum(len(garbage) for garbage, _ in mixed)
    assert sum(one.size for one in stream.damage) == stream.damaged_bytes
    assert (found, stream.damage) == (read(data, [])[0], read(data, [])[1].damage)


@given(st.lists(frames(), min_size=1, max_size=5), st.integers(0), st.integers(1, 255), st.lists(st.integers(0, 900)))
def test_a_changed_byte_loses_one_frame_at_most(written: list[Frame], at: int, change: int, cuts: list[int]) -> None:
    """The one it is in."""
    data = bytearray(b"".join(map(encode, written)))
    at %= len(data)
    data[at] ^= change
    ends = [sum(len(encode(one)) for one in written[: index + 1]) for index in range(len(written))]
    hit = next(index for index, end in enumerate(ends) if at < end)
    found, _ = read(bytes(data), cuts)
    assert found in (written, written[:hit] + written[hit + 1 :])


@given(st.binary(max_size=400), st.lists(st.integers(0, 900), max_size=5))
def test_garbage_is_accounted_for(data: bytes, cuts: list[int]) -> None:
    """Nothing is raised, nothing is held at the end."""
    found, stream = read(data, cuts)
    assert stream.held == 0
    assert stream.damaged_bytes + sum(len(encode(one)) for one in found) <= len(data) or stream.unknown


@given(st.lists(frames(FEW), max_size=30))
def test_calls_are_put_together_from_any_frames(stream: list[Frame]) -> None:
    """Each call ends once, has its own messages, and what is open has no end."""
    assembler = Assembler(kept_messages=3)
    for event in assembler.feed_all(stream):
        if event.kind in (CallEventKind.BEGIN, CallEventKind.MESSAGE, CallEventKind.END):
            assert event.flow is not None
            assert event.flow.number == getattr(event.frame, "number", None)
        if event.kind is CallEventKind.END:
            assert event.flow is not None
            assert event.flow.end is event.frame
    for number, flow in assembler.open.items():
        assert flow.number == number
        assert len(flow.messages) <= 3
        assert all(one.number == number for one in flow.messages)


@given(st.lists(frames(FEW), max_size=30))
def test_an_index_comes_back(stream: list[Frame]) -> None:
    """Rows of any frames survive their columns."""
    builder = IndexBuilder()
    for at, frame in enumerate(stream):
        builder.add(frame, at, at + 1)
    index, _ = decode(encode(Index(facts=builder.facts() or {})))
    assert isinstance(index, Index)
    assert read_index(index.facts) == list(builder.rows())
    assert sum(bool(row.end) for row in builder.rows()) <= sum(isinstance(one, End) for one in stream)
