"""Mounts as the kernel lists and makes them."""

import os
from pathlib import Path

import pytest

from interpose.node.pods.volumes.mounts import SystemMounter, mounts_below

INFO = rb"""22 1 0:21 / / rw - ext4 /dev/a rw
30 22 0:30 / /p/pods/u rw shared:1 - tmpfs tmpfs rw
31 30 0:31 / /p/pods/u/volumes/a rw - tmpfs tmpfs rw
32 30 0:31 / /p/pods/u/volumes/a rw - tmpfs tmpfs rw
33 22 0:32 / /p/pods/u2 rw - tmpfs tmpfs rw
34 22 0:32 / /p/pods/u/with\040blank\134x rw - tmpfs tmpfs rw
broken
"""


def test_mounts_are_found_by_their_folder() -> None:
    """The innermost first, stacked ones each; a neighbour whose name begins alike is none."""
    a = "/p/pods/u/volumes/a"
    assert mounts_below(INFO, "/p/pods/u") == ["/p/pods/u/with blank\\x", a, a, "/p/pods/u"]
    assert mounts_below(INFO, a) == [a, a]
    assert mounts_below(INFO, "/elsewhere") == []


@pytest.fixture
def mounting(tmp_path: Path) -> SystemMounter:
    """The kernel, if it lets us."""
    mounting = SystemMounter()
    probe = tmp_path / "probe"
    probe.mkdir()
    try:
        mounting.tmpfs(str(probe), "")
    except OSError as error:
        pytest.skip(f"mounting needs root: {error}")
    mounting.unmount(str(probe))
    return mounting


def test_a_tmpfs_comes_and_goes(mounting: SystemMounter, tmp_path: Path) -> None:
    """With its options, even while somebody is in it."""
    place = tmp_path / "with blank"
    place.mkdir()
    mounting.tmpfs(str(place), "size=65536,mode=2770")
    assert mounting.possible
    assert mounting.below(str(tmp_path)) == [str(place)]
    assert os.statvfs(place).f_blocks * os.statvfs(place).f_frsize == 65536
    assert place.stat().st_mode & 0o7777 == 0o2770
    with (place / "held").open("w"):
        mounting.unmount(str(place))
    assert mounting.below(str(tmp_path)) == []
    assert list(place.iterdir()) == []


def test_huge_pages_come_and_go(mounting: SystemMounter, tmp_path: Path) -> None:
    """With the size of their pages, where the kernel has them."""
    sizes = sorted(Path("/sys/kernel/mm/hugepages").glob("hugepages-*kB"))
    if not sizes:
        pytest.skip("this kernel has no huge pages")
    size = int(sizes[0].name.removeprefix("hugepages-").removesuffix("kB")) * 1024
    mounting.hugetlbfs(str(tmp_path), f"mode=777,gid=0,pagesize={size}")
    assert mounting.below(str(tmp_path)) == [str(tmp_path)]
    assert os.statvfs(tmp_path).f_bsize == size
    assert tmp_path.stat().st_mode & 0o7777 == 0o777
    mounting.unmount(str(tmp_path))
    assert mounting.below(str(tmp_path)) == []


def test_a_bind_shows_what_a_descriptor_stands_for(mounting: SystemMounter, tmp_path: Path) -> None:
    """Though its path is another's meanwhile."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "mine").touch()
    fd = os.open(source, os.O_PATH)
    source.rename(tmp_path / "moved")
    source.mkdir()
    try:
        mounting.bind(fd, str(target))
    finally:
        os.close(fd)
    assert [one.name for one in target.iterdir()] == ["mine"]
    mounting.unmount(str(target))


def test_failures_name_the_target(tmp_path: Path) -> None:
    """The system's own words."""
    with pytest.raises(OSError, match="nothing"):
        SystemMounter().unmount(str(tmp_path / "nothing"))
    with pytest.raises(OSError, match="nothing"):
        SystemMounter().tmpfs(str(tmp_path / "nothing"), "")
