"""What is left on a machine."""

import subprocess
from pathlib import Path

from tests.support.lab.kill.leftovers import Leftovers
from tests.support.lab.processes import wait_for


def named(name: str) -> "subprocess.Popen[bytes]":
    """A process that has this in its command line, which the kernel shows a moment after the program has begun."""
    child = subprocess.Popen(["sh", "-c", "read line", name], stdin=subprocess.PIPE)
    wait_for(lambda: name in Path(f"/proc/{child.pid}/cmdline").read_text(), what="the command line")
    return child


def test_nothing(tmp_path: Path) -> None:
    """Empty folders count as nothing."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert Leftovers(tmp_path, "/no-such-cgroup").found() == {}


def test_files(tmp_path: Path) -> None:
    """All but those that may be there."""
    (tmp_path / "images").mkdir()
    for name in ("images/x", "lock", "y"):
        (tmp_path / name).touch()
    fine = [tmp_path / "images", tmp_path / "lock"]
    assert Leftovers(tmp_path, "/no-such-cgroup", fine=fine).found() == {"files": [str(tmp_path / "y")]}


def test_processes(tmp_path: Path) -> None:
    """Those that name the folder, but not those that are known."""
    with named(f"{tmp_path}/x") as child:
        try:
            looks = Leftovers(tmp_path, "/no-such-cgroup")
            found = looks.found()["processes"]
            assert [int(line.split()[0]) for line in found] == [child.pid]
            assert looks.found(apart=[child.pid]) == {}
        finally:
            child.kill()


def test_other_folders_with_the_same_beginning(tmp_path: Path) -> None:
    """Are not ours."""
    with named(f"{tmp_path}-other/x") as child:
        try:
            assert Leftovers(tmp_path, "/no-such-cgroup").found() == {}
        finally:
            child.kill()
