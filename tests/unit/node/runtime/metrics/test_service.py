"""What the node can tell, and the names of its devices. The calls themselves: tests/e2e/test_cri_conformance.py."""

import os
from pathlib import Path

import pytest

from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.node.runtime.metrics.families import NodeOffer
from interpose.node.runtime.metrics.service import device_name, filesystem_space, node_offers


class Files:
    """A hierarchy with or without huge pages."""

    def __init__(self, controllers: str) -> None:
        self.controllers = controllers.split()

    def read(self, path: str) -> str:
        if path == "/cg/cgroup.controllers":
            return " ".join(self.controllers)
        raise FileNotFoundError(path)

    def exists(self, path: str) -> bool:
        return path.endswith("cgroup.procs")

    def directories(self, path: str) -> list[str]:
        if path == "/sys/kernel/mm/hugepages":
            return ["hugepages-1048576kB", "hugepages-2048kB", "hugepages-64kB"]
        return self.controllers

    def write(self, path: str, text: str) -> None:
        raise AssertionError(path, text)

    def make_directory(self, path: str) -> None:
        raise AssertionError(path)

    def remove_directory(self, path: str) -> None:
        raise AssertionError(path)


def cgroups(version: int, controllers: str) -> CgroupDirs:
    """Cgroups of a node with these controllers."""
    return CgroupDirs(Files(controllers), "/cg", version=version)


@pytest.mark.parametrize(
    ("version", "controllers", "pressure", "offers"),
    [
        (1, "cpu memory", True, set()),
        (1, "cpu hugetlb", False, {NodeOffer.HUGE_PAGES, NodeOffer.MOST_HUGE_PAGES}),
        (2, "cpu memory", True, {NodeOffer.PRESSURE}),
        (2, "cpu hugetlb", False, {NodeOffer.HUGE_PAGES}),
    ],
)
def test_what_a_node_can_tell(
    tmp_path: Path, version: int, controllers: str, pressure: bool, offers: set[NodeOffer]
) -> None:
    """Pressure belongs to cgroup v2, huge pages to their controller, the most there were of them to v1."""
    if pressure:
        (tmp_path / "pressure").mkdir()
    assert node_offers(cgroups(version, controllers), tmp_path / "pressure") == offers


def test_sizes_of_huge_pages() -> None:
    """As the kernel writes them in file names."""
    assert cgroups(2, "hugetlb").huge_page_sizes == ("64KB", "2MB", "1GB")
    assert cgroups(1, "cpu").huge_page_sizes == ()


def test_the_file_system_of_a_folder(tmp_path: Path) -> None:
    """With the name of what is mounted there, as far as it is known."""
    (tmp_path / "mounts").write_text(
        f"36 35 8:1 / / rw - ext4 /dev/root rw\n37 36 8:2 / {tmp_path} rw - xfs /dev/b rw\n"
    )
    space = filesystem_space(tmp_path, tmp_path / "mounts")
    assert space is not None
    assert space.device == "/dev/b"
    assert space.bytes == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize
    assert space.inodes >= space.inodes_free >= 0
    (tmp_path / "mounts").write_text("")
    unnamed = filesystem_space(tmp_path, tmp_path / "mounts")
    assert unnamed is not None
    assert unnamed.device == unnamed.number == space.number
    assert filesystem_space(tmp_path / "none", tmp_path / "mounts") is None


def test_names_of_devices(tmp_path: Path) -> None:
    """By their numbers; one that is not there has those for a name."""
    (tmp_path / "254:1").symlink_to("../../devices/virtio/block/vda/vda1")
    assert device_name("254:1", tmp_path) == "/dev/vda1"
    assert device_name("0:45", tmp_path) == "0:45"
