"""Where frames come from."""

import io
import sys
from pathlib import Path

import pytest

from interpose.cli.dump.source import FileSource, StreamSource, open_source
from interpose.dump.model.frames import VERSION, Header, encode
from interpose.errors import ConfigError
from interpose.testing.recordings import HEADER, sample_recording, story_frames

STORY = b"".join(map(encode, story_frames()))


class Drops(io.RawIOBase):
    """A stream that gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__()
        self._data = data
        self._size = size

    def read(self, size: int = -1) -> bytes:
        """The next few."""
        piece, self._data = self._data[: self._size], self._data[self._size :]
        return piece


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_stream_is_read_as_it_comes(size: int) -> None:
    """Its facts are known before its calls."""
    source = StreamSource(Drops(STORY, size))  # type: ignore[arg-type]
    assert source.facts == HEADER.facts
    assert list(source.frames()) == story_frames()
    assert (list(source.damage), source.damaged) == ([], 0)


def test_a_stream_that_breaks_off_says_where() -> None:
    """What came before is there."""
    source = StreamSource(io.BytesIO(STORY[:-5]))
    assert list(source.frames()) == story_frames()[:-1]
    assert source.damaged == len(source.damage) == 1


@pytest.mark.parametrize("data", [b"", b"hello, this is not a recording", STORY[:20]])
def test_a_stream_of_something_else_is_refused(data: bytes) -> None:
    """In words."""
    with pytest.raises(ConfigError, match="standard input: is not a recording"):
        StreamSource(io.BytesIO(data))


def test_a_stream_of_a_newer_version_is_refused() -> None:
    """Its meaning is not known."""
    newer = encode(Header(facts={"version": VERSION + 1}))
    with pytest.raises(ConfigError, match=f"is of version {VERSION + 1}"):
        StreamSource(io.BytesIO(newer))


def test_files_can_be_read_again(tmp_path: Path) -> None:
    """From the beginning each time."""
    source = open_source([str(sample_recording(tmp_path / "a.crirec"))], alone=False)
    assert isinstance(source, FileSource)
    assert list(source.frames()) == list(source.frames()) == story_frames()
    assert source.facts == HEADER.facts
    assert (list(source.damage), source.damaged) == ([], 0)


@pytest.mark.parametrize(("alone", "times"), [(True, 1), (False, 2)])
def test_older_files_are_read_too(tmp_path: Path, alone: bool, times: int) -> None:
    """They have numbers."""
    for name in ("a.crirec", "a.000001.crirec"):
        sample_recording(tmp_path / name)
    source = open_source([str(tmp_path / "a.crirec")], alone=alone)
    assert list(source.frames()) == story_frames() * times


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as it comes."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(STORY)))
    assert isinstance(open_source(["-"], alone=False), StreamSource)
