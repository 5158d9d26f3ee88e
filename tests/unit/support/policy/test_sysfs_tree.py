"""A machine written as files is the machine that is read from them."""

from dataclasses import replace
from pathlib import Path

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.host.sysfs import read_online_cpus, read_topology
from tests.support.policy.machines import NAMED, machine
from tests.support.policy.sysfs_tree import write_sysfs


@pytest.mark.parametrize("name", NAMED)
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    """Every named machine."""
    wanted = machine(name)
    root = write_sysfs(wanted, tmp_path)
    found = read_topology(str(root / "sys"))
    assert found.fingerprint == wanted.fingerprint
    assert [(one.id, one.package, one.node, one.core) for one in found.cpus] == [
        (one.id, one.package, one.node, one.core) for one in wanted.cpus
    ]
    assert [(node.id, node.cpus, dict(node.distances)) for node in found.nodes] == [
        (node.id, node.cpus, dict(node.distances)) for node in wanted.nodes
    ]


def test_cpus_can_be_unplugged_and_come_back(tmp_path: Path) -> None:
    """The same folder, written again."""
    everything = machine("n4c16")
    gone = CpuSet.parse("3,15")
    less = replace(
        everything,
        cpus=tuple(one for one in everything.cpus if one.id not in gone),
        nodes=tuple(replace(node, cpus=node.cpus - gone) for node in everything.nodes),
        offline=gone,
        isolated=CpuSet.parse("14"),
    )
    sys = str(write_sysfs(everything, tmp_path) / "sys")
    before = read_online_cpus(sys)
    write_sysfs(less, tmp_path)
    assert read_online_cpus(sys) != before
    found = read_topology(sys)
    assert (found.online, found.offline, found.isolated) == (less.online, gone, less.isolated)
    write_sysfs(everything, tmp_path)
    assert read_topology(sys).fingerprint == everything.fingerprint
