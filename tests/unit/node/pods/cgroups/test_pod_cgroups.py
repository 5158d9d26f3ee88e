"""Cgroups of pods."""

import errno
from pathlib import Path

import pytest

from interpose.host.cgroup.paths import Driver
from interpose.node.pods.cgroups.pod_cgroups import PodCgroups
from interpose.node.pods.node_info import NodeFacts
from interpose.node.pods.sync.result import SyncStepKind
from tests.support.node.managed_node import ManagedNode, pod

NODE = NodeFacts(name="node", memory=1 << 30, cgroup_root="/lab")


def cgroups(mount: Path, node: NodeFacts = NODE) -> PodCgroups:
    """With notes beside them."""
    return PodCgroups(node, str(mount), folder=lambda uid: str(mount.parent / f"notes-{uid}"))


def make(root: Path, *folders: str) -> None:
    for folder in folders:
        (root / folder).mkdir(parents=True)


def left(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir())


def test_all_hierarchies_are_cleared(tmp_path: Path) -> None:
    """Empty cgroups of containers, too; other pods and the classes stay."""
    make(tmp_path, "cpu/lab/kubepods/burstable/podu/c", "memory/lab/kubepods/podu", "memory/lab/kubepods/podv")
    (tmp_path / "cpuacct").symlink_to(tmp_path / "cpu")
    cgroups(tmp_path).remove("u")
    classes = ["cpu", "cpu/lab", "cpu/lab/kubepods", "cpu/lab/kubepods/burstable"]
    assert left(tmp_path) == [
        *classes,
        "cpuacct",
        "memory",
        "memory/lab",
        "memory/lab/kubepods",
        "memory/lab/kubepods/podv",
    ]


def test_the_one_hierarchy_of_version_two(tmp_path: Path) -> None:
    """Recognised by its file."""
    make(tmp_path, "lab/kubepods/besteffort/podu")
    (tmp_path / "cgroup.controllers").write_text("cpu")
    cgroups(tmp_path).remove("u")
    assert left(tmp_path) == ["lab", "lab/kubepods", "lab/kubepods/besteffort"]


def by_systemd(mount: Path, asked: list[tuple[str, ...]], root: str = "") -> PodCgroups:
    """Where systemd keeps the cgroups, and does what it is asked."""
    node = NodeFacts(name="node", memory=1 << 30, cgroup_driver=Driver.SYSTEMD, cgroup_root=root)

    def ask(words: tuple[str, ...]) -> str:
        asked.append(words)
        return ""

    return PodCgroups(node, str(mount), folder=lambda uid: str(mount.parent / f"notes-{uid}"), ask=ask)


def test_slices_are_stopped_by_systemd(tmp_path: Path) -> None:
    """It would keep them. They are found with another root as well, by the note."""
    mount, asked = tmp_path / "mount", list[tuple[str, ...]]()
    (tmp_path / "notes-1-2").mkdir()
    make(mount, "kubepods.slice/kubepods-pod1_2.slice")
    (mount / "cgroup.controllers").write_text("cpu")
    by_systemd(mount, asked, "/lab").make(pod(uid="1-2"))
    assert {words[7] for words in asked} == {"lab-kubepods-besteffort.slice", "lab-kubepods-besteffort-pod1_2.slice"}
    make(mount, "lab.slice/lab-kubepods.slice/lab-kubepods-besteffort.slice/lab-kubepods-besteffort-pod1_2.slice")
    asked.clear()
    by_systemd(mount, asked).remove("1-2")
    assert [words[-1] for words in asked] == ["kubepods-pod1_2.slice", "lab-kubepods-besteffort-pod1_2.slice"]


def test_folders_that_are_no_cgroups_are_left(tmp_path: Path) -> None:
    """They hold files; a mount that is not there holds nothing."""
    make(tmp_path, "cpu/lab/kubepods/podu")
    (tmp_path / "cpu/lab/kubepods/podu/tasks").write_text("")
    cgroups(tmp_path).remove("u")
    assert "cpu/lab/kubepods/podu" in left(tmp_path)
    cgroups(tmp_path / "missing").remove("u")


def _busy(monkeypatch: pytest.MonkeyPatch, times: int, number: int = errno.EBUSY) -> list[Path]:
    """The kernel refuses to remove cgroups so many times."""
    refused: list[Path] = []
    plain = Path.rmdir

    def rmdir(path: Path) -> None:
        if len(refused) < times:
            refused.append(path)
            raise OSError(number, "refused")
        plain(path)

    monkeypatch.setattr(Path, "rmdir", rmdir)
    monkeypatch.setattr("interpose.node.pods.cgroups.pod_cgroups.time.sleep", lambda _seconds: None)
    return refused


def test_processes_that_are_about_to_end_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment, then it is an error."""
    make(tmp_path, "cpu/lab/kubepods/podu")
    _busy(monkeypatch, 3)
    cgroups(tmp_path).remove("u")
    assert "cpu/lab/kubepods/podu" not in left(tmp_path)
    make(tmp_path, "cpu/lab/kubepods/podw")
    _busy(monkeypatch, 1000)
    with pytest.raises(OSError, match="refused"):
        cgroups(tmp_path).remove("w")


def test_one_that_somebody_else_removed_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our looking and our removing."""
    make(tmp_path, "cpu/lab/kubepods/podu")
    assert _busy(monkeypatch, 1, errno.ENOENT) == []
    cgroups(tmp_path).remove("u")


async def test_a_pod_whose_cgroup_is_in_use_keeps_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that somebody comes back for it."""
    node = ManagedNode(tmp_path)
    await node.sync(pod())
    make(tmp_path, "cgroup/cpu/kubepods/besteffort/pod1234")
    _busy(monkeypatch, 1000)
    result = await node.manager.remove_pod(await node.found(pod()))
    assert [step.act for step in result.errors] == [SyncStepKind.CLEAN_UP]
    assert node.dirs.uids() == ["1234"]


async def test_the_root_that_a_pod_was_started_with_is_remembered(tmp_path: Path) -> None:
    """Who removes it was not told."""
    mount = tmp_path / "mount"
    make(mount, "cpu/lab/kubepods/besteffort", "memory/lab")
    (tmp_path / "notes-1234").mkdir()
    cgroups(mount).make(pod())
    make(mount, "cpu/lab/kubepods/besteffort/pod1234/c")
    cgroups(mount, NodeFacts(name="node", memory=1 << 30)).remove("1234")
    assert left(mount) == ["cpu", "cpu/lab", "cpu/lab/kubepods", "cpu/lab/kubepods/besteffort", "memory", "memory/lab"]


@pytest.mark.parametrize("note", ["kubepods/pod77", "../pod1234", "a\0/pod1234", ""])
def test_a_note_that_is_not_about_the_pod_is_not_followed(tmp_path: Path, note: str) -> None:
    """Nothing else is removed."""
    mount = tmp_path / "mount"
    make(mount, "cpu/kubepods/pod77", "pod1234")
    (tmp_path / "notes-1234").mkdir()
    (tmp_path / "notes-1234" / "cgroup").write_text(note)
    cgroups(mount).remove("1234")
    assert left(mount) == ["cpu", "cpu/kubepods", "cpu/kubepods/pod77", "pod1234"]
