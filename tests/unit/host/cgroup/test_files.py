"""The kernel's small files, on plain ones and on /proc."""

import errno
import os
from pathlib import Path

import pytest

from interpose.host.cgroup.files import KernelFiles

FILES = KernelFiles()


def test_a_file_is_read_and_replaced(tmp_path: Path) -> None:
    """What is shorter leaves nothing of what was longer."""
    file = tmp_path / "cpu.max"
    file.write_text("max 100000\n")
    assert FILES.read(str(file)) == "max 100000\n"
    FILES.write(str(file), "1")
    assert FILES.read(str(file)) == "1"


def test_a_file_is_never_made(tmp_path: Path) -> None:
    """A file of the kernel is there or not."""
    with pytest.raises(FileNotFoundError):
        FILES.write(str(tmp_path / "cpu.max"), "1")


@pytest.mark.parametrize("size", [511, 512, 70_000])
def test_a_file_of_any_size_is_read_whole(tmp_path: Path, size: int) -> None:
    """Small ones in one go, others until their end."""
    file = tmp_path / "list"
    file.write_text("x" * size)
    assert len(FILES.read(str(file))) == size


def test_a_list_that_comes_in_pieces_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel hands out at most a page of some files at a time, however much is asked for."""
    file = tmp_path / "cgroup.procs"
    file.write_text("".join(f"{number}\n" for number in range(10_000, 12_000)))
    real = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: real(descriptor, min(size, 4092)))
    assert FILES.read(str(file)).split()[-1] == "11999"


@pytest.mark.parametrize("link", ["file", "directory"])
def test_nothing_is_written_through_a_link(tmp_path: Path, link: str) -> None:
    """Neither as the last name nor on the way; what it leads to is untouched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "cpu.max").write_text("max")
    if link == "file":
        (tmp_path / "cpu.max").symlink_to(outside / "cpu.max")
        path = tmp_path / "cpu.max"
    else:
        (tmp_path / "group").symlink_to(outside)
        path = tmp_path / "group/cpu.max"
    with pytest.raises(OSError, match="symbolic links") as refused:
        FILES.write(str(path), "1")
    assert refused.value.errno == errno.ELOOP
    assert (outside / "cpu.max").read_text() == "max"


def test_a_file_that_goes_while_it_is_open_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same as coming a moment later."""
    file = tmp_path / "cpu.max"
    file.touch()
    real = os.readlink

    def late(path: str) -> str:
        file.unlink()
        return real(path)

    monkeypatch.setattr(os, "readlink", late)
    with pytest.raises(FileNotFoundError):
        FILES.write(str(file), "1")


def test_directories_are_listed_made_and_removed(tmp_path: Path) -> None:
    """Files and links are no directories."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    FILES.make_directory(str(tmp_path / "a"))
    assert FILES.directories(str(tmp_path)) == ["a"]
    assert FILES.exists(str(tmp_path / "a"))
    with pytest.raises(FileExistsError):
        FILES.make_directory(str(tmp_path / "a"))
    FILES.remove_directory(str(tmp_path / "a"))
    assert not FILES.exists(str(tmp_path / "a"))
