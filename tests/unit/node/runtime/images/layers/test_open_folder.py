"""Folders of a tree, one open at a time."""

import os
from pathlib import Path

import pytest

from interpose.node.runtime.images.layers.open_folder import FOLDER, OpenFolder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two folders with a folder each, and a link."""
    for name in ("a/b", "c/d"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    return tmp_path


def descriptors() -> int:
    """How many files are open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def is_at(descriptor: int, path: Path) -> bool:
    """Whether a descriptor is of this folder."""
    return Path(f"/proc/self/fd/{descriptor}").samefile(path)


def test_one_folder_is_open_at_a_time(tree: Path) -> None:
    """The one that was asked for last, once."""
    before = descriptors()
    with OpenFolder(tree) as folders:
        for place in (("a",), ("a", "b"), ("a", "b"), ("c", "d"), ()):
            found = folders.at(place)
            assert is_at(found, tree.joinpath(*place))
            assert folders.at(place) == found
            assert descriptors() == before + 2
        folders.leave()
        assert descriptors() == before + 1
    assert descriptors() == before


def test_from_the_one_above(tree: Path) -> None:
    """It is found there even if it has another name by now."""
    with OpenFolder(tree) as folders:
        folders.at(("a",))
        (tree / "a").rename(tree / "moved")
        assert is_at(folders.inside(("a", "b")), tree / "moved/b")
        assert is_at(folders.inside(("c",)), tree / "c")
        with pytest.raises(FileNotFoundError):
            folders.inside(("a",))


@pytest.mark.parametrize("place", [("link",), ("link", "b"), ("no",)])
def test_links_lead_nowhere(tree: Path, place: tuple[str, ...]) -> None:
    """Nor is anything left open."""
    with OpenFolder(tree) as folders:
        folders.at(("a",))
        before = descriptors()
        with pytest.raises(OSError, match=r"link|no"):
            folders.at(place)
        assert descriptors() == before


def test_folders_can_be_made_on_the_way(tree: Path) -> None:
    """By whoever opens them."""
    asked = []

    def enter(folder: int, place: tuple[str, ...]) -> int:
        asked.append(place)
        os.mkdir(place[-1], dir_fd=folder)
        return os.open(place[-1], FOLDER, dir_fd=folder)

    with OpenFolder(tree) as folders:
        folders.at(("x", "y"), enter)
        assert asked == [("x",), ("x", "y")]
        assert (tree / "x/y").is_dir()
