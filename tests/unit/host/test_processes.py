"""Who is in a cgroup, and the OOM score of processes."""

import errno
from pathlib import Path

import pytest

from interpose.host.cgroup.files import KernelFiles
from interpose.host.processes import Processes, processes_below, threads_below


class Groups:
    """A tree of cgroups: directory -> processes; a thread has the number of its process plus 1000."""

    def __init__(self, members: dict[str, list[int]], errors: dict[str, int] | None = None) -> None:
        self.members = members
        self.errors = errors or {}

    def children(self, directory: str) -> list[str]:
        """Names of the directories right below."""
        inside = (name.removeprefix(f"{directory}/") for name in self.members if name.startswith(f"{directory}/"))
        return [name for name in inside if "/" not in name]

    def processes(self, directory: str) -> list[int]:
        """Processes, or the error that reading gives."""
        if directory in self.errors:
            raise OSError(self.errors[directory], "no list", directory)
        if directory not in self.members:
            raise FileNotFoundError(errno.ENOENT, "gone", directory)
        return self.members[directory]

    def threads(self, directory: str) -> list[int]:
        """A process and one thread of it."""
        return [tid for pid in self.processes(directory) for tid in (pid, pid + 1000)]


def test_processes_of_nested_cgroups_count() -> None:
    """A container with an init system of its own has them somewhere below."""
    groups = Groups({"pod/a": [1], "pod/a/init": [], "pod/a/init/b": [2], "pod/other": [3]})
    assert processes_below(groups, "pod/a") == {1, 2}


def test_threads_of_nested_cgroups_count() -> None:
    """Those of a pod are in its containers."""
    groups = Groups({"pod": [], "pod/a": [1], "pod/b": [2]})
    assert threads_below(groups, "pod") == {1, 1001, 2, 1002}


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP])
def test_nested_cgroup_without_a_list_is_passed_over(number: int) -> None:
    """It went away, or is a threaded one whose processes its parent lists."""
    groups = Groups({"pod": [1], "pod/a": [2], "pod/b": [3]}, {"pod/a": number})
    assert processes_below(groups, "pod") == {1, 3}


def test_trouble_in_a_nested_cgroup_is_told() -> None:
    """Half a list must not pass for a whole one."""
    with pytest.raises(PermissionError):
        processes_below(Groups({"pod": [1], "pod/a": [2]}, {"pod/a": errno.EACCES}), "pod")


def test_cgroup_itself_must_be_there() -> None:
    """The target is gone; its owner wants to know."""
    with pytest.raises(FileNotFoundError):
        processes_below(Groups({}), "pod")


def test_oom_score_of_a_process_is_read_and_written(tmp_path: Path) -> None:
    """In the file the kernel has for it."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "oom_score_adj").write_text("-997\n")
    processes = Processes(KernelFiles(), str(tmp_path))
    assert processes.oom_score_adj(7) == -997
    processes.set_oom_score_adj(7, 500)
    assert processes.oom_score_adj(7) == 500


def test_process_that_is_gone_is_the_systems_error(tmp_path: Path) -> None:
    """Whoever asks decides that it is normal."""
    with pytest.raises(FileNotFoundError):
        Processes(KernelFiles(), str(tmp_path)).oom_score_adj(7)
