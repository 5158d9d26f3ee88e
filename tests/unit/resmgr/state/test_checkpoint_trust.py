"""Files that are believed, or set aside."""

import os
from pathlib import Path

import pytest

from interpose.resmgr.state.checkpoint import MAX_DAMAGED_FILES, read_own, set_aside


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file, with something in it."""
    file = tmp_path / "state.json"
    file.write_bytes(b"old")
    file.chmod(0o600)
    return file


def names(path: Path) -> list[str]:
    """What is in the directory."""
    return sorted(entry.name for entry in path.parent.iterdir())


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
    kept = sorted(entry.name for entry in tmp_path.iterdir())
    assert kept == [f"state.json.damaged-{number}" for number in range(7 - MAX_DAMAGED_FILES, 7)]
    assert (tmp_path / kept[-1]).read_text() == "6"


def test_files_of_other_names_are_left_alone(path: Path) -> None:
    """Only what is ours is counted."""
    others = ["state.json.damaged-x", "other.json.damaged-9", "stateXjson.damaged-9", "state.json.7.tmp"]
    for name in others:
        path.with_name(name).touch()
    assert set_aside(str(path)) == f"{path}.damaged-1"
    assert names(path) == sorted([*others, "state.json.damaged-1"])
