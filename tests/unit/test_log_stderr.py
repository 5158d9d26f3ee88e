"""A log whose reader hangs costs lines, never time."""

import logging
import os
from collections.abc import Iterator

import pytest

from interpose.log import LineHandler, TextFormatter, UnblockedText


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe: who reads it, who writes it."""
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def test_text_arrives_whole(pipe: tuple[int, int]) -> None:
    """Longer than one piece, and with what UTF-8 cannot say."""
    text = "a" * 10_000 + "\udcff é\n"
    stream = UnblockedText(pipe[1])
    assert stream.write(text) == len(text)
    stream.flush()
    assert os.read(pipe[0], 1 << 16) == b"a" * 10_000 + b"\\udcff \xc3\xa9\n"


def test_full_pipe_is_an_error_at_once_and_recovers(pipe: tuple[int, int]) -> None:
    """Nobody reads: the write says so instead of waiting. Somebody reads again: it works again."""
    stream = UnblockedText(pipe[1])
    os.set_blocking(pipe[1], False)
    while os.get_blocking(pipe[1]) is False:
        try:
            os.write(pipe[1], b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(pipe[1], True)
    with pytest.raises(BlockingIOError, match="does not take more"):
        stream.write("x")
    os.read(pipe[0], 1 << 20)
    assert stream.write("again") == 5


def test_reader_that_is_gone_is_an_error(pipe: tuple[int, int]) -> None:
    """As for every pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(OSError, match=r"."):
        UnblockedText(writer).write("lost")
    os.close(writer)


def test_lost_lines_are_counted(pipe: tuple[int, int]) -> None:
    """The handler takes the error; the caller never sees it."""
    handler = LineHandler(UnblockedText(pipe[1]))
    handler.setFormatter(TextFormatter())
    record = logging.LogRecord("x", logging.INFO, "f.py", 1, "m" * 1000, (), None)
    for _ in range(500):
        handler.emit(record)
    assert 0 < handler.dropped < 500
