"""Cgroups in a folder of plain files, in the form of v1 and of v2."""

from pathlib import Path

import pytest

from interpose.node.runtime.plain import cgroup as cgroup_module
from interpose.node.runtime.plain.cgroup import Cgroup, make_directory, v1_files, v2_files

RESOURCES: dict[str, object] = {
    "cpu": {"shares": 512, "quota": 50000, "period": 100000, "cpus": "0-1"},
    "memory": {"limit": 1 << 20},
    "pids": {"limit": 7},
}


def test_a_scratch_folder_shows_limits_as_v2(tmp_path: Path) -> None:
    """Files are made; removing takes the folder and leaves its parent."""
    cgroup = Cgroup(str(tmp_path), "/pods/a")

    cgroup.make(RESOURCES)
    cgroup.join()

    folder = tmp_path / "pods" / "a"
    assert {entry.name: entry.read_text() for entry in folder.iterdir()} == v2_files(RESOURCES)
    cgroup.remove()
    assert not folder.exists()
    assert folder.parent.exists()


def test_a_scratch_folder_shows_limits_as_v1(tmp_path: Path) -> None:
    """If it has folders of controllers; only in those."""
    for controller in ("cpu", "memory"):
        (tmp_path / controller).mkdir()
    cgroup = Cgroup(str(tmp_path), "pods/a")

    cgroup.make({"cpu": {"shares": 512}, "memory": {"limit": 4096}})

    assert (tmp_path / "cpu/pods/a/cpu.shares").read_text() == "512"
    assert (tmp_path / "memory/pods/a/memory.limit_in_bytes").read_text() == "4096"


@pytest.mark.parametrize("path", ["", "/a/../../b"])
def test_no_path_is_no_cgroup(tmp_path: Path, path: str) -> None:
    """Nor is one that leads out."""
    cgroup = Cgroup(str(tmp_path), path)

    cgroup.make(RESOURCES)
    cgroup.remove()

    assert list(tmp_path.iterdir()) == []


def test_a_limit_that_cannot_be_set_is_named(tmp_path: Path) -> None:
    """With file and value."""
    cgroup = Cgroup(str(tmp_path), "a")
    cgroup.make({})
    (tmp_path / "a" / "pids.max").mkdir()

    with pytest.raises(OSError, match=r"failed to write '7' to .*pids\.max"):
        cgroup.limit({"pids": {"limit": 7}})


def test_a_limit_that_another_one_is_in_the_way_of_is_set_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel of v1 refuses more memory than memory with swap; both are to be raised."""
    (tmp_path / "memory").mkdir()
    cgroup = Cgroup(str(tmp_path), "a")
    cgroup.make({"memory": {"limit": 64, "swap": 64}})
    limit, swap = (tmp_path / "memory/a" / f"memory.{name}limit_in_bytes" for name in ("", "memsw."))
    write = cgroup_module._write

    def as_the_kernel(path: str, text: str) -> None:
        if path == str(limit) and int(text) > int(swap.read_text()):
            raise OSError(22, "Invalid argument", path)
        write(path, text)

    monkeypatch.setattr(cgroup_module, "_write", as_the_kernel)
    cgroup.limit({"memory": {"limit": 128, "swap": 128}})
    assert (limit.read_text(), swap.read_text()) == ("128", "128")


def test_a_new_cpuset_of_v1_has_the_cpus_of_its_parent(tmp_path: Path) -> None:
    """Nobody could join it otherwise."""
    (tmp_path / "cpuset").mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-3\n")

    Cgroup(str(tmp_path), "a/b").make({})

    assert (tmp_path / "cpuset/a/b/cpuset.cpus").read_text() == "0-3"


def test_files_of_v1() -> None:
    """What is not given is not written; no limit of processes is a word."""
    assert v1_files({**RESOURCES, "pids": {"limit": -1}}) == {
        "cpu/cpu.shares": "512",
        "cpu/cpu.cfs_period_us": "100000",
        "cpu/cpu.cfs_quota_us": "50000",
        "cpuset/cpuset.cpus": "0-1",
        "memory/memory.limit_in_bytes": "1048576",
        "pids/pids.max": "max",
    }


def test_files_of_v2() -> None:
    """Shares become a weight, no limit a word, unified values are taken as they are."""
    assert v2_files({"cpu": {"shares": 1024, "quota": -1, "mems": "0"}, "unified": {"memory.high": "5"}}) == {
        "cpu.weight": "39",
        "cpu.max": "max 100000",
        "cpuset.mems": "0",
        "memory.high": "5",
    }
    assert v2_files({"memory": {"limit": -1}, "pids": {"limit": -1}}) == {"memory.max": "max", "pids.max": "max"}


def test_a_controller_that_is_not_there_is_done_without(tmp_path: Path) -> None:
    """As on a machine whose kernel has it turned off."""
    (tmp_path / "cpu").mkdir()
    cgroup = Cgroup(str(tmp_path), "a")

    cgroup.make(RESOURCES)

    assert (tmp_path / "cpu/a/cpu.shares").read_text() == "512"
    assert [path.name for path in tmp_path.iterdir()] == ["cpu"]


def test_a_new_cgroup_of_a_scratch_folder_has_files(tmp_path: Path) -> None:
    """Copies of those in `.new`, with the limits written over them."""
    (tmp_path / ".new").mkdir()
    (tmp_path / ".new" / "cpu.weight").write_text("100\n")
    (tmp_path / ".new" / "pids.max").write_text("max\n")
    cgroup = Cgroup(str(tmp_path), "pods/a")

    cgroup.make({"pids": {"limit": 7}})

    assert (tmp_path / "pods/cpu.weight").read_text() == "100\n"
    assert (tmp_path / "pods/a/cpu.weight").read_text() == "100\n"
    assert (tmp_path / "pods/a/pids.max").read_text() == "7"
    cgroup.remove()
    assert not (tmp_path / "pods/a").exists()


def test_a_cgroup_that_somebody_else_made_meanwhile_stays(tmp_path: Path) -> None:
    """And nothing of ours is left."""
    (tmp_path / ".new").mkdir()
    (tmp_path / ".new" / "cpu.weight").write_text("100\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cpu.weight").write_text("7\n")

    with pytest.raises(FileExistsError):
        make_directory(str(tmp_path), str(tmp_path / "a"))

    assert (tmp_path / "a/cpu.weight").read_text() == "7\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new", "a"]
