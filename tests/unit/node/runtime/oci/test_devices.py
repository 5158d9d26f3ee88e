"""Devices of containers."""

import os
from pathlib import Path

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.oci.devices import all_devices, wanted_devices
from interpose.node.runtime.oci.spec_types import SpecError


def test_a_device_by_path() -> None:
    """Numbers of the node, under the name the container knows."""
    (found,) = wanted_devices([cri.Device(host_path="/dev/null", container_path="/dev/./x", permissions="rw")])
    assert (found.path, found.kind, found.major, found.minor, found.access) == ("/dev/x", "c", 1, 3, "rw")


def test_a_device_through_a_link_with_all_rights(tmp_path: Path) -> None:
    """What the link leads to; no rights said is all of them."""
    (tmp_path / "link").symlink_to("/dev/zero")
    (found,) = wanted_devices([cri.Device(host_path=str(tmp_path / "link"))])
    assert (found.minor, found.access, found.path) == (5, "rwm", str(tmp_path / "link"))


def test_the_last_word_about_a_place_counts() -> None:
    """Two for one place are one."""
    both = [cri.Device(host_path=path, container_path="/dev/x") for path in ("/dev/null", "/dev/zero")]
    assert [one.minor for one in wanted_devices(both)] == [5]


@pytest.mark.parametrize(
    ("device", "problem"),
    [
        (cri.Device(host_path="/dev/null", permissions="rx"), r"devices\[0\].permissions: 'rx'"),
        (cri.Device(), r"devices\[0\].host_path: is empty"),
        (cri.Device(host_path="/dev/no-such"), "'/dev/no-such': No such file"),
        (cri.Device(host_path="/etc/passwd"), "'/etc/passwd' is not a device"),
    ],
)
def test_devices_that_cannot_be_had(device: cri.Device, problem: str) -> None:
    """Field and value are named."""
    with pytest.raises(SpecError, match=problem):
        wanted_devices([device])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make devices")
def test_a_folder_of_devices(tmp_path: Path) -> None:
    """All nodes in it and below; files are none."""
    (tmp_path / "deep").mkdir()
    for name in ("a", "deep/b"):
        os.mknod(tmp_path / name, 0o600 | 0o020000, os.makedev(1, 3))
    (tmp_path / "file").touch()
    found = wanted_devices([cri.Device(host_path=str(tmp_path), container_path="/dev/all")])
    assert [one.path for one in found] == ["/dev/all/a", "/dev/all/deep/b"]


def test_all_devices_of_the_machine() -> None:
    """Without what every container has of its own."""
    paths = {one.path for one in all_devices()}
    assert "/dev/null" in paths
    assert not any(path.startswith(("/dev/pts/", "/dev/shm/", "/dev/console")) for path in paths)


def test_a_folder_that_is_not_there() -> None:
    """A machine without devices has none."""
    assert all_devices("/no/such/folder") == ()
