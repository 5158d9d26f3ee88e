"""The kernel's events, as they come through ctypes."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.host import inotify
from interpose.host.inotify import Event, Inotify


@pytest.fixture
def source() -> Iterator[Inotify]:
    """An open inotify descriptor, closed at the end."""
    opened = Inotify()
    yield opened
    opened.close()


def test_events_name_watch_kind_and_file(source: Inotify, tmp_path: Path) -> None:
    """What was asked for, in order; names may be any bytes."""
    watch = source.add(str(tmp_path), inotify.CREATE | inotify.DELETE)
    strange = os.fsdecode(b"a\xff\n")
    (tmp_path / strange).touch()
    (tmp_path / strange).unlink()
    assert source.read() == [Event(watch, inotify.CREATE, strange), Event(watch, inotify.DELETE, strange)]
    assert source.read() == []


def test_a_watch_grows_and_ends(source: Inotify, tmp_path: Path) -> None:
    """Adding the same directory again keeps its number and what was asked before."""
    watch = source.add(str(tmp_path), inotify.CREATE)
    assert source.add(str(tmp_path), inotify.DELETE) == watch
    (tmp_path / "a").touch()
    source.remove(watch)
    assert source.read() == [Event(watch, inotify.CREATE, "a"), Event(watch, inotify.IGNORED, "")]


def test_the_kernels_refusals_are_oserrors(source: Inotify, tmp_path: Path) -> None:
    """With the code to act on: missing, no directory, no such watch."""
    with pytest.raises(FileNotFoundError):
        source.add(str(tmp_path / "missing"), inotify.CREATE)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        source.add(str(tmp_path / "file"), inotify.CREATE)
    with pytest.raises(OSError) as caught:
        source.remove(4711)
    assert caught.value.errno == errno.EINVAL


def test_a_c_library_without_inotify_is_an_oserror(source: Inotify) -> None:
    """Whoever opens one has a single error to expect."""
    with pytest.raises(OSError, match="the C library has no inotify_of_the_future"):
        source._call("inotify_of_the_future")
