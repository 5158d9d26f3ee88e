"""Paths inside a root file system."""

import os
from pathlib import Path

import pytest

from interpose.node.runtime.fs.scoped_path import open_inside, read_inside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An image with a secret of the host beside it."""
    (tmp_path / "secret").write_text("host")
    made = tmp_path / "root"
    (made / "etc").mkdir(parents=True)
    (made / "etc/passwd").write_text("image")
    return made


def test_a_file(root: Path) -> None:
    """Plain, with dots in its path, and cut to a limit."""
    assert read_inside(str(root), "/etc/./../etc/passwd") == "image"
    assert read_inside(str(root), "etc/passwd", limit=2) == "im"


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../etc/passwd", "/up/passwd"])
def test_links_stay_inside(root: Path, target: str) -> None:
    """Absolute ones begin at the image's root, none climbs above it."""
    (root / "up").symlink_to("../../../etc")
    (root / "link").symlink_to(target)
    assert read_inside(str(root), "link") == "image"


def test_a_link_out_finds_nothing(root: Path) -> None:
    """The host's file is not there."""
    (root / "link").symlink_to(root.parent / "secret")
    (root / "climb").symlink_to("../secret")
    assert read_inside(str(root), "link") is None
    assert read_inside(str(root), "climb") is None


@pytest.mark.parametrize("path", ["nothing", "etc/passwd/deeper", "etc", "loop", "pipe"])
def test_what_is_no_file(root: Path, path: str) -> None:
    """Also a folder, a loop, and a pipe, which is not waited for."""
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    assert read_inside(str(root), path) is None


def _descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_descriptors_are_closed(root: Path) -> None:
    """Also of paths that lead nowhere."""
    before = _descriptors()
    read_inside(str(root), "etc/passwd/x")
    with open_inside(str(root), "etc/.."):
        pass
    assert _descriptors() == before


def test_other_errors_are_told(root: Path) -> None:
    """Only what says that there is no such file means that."""
    with pytest.raises(OSError, match="too long"):
        read_inside(str(root), "y" * 300)
