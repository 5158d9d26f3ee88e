"""Paths inside a volume that cannot lead out of it."""

import os
from pathlib import Path

import pytest

from interpose.node.pods.volumes.subpath import check_sub_path, open_inside


def opened(volume: Path, sub_path: str, *, create: bool = True) -> str:
    """The real path, by the descriptor as well."""
    fd, real = open_inside(str(volume), sub_path, create=create)
    try:
        assert str(Path(f"/proc/self/fd/{fd}").readlink()) == real
    finally:
        os.close(fd)
    return real


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with a neighbour."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume-neighbour").mkdir()
    return tmp_path / "volume"


@pytest.mark.parametrize("text", ["/a", "..", "a/../b", "a/..", "a\0b"])
def test_texts_that_are_no_inner_paths(text: str) -> None:
    """Refused before anything is looked at."""
    with pytest.raises(ValueError, match="must be a relative path without"):
        check_sub_path(text)


def test_what_is_there(volume: Path) -> None:
    """Folders, files, and the volume itself."""
    (volume / "a/b").mkdir(parents=True)
    (volume / "a/file").touch()
    assert opened(volume, "a/b", create=False) == f"{volume}/a/b"
    assert opened(volume, "a//file") == f"{volume}/a/file"
    assert opened(volume, ".") == str(volume)


def test_missing_folders_are_made_with_the_volumes_mode(volume: Path) -> None:
    """Whatever our umask is."""
    volume.chmod(0o2777)
    assert opened(volume, "x/y") == f"{volume}/x/y"
    assert [(volume / name).stat().st_mode & 0o7777 for name in ("x", "x/y")] == [0o2777, 0o2777]


def test_nothing_is_made_in_a_volume_that_is_only_read(volume: Path) -> None:
    """The path must be there."""
    with pytest.raises(FileNotFoundError):
        opened(volume, "x", create=False)
    assert list(volume.iterdir()) == []


def test_links_that_stay_inside_are_followed(volume: Path) -> None:
    """Relative and absolute ones, to folders that are missing too."""
    (volume / "real").mkdir()
    (volume / "relative").symlink_to("real")
    (volume / "absolute").symlink_to(volume / "real")
    (volume / "dangling").symlink_to("later")
    assert opened(volume, "relative/x") == f"{volume}/real/x"
    assert opened(volume, "absolute/x") == f"{volume}/real/x"
    assert opened(volume, "dangling") == f"{volume}/later"


@pytest.mark.parametrize("to", ["/", "/etc", "../volume-neighbour", "..", "loop"])
def test_links_that_lead_out_are_refused(volume: Path, to: str) -> None:
    """Nothing is made or opened behind them."""
    (volume / "loop").symlink_to("loop")
    (volume / "out").symlink_to(to)
    with pytest.raises((ValueError, OSError)):
        opened(volume, "out/x")
    assert list((volume.parent / "volume-neighbour").iterdir()) == []


def test_a_folder_that_becomes_a_link_meanwhile(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container swaps it between the look and the opening."""
    (volume / "a").mkdir()
    real = os.path.realpath

    def swapping(path: str) -> str:
        found = real(path)
        if found.endswith("/a/etc"):
            (volume / "a").rmdir()
            (volume / "a").symlink_to("/")
        return found

    monkeypatch.setattr(os.path, "realpath", swapping)
    with pytest.raises(ValueError, match="was changed into a link"):
        opened(volume, "a/etc")


def test_somebody_else_makes_the_folder_first(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is theirs, with their mode."""
    real = os.mkdir

    def faster(name: str, dir_fd: int) -> None:
        real(name, 0o700, dir_fd=dir_fd)
        real(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", faster)
    assert opened(volume, "x") == f"{volume}/x"
    assert (volume / "x").stat().st_mode & 0o777 == 0o700


def test_a_file_has_nothing_inside(volume: Path) -> None:
    """The system's own words."""
    (volume / "file").touch()
    with pytest.raises(NotADirectoryError):
        opened(volume, "file/x")
    with pytest.raises(NotADirectoryError):
        opened(volume / "file", "x")


def test_a_disk_that_is_full(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is not hidden, and nothing stays open."""
    before = len(list(Path("/proc/self/fd").iterdir()))

    def full(name: str, dir_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(OSError, match="No space left"):
        opened(volume, "x")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
