"""CPUs by NUMA node as the kernel shows them, and the kubelet's assignments as it writes them down."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from interpose.core.model.cpuset import CpuSet, KubeletCpus
from interpose.host.numa_cpus import kubelet_cpu_manager, read_cpus


def machine(root: Path, online: str, sockets: Mapping[int, str], nodes: Mapping[int, str]) -> str:
    """A /sys with these CPUs: of which socket, of which node."""
    cpus = root / "devices/system/cpu"
    cpus.mkdir(parents=True)
    (cpus / "online").write_text(online + "\n")
    for socket, members in sockets.items():
        for cpu in CpuSet.parse(members):
            (cpus / f"cpu{cpu}/topology").mkdir(parents=True)
            (cpus / f"cpu{cpu}/topology/physical_package_id").write_text(f"{socket}\n")
    for node, members in nodes.items():
        (root / f"devices/system/node/node{node}").mkdir(parents=True)
        (root / f"devices/system/node/node{node}/cpulist").write_text(members + "\n")
    return str(root)


def shown(root: str) -> list[tuple[int, int, str]]:
    """What was read, in short."""
    return [(part.socket, part.node, str(part.cpus)) for part in read_cpus(root)]


def test_cpus_are_grouped_by_socket_and_node(tmp_path: Path) -> None:
    """Two sockets with two nodes each, threads far from each other, nodes above nine sorted as numbers."""
    root = machine(
        tmp_path,
        "0-15",
        {0: "0-3,8-11", 1: "4-7,12-15"},
        {0: "0-1,8-9", 1: "2-3,10-11", 2: "4-5,12-13", 10: "6-7,14-15"},
    )
    assert shown(root) == [(0, 0, "0-1,8-9"), (0, 1, "2-3,10-11"), (1, 2, "4-5,12-13"), (1, 10, "6-7,14-15")]


def test_cpus_that_are_offline_do_not_count(tmp_path: Path) -> None:
    """The kernel keeps them in no list of a node, but an old snapshot may."""
    assert shown(machine(tmp_path, "0-2", {0: "0-3"}, {0: "0-3"})) == [(0, 0, "0-2")]


def test_a_kernel_without_numa_has_one_node(tmp_path: Path) -> None:
    """There is no directory of nodes."""
    assert shown(machine(tmp_path, "0-3", {0: "0-1", 1: "2-3"}, {})) == [(0, 0, "0-1"), (1, 0, "2-3")]


def test_a_machine_without_sockets_has_one(tmp_path: Path) -> None:
    """It says -1, or nothing."""
    assert shown(machine(tmp_path, "0-3", {-1: "0-1"}, {0: "0-3"})) == [(0, 0, "0-3")]


def test_a_node_without_cpus_is_left_out(tmp_path: Path) -> None:
    """Memory only, as persistent memory and accelerators are shown."""
    assert shown(machine(tmp_path, "0-1", {0: "0-1"}, {0: "0-1", 1: ""})) == [(0, 0, "0-1")]


def test_no_list_of_cpus_is_an_error(tmp_path: Path) -> None:
    """Nothing can be said without it."""
    with pytest.raises(FileNotFoundError):
        read_cpus(str(tmp_path))


def state(folder: Path, document: object) -> str:
    """The kubelet's directory with this file in it."""
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "cpu_manager_state").write_text(text)
    return str(folder)


def test_assignments_are_read_by_pod_and_container(tmp_path: Path) -> None:
    """As kubelets write them since 1.18."""
    document = {
        "policyName": "static",
        "defaultCpuSet": "0,3-7",
        "entries": {"uid-a": {"main": "1-2", "side": ""}},
        "checksum": 353318679,
    }
    assert kubelet_cpu_manager(state(tmp_path, document)) == KubeletCpus(
        policy="static",
        shared=CpuSet.parse("0,3-7"),
        assigned={"uid-a": {"main": CpuSet.parse("1-2"), "side": CpuSet()}},
    )


def test_assignments_of_old_kubelets_have_no_pod(tmp_path: Path) -> None:
    """They name containers by id."""
    document = {"policyName": "static", "defaultCpuSet": "0", "entries": {"c1": "1", "c2": "2-3"}}
    assigned = kubelet_cpu_manager(state(tmp_path, document)).assigned
    assert assigned == {"": {"c1": CpuSet.parse("1"), "c2": CpuSet.parse("2-3")}}


def test_a_kubelet_without_assignments(tmp_path: Path) -> None:
    """Policy none writes neither entries nor a set."""
    document = {"policyName": "none", "defaultCpuSet": "", "entries": None, "checksum": 1}
    assert kubelet_cpu_manager(state(tmp_path, document)) == KubeletCpus(policy="none")


def test_without_the_file_nothing_is_known(tmp_path: Path) -> None:
    """The kubelet did not start yet, or keeps its things elsewhere."""
    assert kubelet_cpu_manager(str(tmp_path)) == KubeletCpus()
    assert kubelet_cpu_manager(str(tmp_path / "missing")) == KubeletCpus()


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "Expecting property name"),
        ("\x00", "Expecting value"),
        ("[" * 200_000, "nested too deeply"),
        ("[]", "the file: expected a group of keys, found []"),
        ({"policyName": 1}, "policyName: expected text, found 1"),
        ({"defaultCpuSet": "4-"}, "defaultCpuSet: '4-' is not a list of CPUs"),
        ({"entries": [1]}, "entries: expected a group of keys, found [1]"),
        ({"entries": {"uid": 3}}, "entries.'uid': expected a group of keys, found 3"),
        ({"entries": {"uid": {"main": None}}}, "entries.'uid'.'main': expected text, found None"),
        ({"entries": {"uid": {"main": "x"}}}, "entries.'uid'.'main': 'x' is not a list of CPUs"),
        ("0" * (4 << 20) + "0", "is larger than 4194304 bytes"),
    ],
)
def test_what_cannot_be_understood_is_named(tmp_path: Path, document: object, said: str) -> None:
    """File, key and value."""
    folder = state(tmp_path, document)
    with pytest.raises(ValueError) as caught:
        kubelet_cpu_manager(folder)
    assert str(caught.value).startswith(f"file {tmp_path}/cpu_manager_state: ")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 500
