"""Which files are believed: by owner, mode, and the folder a link leads to."""

import os
import socket
from pathlib import Path

import pytest

from interpose.host.file_trust import ExaminedFile, Trust, examine, examine_directory

OURS = Trust(uids={os.getuid()}, gids={os.getgid()})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is ours alone."""
    path = tmp_path / "a.yaml"
    path.write_text("x")
    path.chmod(0o644)
    return path


def test_our_own_file_is_believed(file: Path) -> None:
    """And two looks at one version are equal, at two versions are not."""
    first = examine(str(file), OURS)
    assert first.doubts == ()
    assert examine(str(file), OURS) == first
    file.write_text("longer")
    assert examine(str(file), OURS).stamp != first.stamp


@pytest.mark.parametrize(
    ("mode", "trust", "said"),
    [
        (0o646, OURS, ("has mode 0646, everybody may write to it (chmod o-w)",)),
        (0o664, OURS, ()),
        (0o664, Trust(gids=()), (f"has mode 0664, group {os.getgid()} may write to it (chmod g-w)",)),
        (0o644, Trust(uids={12345}), (f"belongs to uid {os.getuid()}, it must belong to uid 12345",)),
    ],
)
def test_a_file_others_can_write_is_not_believed(file: Path, mode: int, trust: Trust, said: tuple[str, ...]) -> None:
    """By owner, group, or everybody."""
    file.chmod(mode)
    assert examine(str(file), trust).doubts == said


def test_of_a_link_the_folder_it_leads_to_counts(tmp_path: Path, file: Path) -> None:
    """There another file can be put in its place."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    file.rename(folder / "a.yaml")
    link = tmp_path / "link.yaml"
    link.symlink_to("open/a.yaml")
    (doubt,) = examine(str(link), OURS).doubts
    assert doubt == f"leads to {folder}, which has mode 0777, everybody may write to it (chmod o-w)"
    folder.chmod(0o755)
    assert examine(str(link), OURS).doubts == ()


def test_what_is_no_file_is_not_believed(tmp_path: Path) -> None:
    """A directory, a socket, a pipe: none is opened."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        found = [examine(str(tmp_path / name), OURS) for name in (".", "s", "pipe")]
    assert [examined.doubts[0].split(",")[0] for examined in found] == [
        "is a directory",
        "is a socket",
        "is a named pipe",
    ]


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    """A link to nothing is nothing."""
    (tmp_path / "link").symlink_to("missing")
    for name in ("missing", "link"):
        with pytest.raises(FileNotFoundError):
            examine(str(tmp_path / name), OURS)


def test_root_and_ourselves_are_trusted_unless_told_otherwise(file: Path) -> None:
    """By default files of root and of our own user are trusted."""
    found: ExaminedFile = examine(str(file), Trust())
    assert found.doubts == ()
    assert set(Trust().uids) == {0, os.getuid()}


def test_a_directory_counts_by_who_may_write_there(tmp_path: Path) -> None:
    """And by the folder it really is in."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    assert examine_directory(str(folder), OURS) == ()
    link = tmp_path / "link"
    link.symlink_to("open/inner")
    (folder / "inner").mkdir()
    assert examine_directory(str(link), OURS) == ()
    folder.chmod(0o777)
    assert examine_directory(str(folder), OURS) == ("has mode 0777, everybody may write to it (chmod o-w)",)
    (doubt,) = examine_directory(str(link), OURS)
    assert doubt == f"leads to {folder}, which has mode 0777, everybody may write to it (chmod o-w)"


def test_what_is_no_directory_does_not_count_as_one(file: Path) -> None:
    """Nor what is not there."""
    assert examine_directory(str(file), OURS) == ("is not a directory",)
    with pytest.raises(FileNotFoundError):
        examine_directory(f"{file}.x", OURS)
