"""Files that survive a crash at any moment."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interpose.resmgr.durable import KEPT, read_own, remove_leftovers, replace_file, set_aside

# Everything a write does to the disk, in order. The second open and fsync are those of the directory.
STEPS = ("open", "write", "write", "fsync", "close", "replace", "open", "fsync", "close")
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
    return sorted(one.name for one in path.parent.iterdir())


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
from interpose.resmgr.durable import replace_file
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
    """With the file."""
    path = tmp_path / "new" / "state.json"
    replace_file(str(path), b"x")
    assert (path.read_bytes(), path.parent.stat().st_mode & 0o777) == (b"x", 0o700)


def test_our_own_file_is_read(path: Path) -> None:
    """Up to a limit."""
    assert read_own(str(path), 3) == b"old"
    with pytest.raises(ValueError, match=r"^is larger than 2 bytes$"):
        read_own(str(path), 2)


@pytest.mark.parametrize(
    ("mode", "said"), [(0o620, "has mode 0620, group .* may write to it"), (0o602, "has mode 0602, everybody may")]
)
def test_a_file_others_can_write_is_not_read(path: Path, mode: int, said: str) -> None:
    """Also if it is our own group."""
    path.chmod(mode)
    with pytest.raises(ValueError, match=said):
        read_own(str(path), 100)


def test_somebody_elses_file_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours or root's it must be."""
    real = os.fstat

    def other(fd: int) -> os.stat_result:
        found = list(real(fd))
        found[4] = 4711
        return os.stat_result(found)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", other)
        with pytest.raises(ValueError, match="belongs to uid 4711"):
            read_own(str(path), 100)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A directory, a pipe, a link: none of them hangs."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("folder", "pipe", "link"):
        with pytest.raises(ValueError, match=r"^is not a regular file$"):
            read_own(str(tmp_path / name), 100)


def test_nothing_there_is_an_error(path: Path) -> None:
    """Also if what should be the directory is a file."""
    for name in ("missing", "state.json/below", "missing/below"):
        with pytest.raises(FileNotFoundError):
            read_own(str(path.with_name("x").parent / name), 100)


def test_a_name_that_cannot_be_opened_is_an_error(path: Path) -> None:
    """Of the kernel's words."""
    with pytest.raises(OSError, match="File name too long"):
        read_own(f"{path}{'x' * 300}", 100)


def test_only_the_last_few_damaged_files_are_kept(tmp_path: Path) -> None:
    """The newest has the highest number."""
    path = tmp_path / "state.json"
    for number in range(1, 7):
        path.write_text(str(number))
        assert set_aside(str(path)) == f"{path}.damaged-{number}"
    kept = sorted(one.name for one in tmp_path.iterdir())
    assert kept == [f"state.json.damaged-{number}" for number in range(7 - KEPT, 7)]
    assert (tmp_path / kept[-1]).read_text() == "6"


def test_files_of_other_names_are_left_alone(path: Path) -> None:
    """Only what is ours is counted or removed."""
    others = ["state.json.damaged-x", "other.json.damaged-9", "state.json.x.tmp", "stateXjson.999999998.tmp"]
    for name in others:
        path.with_name(name).touch()
    remove_leftovers(str(path))
    assert set_aside(str(path)) == f"{path}.damaged-1"
    assert names(path) == sorted([*others, "state.json.damaged-1"])


def test_a_directory_that_is_missing_has_no_leftovers(tmp_path: Path) -> None:
    """And that is no trouble."""
    remove_leftovers(str(tmp_path / "missing" / "state.json"))
