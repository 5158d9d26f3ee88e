"""A relay and a recording as sources."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from interpose.dump.live.feed import SourceLostError
from interpose.dump.live.sources import BATCH, RecordingSource, RelaySource
from interpose.dump.model.frames import Frame, encode
from interpose.testing.recordings import story_frames, write_recording


class Connection:
    """What a relay sends, in pieces."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.chunks)

    def close(self) -> None:
        self.closed = True


def read_all(source: RelaySource | RecordingSource, stop: bool = False) -> list[list[Frame]]:
    batches: list[list[Frame]] = []
    source.read(lambda batch: batches.append(list(batch)), lambda: stop)
    return batches


def test_frames_of_a_relay_are_put_together() -> None:
    """However they were cut."""
    frames = story_frames()[:4]
    data = b"".join(encode(one) for one in frames)
    source = RelaySource("relay", lambda: Connection(data[:5], data[5:100], data[100:]))
    assert [one for batch in read_all(source) for one in batch] == frames


def test_a_relay_is_not_read_after_the_end() -> None:
    """Of the screen."""
    source = RelaySource("relay", lambda: Connection(encode(story_frames()[0])))
    assert read_all(source, stop=True) == []


def test_interrupting_closes_the_connection() -> None:
    """Also before there is one, and also a generator that runs elsewhere."""
    connection = Connection()
    source = RelaySource("relay", lambda: connection)
    source.interrupt()
    read_all(source)
    source.interrupt()
    assert connection.closed

    def chunks() -> Iterator[bytes]:
        other.interrupt()
        yield b""

    other = RelaySource("relay", chunks)
    read_all(other)


def test_a_recording_is_read_in_batches(tmp_path: Path) -> None:
    """All of it, until the screen ends."""
    frames = story_frames()
    many: Sequence[Frame] = [*frames, *frames[1:] * (BATCH // len(frames) + 1)]
    waits: list[float] = []
    source = RecordingSource(write_recording(tmp_path / "a.crirec", many), sleep=waits.append)
    batches: list[int] = []
    source.read(lambda batch: batches.append(len(batch)), lambda: bool(waits))
    assert sum(batches) == len(many)
    assert batches[0] == BATCH
    assert source.name == "a.crirec"
    source.interrupt()


def test_what_a_growing_recording_has_is_handed_on_at_once(tmp_path: Path) -> None:
    """Not when the next frame comes."""
    frames = story_frames()
    path = write_recording(tmp_path / "a.crirec", frames[:3])
    batches: list[int] = []
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            with path.open("ab") as file:
                file.write(encode(frames[3]))

    source = RecordingSource(path, sleep=sleep)
    source.read(lambda batch: batches.append(len(batch)), lambda: len(waits) >= 3)
    assert batches == [3, 1]


def test_a_file_that_is_no_recording_is_lost(tmp_path: Path) -> None:
    """With its name."""
    path = tmp_path / "a.crirec"
    path.write_text("hello, world, this is not a recording")
    with pytest.raises(SourceLostError, match=r"a\.crirec"):
        read_all(RecordingSource(path))
