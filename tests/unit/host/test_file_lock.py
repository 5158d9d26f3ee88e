"""One process for each file."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from interpose.host.file_lock import FileLock


def refusal(owner: str) -> str:
    """What the second one is told."""
    return f"in use by process {owner}"


def take(path: Path, timeout: float = 0.0) -> FileLock:
    """The lock, or the refusal."""
    return FileLock.take(path, refusal, timeout=timeout)


def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    """By its process; after the release it can have it."""
    first = take(tmp_path / "lock")
    with pytest.raises(BlockingIOError, match=f"in use by process {os.getpid()}$"):
        take(tmp_path / "lock")
    first.release()
    first.release()
    assert first.descriptor == -1
    take(tmp_path / "lock").release()


def test_an_owner_that_is_about_to_go_is_waited_for(tmp_path: Path) -> None:
    """As long as the patience lasts, and no longer."""
    first = take(tmp_path / "lock")
    pauses: list[float] = []

    def until_the_third(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            first.release()

    FileLock.take(tmp_path / "lock", refusal, timeout=60, sleep=until_the_third).release()
    assert len(pauses) == 3
    held = take(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        FileLock.take(tmp_path / "lock", refusal, timeout=1, sleep=pauses.append)
    assert 0.9 < sum(pauses[3:]) < 1.2
    held.release()


def test_a_lock_is_held_until_the_last_copy_is_gone(tmp_path: Path) -> None:
    """So it can be handed over without a moment in which nobody has it."""
    first = take(tmp_path / "lock")
    second = FileLock(os.dup(first.descriptor))
    (tmp_path / "lock").write_text("1\n")
    second.write_owner()
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    first.release()
    with pytest.raises(BlockingIOError):
        take(tmp_path / "lock")
    second.release()
    take(tmp_path / "lock").release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """It may lead anywhere."""
    (tmp_path / "lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="Too many levels"):
        take(tmp_path / "lock")
    assert not (tmp_path / "other").exists()


def test_who_wrote_nothing_down_is_unknown(tmp_path: Path) -> None:
    """A full disk keeps nobody from locking."""
    first = take(tmp_path / "lock")
    os.ftruncate(first.descriptor, 0)
    with pytest.raises(BlockingIOError, match="process unknown"):
        take(tmp_path / "lock")
    first.release()


def test_a_file_system_without_locks_costs_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever tries again and again would run out of them."""

    def unsupported(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(OSError, match="No locks available"):
        take(tmp_path / "lock")
    assert sorted(Path("/proc/self/fd").iterdir()) == before
