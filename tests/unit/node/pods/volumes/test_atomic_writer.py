"""Volumes of files change as a whole."""

import os
from pathlib import Path

import pytest

from interpose.node.pods.volumes.atomic_writer import VolumeFile, check_file_path, write_files

A = {"a": VolumeFile(content=b"1", mode=0o640), "d/e/f": VolumeFile(content=b"2", mode=0o400)}


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(one.name for one in folder.iterdir())


def seen(volume: Path) -> dict[str, bytes]:
    """What a container sees: names without the hidden ones, links followed."""
    found = {}
    for top in volume.iterdir():
        if not top.name.startswith(".."):
            for path in [top, *top.rglob("*")]:
                if path.is_file():
                    found[str(path.relative_to(volume))] = path.read_bytes()
    return found


def test_files_with_content_and_mode(tmp_path: Path) -> None:
    """In folders too."""
    volume = tmp_path / "deep/volume"
    write_files(str(volume), A)
    assert seen(volume) == {"a": b"1", "d/e/f": b"2"}
    assert [(volume / name).stat().st_mode & 0o777 for name in ("a", "d/e/f", "d", ".")] == [0o640, 0o400, 0o755, 0o755]


def test_again_changes_nothing(tmp_path: Path) -> None:
    """Not even an inode."""
    write_files(str(tmp_path), A)
    before = {name: os.lstat(tmp_path / name).st_ino for name in names(tmp_path)}
    write_files(str(tmp_path), A)
    assert {name: os.lstat(tmp_path / name).st_ino for name in names(tmp_path)} == before


def test_other_files_take_their_place(tmp_path: Path) -> None:
    """The old ones are gone, and who has one open keeps reading it."""
    write_files(str(tmp_path), A)
    with (tmp_path / "a").open("rb") as held:
        write_files(
            str(tmp_path), {"a": VolumeFile(content=b"9", mode=0o644), "new": VolumeFile(content=b"", mode=0o644)}
        )
        assert held.read() == b"1"
    assert seen(tmp_path) == {"a": b"9", "new": b""}
    assert len([name for name in names(tmp_path) if name.startswith("..")]) == 2


def test_a_group_can_read_them(tmp_path: Path) -> None:
    """What is made there later belongs to it as well."""
    group = os.getgid()
    write_files(str(tmp_path), A, group)
    assert (tmp_path / "d/e/f").stat().st_mode & 0o7777 == 0o440
    assert (tmp_path / "d/e").stat().st_mode & 0o7777 == 0o2755
    assert (tmp_path / "d/e/f").stat().st_gid == group


@pytest.mark.parametrize("path", ["", "/a", "a/../b", "..", "..data", "..x/y", "a//b", "./a", "a\0"])
def test_paths_that_are_none(path: str, tmp_path: Path) -> None:
    """Nothing is written before all of them are good."""
    with pytest.raises(ValueError, match="must be a relative path"):
        check_file_path(path)
    with pytest.raises(ValueError, match="must be a relative path"):
        write_files(str(tmp_path / "v"), {"good": A["a"], path: A["a"]})
    assert not (tmp_path / "v").exists()


def test_what_was_left_is_cleared_away(tmp_path: Path) -> None:
    """Half-written folders, links, and things in the way."""
    (tmp_path / "..99.tmp/d").mkdir(parents=True)
    (tmp_path / f"..{os.getpid()}.tmp").mkdir()
    (tmp_path / "..data").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "stray").write_text("x")
    (tmp_path / f"..data.{os.getpid()}.link").symlink_to("nowhere")
    write_files(str(tmp_path), A)
    assert seen(tmp_path) == {"a": b"1", "d/e/f": b"2"}
    assert names(tmp_path)[1:] == ["..data", "a", "d"]


def test_somebody_else_writes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs is as good as ours."""
    write_files(str(tmp_path / "other"), A)
    [name] = [one for one in names(tmp_path / "other") if one.startswith("..") and one != "..data"]
    volume = tmp_path / "volume"
    real = Path.rename

    def faster(path: Path, target: Path) -> Path:
        if not target.exists():
            (tmp_path / "other" / name).replace(target)
        return real(path, target)

    monkeypatch.setattr(Path, "rename", faster)
    write_files(str(volume), A)
    assert seen(volume) == {"a": b"1", "d/e/f": b"2"}
    assert not [one for one in names(volume) if one.endswith(".tmp")]


def test_a_disk_that_does_not_do_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is not hidden."""

    def failing(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="No space left"):
        write_files(str(tmp_path), A)


def test_no_files_at_all(tmp_path: Path) -> None:
    """An empty volume."""
    write_files(str(tmp_path), A)
    write_files(str(tmp_path), {})
    assert seen(tmp_path) == {}
