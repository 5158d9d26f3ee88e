"""Topology hints: which folder of sysfs says where a device is, and which hints help to choose."""

import pytest

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.hints import DeviceFolder, TopologyHint, device_hint, hint_record, useful_hints
from tests.support.policy.machines import machine

PCI = DeviceFolder(path="/pci", files={"local_cpulist": "8-15", "numa_node": "2"})


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def folder(path: str = "/dev", **files: str) -> DeviceFolder:
    return DeviceFolder(path=path, files=files)


@pytest.mark.parametrize(
    ("folders", "hint"),
    [
        ([], None),
        ([folder(), folder(numa_node="-1")], None),
        ([PCI], TopologyHint(provider="/pci", cpus=cpus("8-15"), nodes=cpus("2"))),
        ([folder(), PCI], TopologyHint(provider="/pci", cpus=cpus("8-15"), nodes=cpus("2"))),
        ([folder(cpulistaffinity="0-3"), PCI], TopologyHint(provider="/dev", cpus=cpus("0-3"))),
        ([folder(cpulist="4", shared_cpu_list="5")], TopologyHint(provider="/dev", cpus=cpus("4"))),
        ([folder(shared_cpu_list="5-6")], TopologyHint(provider="/dev", cpus=cpus("5-6"))),
        ([folder(local_cpulist="", cpulist="7")], TopologyHint(provider="/dev", cpus=cpus("7"))),
        ([folder(local_cpulist="none")], None),
    ],
)
def test_the_nearest_folder_with_cpus_counts(folders: list[DeviceFolder], hint: TopologyHint | None) -> None:
    """Of several lists of CPUs in it the first one; what cannot be read is not there."""
    assert device_hint(folders) == hint


def test_a_node_without_cpus_has_those_of_a_folder_above() -> None:
    """A controller says its node only, its slot has the CPUs; the node of the slot counts before its own."""
    assert device_hint([folder("/nvme0", numa_node="1"), PCI]) == TopologyHint(
        provider="/nvme0", cpus=cpus("8-15"), nodes=cpus("2")
    )
    above = folder("/pci", local_cpulist="8-15", numa_node="-1")
    assert device_hint([folder("/nvme0", numa_node="1"), above]) == TopologyHint(
        provider="/nvme0", cpus=cpus("8-15"), nodes=cpus("1")
    )


def test_a_node_without_cpus_anywhere_is_a_package() -> None:
    """Firmware that knows no better writes the number of the package there."""
    hint = TopologyHint(provider="/dev", packages=cpus("1"))
    assert device_hint([folder(numa_node="1")]) == hint
    assert device_hint([folder(numa_node="1"), folder("/pci", numa_node="0")]) == hint


def test_hints_that_do_not_help_are_left_out() -> None:
    """All CPUs, CPUs that are not online, nodes that are not there; and a device that is told twice."""
    # Packages 0-7 and 8-15, two NUMA nodes in each.
    topology = machine("n4c16")
    hints = [
        TopologyHint(provider="a", cpus=cpus("0-15")),
        TopologyHint(provider="b", cpus=cpus("0-3,99"), nodes=cpus("0,9")),
        TopologyHint(provider="c", packages=cpus("7")),
        TopologyHint(provider="d", packages=cpus("1"), nodes=cpus("0-3")),
        TopologyHint(provider="b", cpus=cpus("4-7")),
    ]
    assert useful_hints(hints, topology) == (
        TopologyHint(provider="b", cpus=cpus("0-3"), nodes=cpus("0")),
        TopologyHint(provider="d", packages=cpus("1")),
    )


def test_a_hint_is_shown_as_plain_values() -> None:
    """Sets are texts; an empty one is an empty text."""
    assert hint_record(TopologyHint(provider="/x", cpus=cpus("0-3"), nodes=cpus("1"), packages=EMPTY)) == {
        "provider": "/x",
        "cpus": "0-3",
        "nodes": "1",
        "packages": "",
    }
