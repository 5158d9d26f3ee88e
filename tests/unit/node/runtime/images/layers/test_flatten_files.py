"""Files are made again as they are."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.flatten import copy_data


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """Where copies go."""
    (tmp_path / "to").mkdir()
    descriptor = os.open(tmp_path / "to", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def copied(path: Path, folder: int) -> int:
    """Copy a file as `x`."""
    return copy_data(str(path), path.lstat(), folder, "x")


@pytest.mark.parametrize("by_kernel", [True, False])
def test_data_is_copied_with_its_holes(
    by_kernel: bool, folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernel, or by hand where it cannot."""
    if not by_kernel:

        def fail(*_: object) -> int:
            raise OSError(errno.EXDEV, "no")

        monkeypatch.setattr(os, "copy_file_range", fail)
    path = tmp_path / "from"
    with path.open("wb") as file:
        file.write(b"begin")
        file.seek(3_000_000)
        file.write(b"end")
        file.truncate(4_000_000)
    count = copied(path, folder)
    assert (tmp_path / "to/x").read_bytes() == path.read_bytes()
    assert count <= 4_000_000
    assert (tmp_path / "to/x").stat().st_blocks <= path.stat().st_blocks + 16


def test_an_empty_file_and_one_that_is_all_hole_are_files(folder: int, tmp_path: Path) -> None:
    """Without a byte of data."""
    path = tmp_path / "from"
    path.touch()
    os.truncate(path, 100_000)
    copied(path, folder)
    assert (tmp_path / "to/x").stat().st_size == 100_000


def test_file_systems_that_know_no_holes_are_read_whole(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say that they do not know."""

    def fail(*_: object) -> int:
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(os, "lseek", fail)
    (tmp_path / "from").write_bytes(b"data")
    assert copied(tmp_path / "from", folder) == 4
    assert (tmp_path / "to/x").read_bytes() == b"data"


def test_trouble_with_the_disk_is_told(folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not copied by hand then."""

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    (tmp_path / "from").write_bytes(b"data")
    monkeypatch.setattr(os, "copy_file_range", fail)
    with pytest.raises(OSError, match="full"):
        copied(tmp_path / "from", folder)


def test_links_and_pipes_are_links_and_pipes(folder: int, tmp_path: Path) -> None:
    """Links are not followed, and not tidied up either."""
    os.symlink("a//./b", tmp_path / "link")  # noqa: PTH211 - as it is, not tidied
    os.mkfifo(tmp_path / "pipe")
    copy_data(str(tmp_path / "link"), (tmp_path / "link").lstat(), folder, "l")
    copy_data(str(tmp_path / "pipe"), (tmp_path / "pipe").lstat(), folder, "p")
    assert os.readlink(tmp_path / "to/l") == "a//./b"  # noqa: PTH115 - as it is, not tidied
    assert stat.S_ISFIFO((tmp_path / "to/p").lstat().st_mode)


def test_sockets_are_nobodys(folder: int, tmp_path: Path) -> None:
    """Whoever listened there is gone."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        copied(tmp_path / "s", folder)
    assert list((tmp_path / "to").iterdir()) == []
