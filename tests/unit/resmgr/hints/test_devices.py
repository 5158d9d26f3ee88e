"""Where devices are: folders of a sysfs in files, links to it, and what they say."""

import os
from pathlib import Path

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.hints import TopologyHint
from interpose.resmgr.hints.devices import DeviceHint, DeviceHints
from interpose.resmgr.hints.rules import HintKind, HintPath

SLOT = "pci0000:80/0000:81:00.0"
NEAR = TopologyHint(provider=f"/sys/devices/{SLOT}", cpus=CpuSet.parse("8-15"), nodes=CpuSet.of((1,)))


class Host:
    """The root of a host with devices in its sysfs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.hints = DeviceHints(str(root))
        (root / "sys/devices").mkdir(parents=True)
        self.write(SLOT, local_cpulist="8-15\n", numa_node="1\n")

    def write(self, folder: str, **files: str) -> Path:
        """A folder of a device, with these files."""
        path = self.root / "sys/devices" / folder
        path.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (path / name).write_text(text)
        return path

    def link(self, link: str, folder: str) -> None:
        """A link somewhere in sysfs to the folder of a device."""
        path = self.root / "sys" / link
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.write(folder))

    def hint(self, kind: str = "block", major: int = 259, minor: int = 0) -> list[TopologyHint]:
        """The hints of a device by its numbers."""
        return [found.hint for found in self.hints.find_number(kind, major, minor)]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_device_is_where_a_folder_above_it_is(host: Host) -> None:
    """A disk says nothing; its slot does."""
    host.link("dev/block/259:0", f"{SLOT}/nvme/nvme0/nvme0n1")
    assert host.hints.find_number("block", 259, 0) == (DeviceHint(f"/sys/devices/{SLOT}/nvme/nvme0/nvme0n1", NEAR),)
    assert host.hint("char") == []


def test_a_device_of_devices_is_where_these_are(host: Host) -> None:
    """A volume of an encrypted disk, each in the folder of what it is made of."""
    host.link("dev/block/253:1", "virtual/block/dm-1")
    host.link("devices/virtual/block/dm-1/slaves/dm-0", "virtual/block/dm-0")
    host.link("devices/virtual/block/dm-0/slaves/nvme0n1", f"{SLOT}/nvme0n1")
    host.link("devices/virtual/block/dm-0/slaves/sda", "pci0000:00/sda")
    host.write("pci0000:00", local_cpulist="0-7")
    other = TopologyHint(provider="/sys/devices/pci0000:00", cpus=CpuSet.parse("0-7"))
    assert host.hint(major=253, minor=1) == [NEAR, other]


def test_a_device_that_is_made_of_itself_has_an_end(host: Host) -> None:
    """Links can be anything; and a device that is made of nothing is nowhere."""
    host.link("dev/block/253:0", "virtual/block/dm-0")
    assert host.hint(major=253) == []
    host.link("dev/block/253:1", "virtual/block/dm-1")
    host.link("devices/virtual/block/dm-1/slaves/dm-1", "virtual/block/dm-1")
    assert host.hint(major=253, minor=1) == []


def test_a_vfio_group_is_where_its_devices_are(host: Host) -> None:
    """They are in the IOMMU group of the same number."""
    host.link("dev/char/243:0", "virtual/vfio/12")
    host.link("kernel/iommu_groups/12/devices/0000:81:00.0", SLOT)
    assert host.hint("char", 243) == [NEAR]


def test_what_leads_out_of_the_devices_is_none(host: Host, tmp_path: Path) -> None:
    """Nor is a device whose folder is gone."""
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/1:0").symlink_to(tmp_path)
    (tmp_path / "sys/dev/block/1:1").symlink_to(tmp_path / "sys/devices/gone")
    assert host.hint(major=1, minor=0) == []
    assert host.hint(major=1, minor=1) == []


def test_devices_are_remembered(host: Host) -> None:
    """By their folder: numbers are given again to other devices."""
    host.link("dev/block/259:0", f"{SLOT}/nvme0n1")
    assert host.hint() == [NEAR]
    host.write(SLOT, local_cpulist="0-3")
    assert host.hint() == [NEAR]
    (host.root / "sys/dev/block/259:0").unlink()
    host.link("dev/block/259:0", "pci0000:00/sda")
    assert host.hint() == []


def test_only_so_many_devices_are_remembered(host: Host) -> None:
    """Then all are read again."""
    host.link("dev/block/259:0", f"{SLOT}/nvme0n1")
    assert host.hint() == [NEAR]
    host.write(SLOT, local_cpulist="0-3")
    for number in range(256):
        host.link(f"dev/block/7:{number}", f"virtual/block/loop{number}")
        host.hint(major=7, minor=number)
    assert [str(hint.cpus) for hint in host.hint()] == ["0-3"]


def test_a_path_is_a_device_or_on_a_disk(host: Host, tmp_path: Path) -> None:
    """Of a device its own numbers count, of anything else those of its file system, but not if a device was meant."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/null").symlink_to("/dev/null")
    number = os.stat("/dev/null").st_rdev  # noqa: PTH116
    host.link(f"dev/char/{os.major(number)}:{os.minor(number)}", f"{SLOT}/null")
    assert [found.hint for found in host.hints.find(HintPath("/dev/null", HintKind.DEVICES))] == [NEAR]
    disk = tmp_path.stat().st_dev
    host.write("pci0000:00", local_cpulist="0-7")
    host.link(f"dev/block/{os.major(disk)}:{os.minor(disk)}", "pci0000:00/sda")
    assert [str(found.hint.cpus) for found in host.hints.find(HintPath("/dev", HintKind.MOUNTS))] == ["0-7"]
    assert host.hints.find(HintPath("/dev", HintKind.DEVICES)) == ()


def test_a_path_that_is_not_there_is_an_error(host: Host) -> None:
    """The caller decides what that means."""
    with pytest.raises(FileNotFoundError):
        host.hints.find(HintPath("/gone", HintKind.MOUNTS))
