"""Devices that types of balloons want to be close to, in the sysfs of a host."""

from pathlib import Path

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType
from interpose.core.topology.hints import TopologyHint
from interpose.resmgr.config.device_files import load_devices

SLOT = "sys/devices/pci0000:80/0000:81:00.0"


def options(*paths: str) -> BalloonsOptions:
    """A type that wants to be close to these."""
    return BalloonsOptions(types=(BalloonType(name="net", close_to_devices=paths),))


def test_a_link_to_a_device_is_followed(tmp_path: Path) -> None:
    """A network card by its name: the slot that it is in knows its CPUs."""
    card = tmp_path / SLOT / "net/eth0"
    card.mkdir(parents=True)
    (tmp_path / SLOT / "local_cpulist").write_text("8-15\n")
    link = tmp_path / "sys/class/net/eth0"
    link.parent.mkdir(parents=True)
    link.symlink_to(card)
    hint = TopologyHint(provider="/sys/devices/pci0000:80/0000:81:00.0", cpus=CpuSet.parse("8-15"))
    assert load_devices(options("/sys/class/net/eth0"), str(tmp_path)).devices == {"/sys/class/net/eth0": (hint,)}


def test_what_is_not_there_is_left_out(tmp_path: Path) -> None:
    """A card of another node, a device file that does not exist, and what only the kubelet knows."""
    (tmp_path / "sys/devices").mkdir(parents=True)
    paths = ("/sys/class/net/eth7", "/dev/nvme7", "podresourceapi:nvidia.com/gpu")
    assert load_devices(options(*paths), str(tmp_path)).devices == {}


def test_a_file_that_is_no_device_is_left_out(tmp_path: Path) -> None:
    """A path outside of /sys has to be that of a device file."""
    (tmp_path / "sys/devices").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    assert load_devices(options("/etc"), str(tmp_path)).devices == {}
