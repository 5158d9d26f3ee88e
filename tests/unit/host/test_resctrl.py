"""The resctrl file system, with the kernel's rules behind it."""

import errno
from pathlib import Path

import pytest

from interpose.host.cgroup.files import KernelFiles
from interpose.host.resctrl import ROOT_GROUP, ResctrlInfo, ResctrlTree, parse_schemata, probe, render_schemata
from tests.support.hooks.fake_resctrl import FakeResctrl


def test_schemata_of_the_kernel_are_parsed() -> None:
    """Names are padded, masks are hex, bandwidth is decimal."""
    assert parse_schemata("    MB:0= 10;1=100\n    L3:0=7ff;1=0f\n") == {
        "MB": {0: 10, 1: 100},
        "L3": {0: 0x7FF, 1: 0xF},
    }


def test_schemata_survive_being_written_and_read() -> None:
    """In the form that is written to a group."""
    text = "L3:0=7ff;1=f;\nMB:0=10;1=100;\n"
    assert render_schemata(parse_schemata(text)) == text


@pytest.mark.parametrize("text", ["nonsense", "L3:0=xyz", "MB:0", "MB:0=1=2", "MB:a=10"])
def test_line_that_is_none_is_named(text: str) -> None:
    """Guessing a mask would be worse than none."""
    with pytest.raises(ValueError, match=text):
        parse_schemata(f"L3:0=f\n{text}\n")


def test_probe_finds_what_can_be_partitioned() -> None:
    """With the ids of the caches as the kernel counts them."""
    files = FakeResctrl(cbm_mask=0xFFF, caches=(0, 8), vendor="AuthenticAMD")
    assert probe(files) == ResctrlInfo(cbm_mask=0xFFF, l3_ids=(0, 8), mb_ids=(0, 8), vendor="AuthenticAMD")


def test_probe_without_a_mount_finds_nothing(tmp_path: Path) -> None:
    """It is not mounted by looking for it."""
    assert probe(KernelFiles(), str(tmp_path), str(tmp_path)) is None


def test_probe_of_a_processor_with_bandwidth_only(tmp_path: Path) -> None:
    """The cache cannot be cut there, and its mask is not asked for."""
    (tmp_path / "fs/resctrl").mkdir(parents=True)
    (tmp_path / "fs/resctrl/schemata").write_text("MB:0=100;1=100\n")
    (tmp_path / "cpuinfo").write_text("processor : 0\n")
    info = probe(KernelFiles(), str(tmp_path), str(tmp_path))
    assert info == ResctrlInfo(cbm_mask=0, mb_ids=(0, 1))


def test_groups_are_made_listed_and_removed() -> None:
    """The kernel's own directories are no groups."""
    tree = ResctrlTree(FakeResctrl())
    assert tree.make("koordlet-b")
    assert tree.make("koordlet-a")
    assert tree.groups() == ["koordlet-a", "koordlet-b"]
    assert tree.remove("koordlet-a")
    assert tree.groups() == ["koordlet-b"]


def test_making_or_removing_twice_says_so() -> None:
    """Both are fine: the outcome is what was wanted."""
    tree = ResctrlTree(FakeResctrl())
    assert [tree.make("a"), tree.make("a"), tree.remove("a"), tree.remove("a")] == [True, False, True, False]


def test_no_class_of_service_left_is_said_clearly() -> None:
    """ENOSPC alone would be taken for a full disk."""
    tree = ResctrlTree(FakeResctrl(closids=2))
    tree.make("first")
    with pytest.raises(OSError, match="no class of service left for group second; it has 2 in all") as caught:
        tree.make("second")
    assert caught.value.errno == errno.ENOSPC


def test_other_trouble_with_making_a_group_is_passed_on(tmp_path: Path) -> None:
    """Such as resctrl being gone."""
    with pytest.raises(FileNotFoundError):
        ResctrlTree(KernelFiles(), str(tmp_path / "none")).make("a")


def test_number_of_classes_may_be_unknown(tmp_path: Path) -> None:
    """The message does not depend on it."""

    class Full(KernelFiles):
        def make_directory(self, path: str) -> None:
            raise OSError(errno.ENOSPC, "full", path)

    with pytest.raises(OSError, match="an unknown number in all"):
        ResctrlTree(Full(), str(tmp_path)).make("a")


def test_schemata_are_written_line_by_line() -> None:
    """Each with its newline, blank lines left out."""
    files = FakeResctrl()
    tree = ResctrlTree(files)
    tree.make("a")
    tree.write_schemata("a", "L3:0=f;1=f;\n\nMB:0=20;1=20;\n")
    path = "/sys/fs/resctrl/a/schemata"
    assert files.writes == [(path, "L3:0=f;1=f;\n"), (path, "MB:0=20;1=20;\n")]
    assert parse_schemata(tree.schemata("a")) == {"L3": {0: 0xF, 1: 0xF}, "MB": {0: 20, 1: 20}}


def test_refused_schemata_come_with_the_kernels_reason() -> None:
    """EINVAL alone says nothing."""
    tree = ResctrlTree(FakeResctrl())
    tree.make("a")
    with pytest.raises(OSError, match="refuses L3:0=5; for group a: The mask 5 cannot be used"):
        tree.write_schemata("a", "L3:0=5;\n")


def test_kernel_without_a_reason_is_no_second_error(tmp_path: Path) -> None:
    """Older ones have no such file."""

    class Refusing(KernelFiles):
        def write(self, path: str, text: str) -> None:
            raise OSError(errno.EINVAL, "no", path)

    with pytest.raises(OSError, match="no reason given"):
        ResctrlTree(Refusing(), str(tmp_path)).write_schemata("a", "L3:0=f;\n")


def test_schemata_of_a_group_that_is_gone() -> None:
    """The system's own error."""
    with pytest.raises(FileNotFoundError):
        ResctrlTree(FakeResctrl()).write_schemata("a", "L3:0=f;\n")


def test_threads_are_moved_and_listed() -> None:
    """From the root group, where everybody begins."""
    files = FakeResctrl()
    files.spawn(7)
    files.spawn(8)
    tree = ResctrlTree(files)
    tree.make("a")
    tree.add_task("a", 7)
    assert (tree.tasks("a"), tree.tasks(ROOT_GROUP)) == ([7], [8])


def test_thread_that_is_gone_cannot_be_moved() -> None:
    """ESRCH, as the kernel says it."""
    tree = ResctrlTree(FakeResctrl())
    tree.make("a")
    with pytest.raises(ProcessLookupError):
        tree.add_task("a", 7)


@pytest.mark.parametrize("group", ["info", "mon_groups", "..", ".hidden", "a/b", "a\n"])
def test_name_that_leads_elsewhere_is_refused(group: str) -> None:
    """Names are made of what a caller said."""
    with pytest.raises(OSError, match="cannot be the name of a resctrl group"):
        ResctrlTree(FakeResctrl()).remove(group)


def test_mounted_is_looked_at_each_time() -> None:
    """It may be unmounted while we run."""
    files = FakeResctrl()
    tree = ResctrlTree(files)
    before = tree.mounted()
    files.mounted = False
    assert (before, tree.mounted()) == (True, False)
