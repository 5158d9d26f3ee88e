"""Reading /sys: copies of it in a folder, and the real one."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from interpose.core.topology.node_memory import NodeMemory
from interpose.core.topology.parse import CPUS, NODES, parse_sysfs
from interpose.host.sysfs import read_files, read_node_memory, read_online_cpus, read_topology

MACHINE: Mapping[str, str] = {
    f"{CPUS}/online": "0-1\n",
    f"{CPUS}/isolated": "1\n",
    f"{CPUS}/cpu0/topology/physical_package_id": "0\n",
    f"{CPUS}/cpu0/topology/thread_siblings_list": "0-1\n",
    f"{CPUS}/cpu1/topology/physical_package_id": "0\n",
    f"{CPUS}/cpu1/topology/thread_siblings_list": "0-1\n",
    f"{CPUS}/cpu1/cache/index3/level": "3\n",
    f"{CPUS}/cpu1/cache/index3/shared_cpu_list": "0-1\n",
    f"{NODES}/node4/cpulist": "0-1\n",
    f"{NODES}/node4/meminfo": "Node 4 MemTotal: 1000 kB\n",
    f"{NODES}/node4/distance": "10\n",
    "devices/cpu_core/cpus": "0\n",
    "devices/cpu_atom/cpus": "1\n",
}
OTHER: Mapping[str, str] = {
    f"{CPUS}/cpu0/topology/core_cpus": "3\n",
    f"{CPUS}/cpu0/uevent": "\n",
    f"{CPUS}/cpufreq/boost": "1\n",
    f"{NODES}/node4/vmstat": "x 1\n",
    "kernel/notes": "secret\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A /sys with files of use and others."""
    for path, text in {**MACHINE, **OTHER}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for cpu in ("cpu0", "cpu1"):
        (tmp_path / CPUS / cpu / "node4").symlink_to("../../node/node4")
    return tmp_path


def test_exactly_what_is_of_use_is_read(root: Path) -> None:
    """Links are files without text."""
    assert read_files(str(root)) == {**MACHINE, f"{CPUS}/cpu0/node4": "", f"{CPUS}/cpu1/node4": ""}


def test_the_topology_is_that_of_the_files(root: Path) -> None:
    """The topology has the name that was passed."""
    assert read_topology(str(root), "mine") == parse_sysfs(read_files(str(root)), "mine")


def test_the_folder_above_sys_will_do(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """As in a copy of a machine."""
    above = tmp_path_factory.mktemp("copy")
    (above / "sys").symlink_to(root)
    assert read_topology(str(above)) == read_topology(str(root))


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """The error names the folder that is no sysfs."""
    with pytest.raises(FileNotFoundError, match=f"there is no {CPUS} in it: '{tmp_path}'"):
        read_topology(str(tmp_path))


def test_a_file_with_garbage_is_named(root: Path) -> None:
    """With the folder it was found in, and its text."""
    (root / NODES / "node4/cpulist").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=f"^{root}: file {NODES}/node4/cpulist: .* is not a list"):
        read_topology(str(root))


def test_a_folder_where_a_file_should_be_says_nothing(root: Path) -> None:
    """And neither does a file where a folder should be."""
    (root / CPUS / "cpu0/cache").write_text("")
    (root / CPUS / "cpu0/online").mkdir()
    assert str(read_topology(str(root)).online) == "0-1"


def test_a_machine_without_nodes_is_read(tmp_path: Path) -> None:
    """A kernel without NUMA has no such folder."""
    (tmp_path / CPUS).mkdir(parents=True)
    (tmp_path / CPUS / "online").write_text("0-3\n")
    assert str(read_topology(str(tmp_path)).numa[0]) == "0-3"


def test_a_file_that_may_not_be_read_is_an_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a machine of which less is known."""
    opened = Path.open

    def guarded(path: Path, *args: object, **options: object) -> object:
        if path.name == "cpulist":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", guarded)
    with pytest.raises(PermissionError, match="cpulist"):
        read_topology(str(root))


def test_a_cpu_that_goes_offline_meanwhile_makes_it_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the parts fit together."""
    opened, online = Path.open, root / CPUS / "online"
    siblings = root / CPUS / "cpu0/topology/thread_siblings_list"

    def racing(path: Path, *args: object, **options: object) -> object:
        if path == siblings and online.read_bytes() == b"0-1\n":
            online.write_text("0\n")
        return opened(path, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", racing)
    assert str(read_topology(str(root)).online) == "0"


def test_what_is_online_is_one_text(root: Path) -> None:
    """It changes when a CPU goes, or when it is isolated, and not otherwise."""
    before = read_online_cpus(str(root))
    assert read_online_cpus(str(root)) == before
    (root / CPUS / "isolated").write_text("\n")
    without = read_online_cpus(str(root))
    (root / CPUS / "online").write_text("0\n")
    assert len({before, without, read_online_cpus(str(root))}) == 3


def test_a_kernel_without_the_lists_has_a_text_too(tmp_path: Path) -> None:
    """A kernel without the lists gives a text that never changes."""
    (tmp_path / CPUS).mkdir(parents=True)
    assert read_online_cpus(str(tmp_path)) == "\n"


def test_this_machine_can_be_read() -> None:
    """The topology of the machine that runs the test can be read."""
    found = read_topology()
    assert found.online
    assert all(cpu.id in found.numa[cpu.node] for cpu in found.cpus)


def test_what_nodes_have_left(root: Path) -> None:
    """Those that say it; here node 4 does not, and node 7 has gone while it was read."""
    (root / NODES / "node5").mkdir()
    (root / NODES / "node5/meminfo").write_text("Node 5 MemTotal: 1000 kB\nNode 5 MemFree: 10 kB\n")
    (root / NODES / "node7").mkdir()
    (root / NODES / "node5/hugepages/hugepages-64kB").mkdir(parents=True)
    (root / NODES / "node5/hugepages/hugepages-64kB/nr_hugepages").write_text("10\n")
    assert read_node_memory(str(root)) == {5: NodeMemory(360 * 1024, 10 * 1024)}
