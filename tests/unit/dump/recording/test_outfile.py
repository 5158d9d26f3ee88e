"""A file that loses whole records only."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interpose.dump.recording import writer as module
from interpose.dump.recording.writer import BufferedFile
from tests.support.builds import patches_constants


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where it is."""
    return tmp_path / "out"


@pytest.fixture
def out(path: Path) -> Iterator[BufferedFile]:
    """An open one with something in it."""
    path.write_bytes(b"before")
    file = BufferedFile(os.open(path, os.O_WRONLY | os.O_APPEND))
    yield file
    file.close(sync=True)


@contextmanager
def limit() -> Iterator[None]:
    """No file of this process may be longer than ten bytes: as with a full disk, a part of a write is done.

    Only inside the block: whoever writes the results of tests has files, too.
    """
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def test_records_are_written_when_told(out: BufferedFile, path: Path) -> None:
    """The size counts what is in the buffer."""
    out.add(b"12")
    assert (path.read_bytes(), out.size) == (b"before", 8)
    out.flush()
    out.flush()
    assert (path.read_bytes(), out.size) == (b"before12", 8)


@patches_constants
def test_a_full_buffer_is_written(out: BufferedFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it is bounded."""
    monkeypatch.setattr(module, "BUFFER_BYTES", 4)
    for record in (b"12", b"34", b"56"):
        out.add(record)
    assert path.read_bytes() == b"before1234"


def test_a_failure_loses_whole_records(out: BufferedFile, path: Path) -> None:
    """The file ends behind the last whole one, and what comes next goes there."""
    for record in (b"12", b"345", b"6"):
        out.add(record)
    with pytest.raises(OSError, match="too large"), limit():
        out.flush()
    assert (path.read_bytes(), out.size) == (b"before12", 8)
    assert (out.lost, out.lost_bytes) == (2, 4)
    out.add(b"78")
    out.flush()
    assert path.read_bytes() == b"before1278"


def test_a_failure_that_cannot_be_cut_off_stays(out: BufferedFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers find the next frame behind it."""

    def no(fd: int, size: int) -> None:
        raise OSError

    monkeypatch.setattr("os.ftruncate", no)
    out.add(b"12345")
    with pytest.raises(OSError, match="too large"), limit():
        out.flush()
    assert (path.read_bytes(), out.size, out.lost) == (b"before1234", 10, 1)
