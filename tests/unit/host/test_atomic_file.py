"""Files that survive a crash at any moment."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpose.host.atomic_file import numbers_beside, remove_leftovers, replace_at, replace_file

# Everything a write does to the disk, in order. The first open, the last fsync and close are those of the directory.
STEPS = ("open", "open", "write", "write", "fsync", "close", "replace", "fsync", "close")
DATA = b"new" * 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file, with something in it."""
    file = tmp_path / "state.json"
    file.write_bytes(b"old")
    file.chmod(0o600)
    return file


class Steps:
    """Takes the place of os functions: writes what is done, and does something at one step instead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int | None, then: Callable[[], None]) -> None:
        self.done: list[str] = []
        self._at = at
        self._then = then
        for name in set(STEPS):
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            self.done.append(name)
            if len(self.done) - 1 == self._at:
                if name == "close":
                    real(*args)  # as the kernel does: the descriptor is gone whatever is said
                self._then()
            if name == "write":
                args = (args[0], bytes(args[1])[:2000])  # never all at once
            return real(*args, **more)

        return step


def names(path: Path) -> list[str]:
    """What is in the directory."""
    return sorted(entry.name for entry in path.parent.iterdir())


def fail() -> None:
    """A full or broken disk."""
    raise OSError(28, "No space left on device")


def test_the_steps_of_a_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written and synced before the name is moved; the directory synced after."""
    with monkeypatch.context() as patch:
        steps = Steps(patch, None, fail)
        replace_file(str(path), DATA)
    assert tuple(steps.done) == STEPS
    assert path.read_bytes() == DATA
    assert (path.stat().st_mode & 0o777, names(path)) == (0o600, ["state.json"])


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_a_failure_at_any_step_leaves_the_old_file_or_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """And is told, and leaves nothing behind."""
    with monkeypatch.context() as patch:
        Steps(patch, at, fail)
        with pytest.raises(OSError, match="No space"):
            replace_file(str(path), DATA)
    assert path.read_bytes() == (b"old" if at <= STEPS.index("replace") else DATA)
    assert names(path) == ["state.json"]
    replace_file(str(path), DATA)
    assert path.read_bytes() == DATA


CHILD = """
import os, signal, sys
path, at = sys.argv[1], int(sys.argv[2])
from interpose.host.atomic_file import replace_file
count = 0
def wrapped(real, short):
    def step(*args, **more):
        global count
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        return real(args[0], bytes(args[1])[:2000]) if short else real(*args, **more)
    return step
for name in ("open", "write", "fsync", "close", "replace"):
    setattr(os, name, wrapped(getattr(os, name), name == "write"))
replace_file(path, b"new" * 1000)
"""


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(path: Path, at: int) -> None:
    """What is left beside it is removed at the next start."""
    ended = subprocess.run([sys.executable, "-c", CHILD, str(path), str(at)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == (b"old" if at <= STEPS.index("replace") else DATA)
    remove_leftovers(str(path))
    assert names(path) == ["state.json"]


def test_what_a_living_process_writes_is_left_alone(path: Path) -> None:
    """It takes over from us, or we from it."""
    ours = path.with_name(f"state.json.{os.getpid()}.tmp")
    ours.touch()
    remove_leftovers(str(path))
    assert ours.exists()


def test_a_directory_that_is_missing_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """A missing directory is made together with the file."""
    path = tmp_path / "new" / "state.json"
    replace_file(str(path), b"x")
    assert (path.read_bytes(), path.parent.stat().st_mode & 0o777) == (b"x", 0o700)


def test_a_directory_that_is_missing_has_no_leftovers(tmp_path: Path) -> None:
    """And is not made for it."""
    remove_leftovers(str(tmp_path / "missing" / "state.json"))
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_other_names_are_left_alone(path: Path) -> None:
    """Only what is ours is removed."""
    others = ["state.json.x.tmp", "stateXjson.999999998.tmp", "state.json.999999998.tmp.old"]
    for name in (*others, "state.json.999999998.tmp"):
        path.with_name(name).touch()
    remove_leftovers(str(path))
    assert names(path) == sorted([*others, "state.json"])


def test_numbers_of_files_beside_one(path: Path) -> None:
    """By the form of what follows its name."""
    for name in ("state.json.old-1", "state.json.old-12", "state.json.old-x", "other.json.old-2"):
        path.with_name(name).touch()
    assert sorted(numbers_beside(str(path), "old-([0-9]+)")) == [1, 12]


def test_a_name_without_a_directory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the working directory."""
    monkeypatch.chdir(path.parent)
    replace_file("state.json", DATA)
    assert (path.read_bytes(), names(path)) == (DATA, ["state.json"])


def test_a_mode_counts_whatever_the_umask_is(path: Path) -> None:
    """Also one that others may read by."""
    before = os.umask(0o077)
    try:
        replace_file(str(path), b"x", mode=0o644)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.fixture
def directory(path: Path) -> Iterator[int]:
    """The directory of the file, open."""
    found = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    yield found
    os.close(found)


def test_the_new_file_is_told_as_it_is(path: Path, directory: int) -> None:
    """So that its owner knows it again."""
    found = replace_at(directory, path.name, b"new", temporary=".tmp")
    there = path.stat()
    assert (found.st_ino, found.st_size, found.st_mtime_ns) == (there.st_ino, 3, there.st_mtime_ns)
    assert found.st_mode & 0o777 == 0o600


def test_what_is_under_the_temporary_name_is_not_written_to(path: Path, directory: int) -> None:
    """Neither a link nor what an earlier process left there."""
    precious = path.with_name("precious")
    precious.write_bytes(b"precious")
    for make in (lambda: path.with_name("tmp").symlink_to(precious), lambda: path.with_name("tmp").write_bytes(b"x")):
        make()
        replace_at(directory, path.name, DATA, temporary="tmp")
        assert (path.read_bytes(), path.is_symlink()) == (DATA, False)
    assert precious.read_bytes() == b"precious"


def test_an_interruption_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is: a key must not lie about under another name."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        Steps(patch, STEPS.index("fsync"), interrupted)
        with pytest.raises(KeyboardInterrupt):
            replace_file(str(path), DATA)
    assert (path.read_bytes(), names(path)) == (b"old", ["state.json"])


def test_a_full_disk_is_told_with_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system names none, since it is written to through a descriptor."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        replace_file(str(path), b"new")
    assert caught.value.filename == str(path)
