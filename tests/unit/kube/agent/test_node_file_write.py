"""A file that is replaced as a whole, and by nobody's trick."""

import os
import stat
from pathlib import Path

import pytest

from interpose.kube.agent import node_file
from interpose.kube.agent.node_file import StateFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """In a directory that is not there yet."""
    return tmp_path / "node" / "state.json"


def test_file_and_directory_are_made(path: Path) -> None:
    """The file is for its owner, whatever the umask."""
    before = os.umask(0o077)
    try:
        assert StateFile(str(path)).write("one")
    finally:
        os.umask(before)
    assert path.read_text() == "one"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    assert [one.name for one in path.parent.iterdir()] == ["state.json"]


def test_same_content_is_not_written(path: Path) -> None:
    """Readers would wake for nothing."""
    file = StateFile(str(path))
    file.write("one")
    inode = path.stat().st_ino
    assert not file.write("one")
    assert path.stat().st_ino == inode
    assert file.write("two")
    assert path.read_text() == "two"


def test_leftovers_of_killed_processes(path: Path) -> None:
    """They are taken away, but not what somebody may be writing at this moment, nor what is not ours."""
    path.parent.mkdir(mode=0o755)
    for name in (".state.json.tmp", ".state.json.0123abcd.tmp", ".other.json.tmp"):
        (path.parent / name).write_text("half")
        os.utime(path.parent / name, (0, 0))
    (path.parent / ".state.json.00ff.tmp").write_text("half")
    assert StateFile(str(path)).write("one")
    assert sorted(one.name for one in path.parent.iterdir()) == [
        ".other.json.tmp",
        ".state.json.00ff.tmp",
        "state.json",
    ]


def test_two_who_write_one_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one of them writes, the other does: each content is whole."""
    mine, other = StateFile(str(path)), StateFile(str(path))
    mine.write("one")
    flush = os.fsync

    def meanwhile(fd: int) -> None:
        monkeypatch.setattr(os, "fsync", flush)
        other.write("of the other")
        assert path.read_text() == "of the other"

    monkeypatch.setattr(os, "fsync", meanwhile)
    mine.write("two")
    assert path.read_text() == "two"
    assert [one.name for one in path.parent.iterdir()] == ["state.json"]
    assert mine.is_as_written()
    assert not other.is_as_written()


def test_file_that_is_as_it_was_written(path: Path) -> None:
    """Not if it is gone, changed, or somebody else's to write to."""
    file = StateFile(str(path))
    assert not file.is_as_written()
    file.write("one")
    assert file.is_as_written()
    path.chmod(0o666)
    assert not file.is_as_written()
    file.write("one")
    assert file.is_as_written()
    path.unlink()
    assert not file.is_as_written()
    file.write("one")
    path.write_text("two")
    assert not file.is_as_written()
    again = StateFile(str(path))
    assert not again.write("two")
    assert again.is_as_written()


def test_reading_back(path: Path) -> None:
    """None if there is no file, or no directory."""
    file = StateFile(str(path))
    assert file.read() is None
    path.parent.mkdir(mode=0o755)
    assert file.read() is None
    file.write("ü")
    assert file.read() == "ü"


def test_name_without_a_directory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the working directory."""
    path.parent.mkdir(mode=0o755)
    monkeypatch.chdir(path.parent)
    StateFile("state.json").write("one")
    assert path.read_text() == "one"


def test_link_in_the_place_of_the_file(path: Path, tmp_path: Path) -> None:
    """It is not followed: neither read nor written through."""
    other = tmp_path / "other"
    other.write_text("precious")
    path.parent.mkdir(mode=0o755)
    path.symlink_to(other)
    file = StateFile(str(path))
    with pytest.raises(ValueError, match="not a regular file"):
        file.read()
    assert file.write("one")
    assert other.read_text() == "precious"
    assert not path.is_symlink()


def test_link_in_the_place_of_the_directory(path: Path, tmp_path: Path) -> None:
    """Nothing is written where it leads."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    path.parent.symlink_to(elsewhere)
    with pytest.raises(ValueError, match="link"):
        StateFile(str(path)).write("one")
    assert not list(elsewhere.iterdir())


def test_directory_that_everybody_may_write_to(path: Path) -> None:
    """Whoever may write there decides what is in it."""
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.raises(ValueError, match="everybody may write"):
        StateFile(str(path)).write("one")


def test_file_that_everybody_may_write_to(path: Path) -> None:
    """It is not believed, and another takes its place."""
    file = StateFile(str(path))
    file.write("one")
    path.chmod(0o666)
    with pytest.raises(ValueError, match="everybody may write"):
        file.read()
    assert file.write("one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_no_file(path: Path) -> None:
    """A pipe does not hold us up, a directory cannot be replaced."""
    path.parent.mkdir(mode=0o755)
    os.mkfifo(path)
    file = StateFile(str(path))
    with pytest.raises(ValueError, match="not a regular file"):
        file.read()
    path.unlink()
    path.mkdir()
    with pytest.raises(ValueError, match="not a regular file"):
        file.read()
    with pytest.raises(IsADirectoryError):
        file.write("one")
    assert [one.name for one in path.parent.iterdir()] == ["state.json"]


def test_file_that_is_too_large(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not ours."""
    monkeypatch.setattr(node_file, "_LIMIT", 2)
    file = StateFile(str(path))
    file.write("one")
    with pytest.raises(ValueError, match="larger"):
        file.read()


def test_file_in_the_place_of_the_directory(path: Path) -> None:
    """It is named."""
    path.parent.write_text("x")
    with pytest.raises(ValueError, match="not a directory"):
        StateFile(str(path)).write("one")
    with pytest.raises(ValueError, match="not a directory"):
        StateFile(str(path)).read()


def test_disk_that_is_full(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old content stays, and nothing is left behind."""
    file = StateFile(str(path))
    file.write("one")

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        file.write("two")
    assert path.read_text() == "one"
    assert [one.name for one in path.parent.iterdir()] == ["state.json"]
