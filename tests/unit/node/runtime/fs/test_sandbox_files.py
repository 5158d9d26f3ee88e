"""The files of a sandbox, with a scratch folder for cgroups."""

import shutil
from pathlib import Path

import pytest

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups.cgroups import CgroupDirs, detect
from interpose.node.runtime.fs.sandbox_files import LocalSandboxFiles
from interpose.node.runtime.state.paths import RuntimePaths
from interpose.node.runtime.state.records import SandboxRecord

SANDBOX = "a" * 64


class Machine:
    """Sandbox files on a machine with scratch folders."""

    def __init__(self, folder: Path) -> None:
        self.paths = RuntimePaths(root=folder / "root", state=folder / "state")
        self.paths.prepare()
        self.cgroups = folder / "cgroup"
        self.sandbox_files = LocalSandboxFiles(
            self.paths, detect(str(self.cgroups)), driver="cgroupfs", namespaces=False
        )
        config = cri.PodSandboxConfig(linux=cri.LinuxPodSandboxConfig(cgroup_parent="/top/class/pod1"))
        self.record = SandboxRecord(id=SANDBOX, config=config, created_at=1)

    @property
    def left(self) -> list[str]:
        """Cgroups, notes and folders."""
        paths = (self.cgroups, self.paths.cgroups, self.paths.sandboxes)
        return sorted(str(path.relative_to(place)) for place in paths for path in place.rglob("*") if path.is_dir())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """With nothing in it."""
    return Machine(tmp_path)


async def test_all_of_it_is_given_back(machine: Machine) -> None:
    """With the cgroups that lead to its own, which were made for it."""
    await machine.sandbox_files.create(machine.record)
    assert (machine.cgroups / "top/class/pod1" / SANDBOX).is_dir()
    await machine.sandbox_files.remove(machine.record)
    await machine.sandbox_files.remove(machine.record)
    assert machine.left == []
    assert list(machine.paths.cgroups.iterdir()) == []


async def test_a_busy_cgroup_is_told_without_root_as_well(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked tries again, and nothing is left then."""
    monkeypatch.setattr(machine.sandbox_files, "_privileged", False)
    await machine.sandbox_files.create(machine.record)
    with monkeypatch.context() as busy:
        busy.setattr(CgroupDirs, "remove", lambda _dirs, _path: False)
        with pytest.raises(OSError, match="something is in it"):
            await machine.sandbox_files.remove(machine.record)
    await machine.sandbox_files.remove(machine.record)
    assert machine.left == []


async def test_what_was_there_before_stays(machine: Machine) -> None:
    """It belongs to somebody else."""
    (machine.cgroups / "top/class").mkdir(parents=True)
    await machine.sandbox_files.create(machine.record)
    await machine.sandbox_files.remove(machine.record)
    assert machine.left == ["top", "top/class"]


async def test_what_a_kubelet_has_removed_is_not_left_beside_it(tmp_path: Path) -> None:
    """It makes and removes the pod's cgroup in the hierarchies of v1; runc also makes one in v2's, if there is one."""
    for path in ("cpu/top/pod1", "unified/top/pod1"):
        (tmp_path / "cgroup" / path).mkdir(parents=True)
    (tmp_path / "cgroup/unified/cgroup.controllers").touch()
    machine = Machine(tmp_path)
    machine.record.config.linux.cgroup_parent = "/top/pod1"
    await machine.sandbox_files.create(machine.record)
    shutil.rmtree(tmp_path / "cgroup/cpu/top/pod1")
    await machine.sandbox_files.remove(machine.record)
    assert machine.left == ["cpu", "cpu/top", "unified", "unified/top"]


@pytest.mark.parametrize("gone", [["class/pod1"], ["class/pod1", "class"]])
async def test_a_clearing_that_was_killed_is_finished(machine: Machine, gone: list[str]) -> None:
    """Some of the cgroups that lead to its own are gone, with their notes; the others are still ours to remove."""
    await machine.sandbox_files.create(machine.record)
    (machine.cgroups / "top/class/pod1" / SANDBOX).rmdir()
    for path in gone:
        (machine.cgroups / "top" / path).rmdir()
        note = next(one for one in machine.paths.cgroups.iterdir() if one.read_text() == f"/top/{path}")
        note.unlink()
    await machine.sandbox_files.remove(machine.record)
    assert machine.left == []
    assert list(machine.paths.cgroups.iterdir()) == []


async def test_without_a_record_it_is_given_back_as_well(machine: Machine) -> None:
    """The folder says which cgroup belongs to it."""
    await machine.sandbox_files.create(machine.record)
    assert await machine.sandbox_files.find_orphans([]) == [SANDBOX]
    await machine.sandbox_files.remove_orphan(SANDBOX)
    await machine.sandbox_files.remove_orphan(SANDBOX)
    assert machine.left == []
    assert list(machine.paths.cgroups.iterdir()) == []


async def test_cgroups_may_be_deep(machine: Machine) -> None:
    """Such as those of a node that is itself in a container."""
    parent = "/".join(["x" * 60] * 6)
    machine.record.config.linux.cgroup_parent = parent
    await machine.sandbox_files.create(machine.record)
    assert (machine.cgroups / parent / SANDBOX).is_dir()
    await machine.sandbox_files.remove(machine.record)
    assert machine.left == []


async def test_the_state_is_removed_under_it(machine: Machine) -> None:
    """The next pod is none the worse for it."""
    shutil.rmtree(machine.paths.state)
    await machine.sandbox_files.create(machine.record)
    await machine.sandbox_files.remove(machine.record)
    assert machine.left == []
