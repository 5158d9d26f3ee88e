"""The node is read from its files; what is not there is left out."""

from pathlib import Path

import pytest

from interpose.errors import ConfigError
from interpose.node.pods.cri_config.dns import ResolvConf
from interpose.node.pods.node_probe import node_addresses, read_node


def write(top: Path, files: dict[str, str]) -> None:
    """Files below a folder."""
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_node_with_everything(tmp_path: Path) -> None:
    """Memory, pages, names and what containers must not see."""
    write(
        tmp_path,
        {
            "proc/meminfo": "MemFree: 1 kB\nMemTotal:       2048 kB\n",
            "proc/self/cgroup": "0::/own\n",
            "cg/cgroup.controllers": "memory\n",
            "cg/own/memory.swap.max": "max\n",
            "sys/kernel/mm/hugepages/hugepages-1048576kB/x": "",
            "sys/kernel/mm/hugepages/hugepages-2048kB/x": "",
            "sys/kernel/mm/hugepages/other/x": "",
            "sys/devices/system/cpu/cpu10/thermal_throttle/x": "",
            "sys/devices/system/cpu/cpu2/thermal_throttle/x": "",
            "sys/devices/system/cpu/cpu1/online": "",
            "sys/devices/system/cpu/cpufreq/thermal_throttle/x": "",
            "sys/fs/selinux/enforce": "0",
            "etc/hosts": "127.0.0.1 localhost\n",
            "etc/resolv.conf": "nameserver 1.1.1.1\n",
        },
    )
    node = read_node(host=str(tmp_path), cgroup_mount=str(tmp_path / "cg"), name="n", addresses=("10.0.0.1",))
    assert (node.name, node.memory, node.cgroup_version, node.swap_limits) == ("n", 2048 * 1024, 2, True)
    assert node.allocatable["memory"] == 2048 * 1024
    assert node.allocatable["cpu"] >= 1
    assert node.hugepage_sizes == ("2MB", "1GB")
    assert node.selinux
    assert node.masked_thermal == (
        "/sys/devices/system/cpu/cpu2/thermal_throttle",
        "/sys/devices/system/cpu/cpu10/thermal_throttle",
    )
    assert (node.hosts, node.resolv.servers, node.addresses) == ("127.0.0.1 localhost\n", ("1.1.1.1",), ("10.0.0.1",))


def test_a_node_with_nothing(tmp_path: Path) -> None:
    """Everything has a value that can be worked with."""
    node = read_node(host=str(tmp_path), cgroup_mount=str(tmp_path))
    assert node.name
    assert node.addresses
    assert (node.memory, node.cgroup_version, node.swap_limits, node.selinux) == (1, 1, False, False)
    assert (node.hugepage_sizes, node.masked_thermal, node.hosts, node.resolv) == ((), (), "", ResolvConf())


def test_swap_of_the_first_version(tmp_path: Path) -> None:
    """By the file of the memory controller."""
    write(tmp_path, {"memory/memory.memsw.limit_in_bytes": "1", "cpu/x": ""})
    node = read_node(host=str(tmp_path), cgroup_mount=str(tmp_path))
    assert (node.cgroup_version, node.swap_limits) == (1, True)


@pytest.mark.parametrize(
    ("own", "behind", "expected"),
    [
        ("nameserver 127.0.0.53", "nameserver 8.8.8.8", "8.8.8.8"),
        ("nameserver 127.0.0.53", "", "127.0.0.53"),
        ("nameserver 9.9.9.9", "nameserver 8.8.8.8", "9.9.9.9"),
        ("nameserver ::1", "nameserver 8.8.8.8", "8.8.8.8"),
    ],
)
def test_a_stub_on_the_nodes_loopback_is_looked_behind(tmp_path: Path, own: str, behind: str, expected: str) -> None:
    """From a pod's network it could not be reached."""
    write(tmp_path, {"etc/resolv.conf": own, "run/systemd/resolve/resolv.conf": behind})
    assert read_node(host=str(tmp_path), cgroup_mount=str(tmp_path)).resolv.servers == (expected,)


def test_a_resolv_conf_that_was_asked_for(tmp_path: Path) -> None:
    """It counts as it is, and must be there; none at all is no DNS."""
    write(tmp_path, {"mine": "nameserver 127.0.0.53"})
    mine = str(tmp_path / "mine")
    assert read_node(host=str(tmp_path), cgroup_mount="/x", resolv_conf=mine).resolv.servers == ("127.0.0.53",)
    assert read_node(host=str(tmp_path), cgroup_mount="/x", resolv_conf="").resolv.searches == (".",)
    with pytest.raises(ConfigError, match=r"resolv.conf .*none: No such file or directory"):
        read_node(resolv_conf=str(tmp_path / "none"))


def test_the_node_has_an_address() -> None:
    """Its own, or that to itself."""
    assert all(address and "0.0.0.0" not in address for address in node_addresses())
