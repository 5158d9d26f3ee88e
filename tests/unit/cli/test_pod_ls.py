"""`interpose pod ls` lists pods."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.rpc.status import Code
from interpose.testing.podcommands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        made.up()
        made.do(lambda runtime: runtime.populate(1))
        yield made


def test_pods_of_everybody_are_listed(commands: PodCommands) -> None:
    """Ours and those of a kubelet."""
    lines = commands("ls").stdout.splitlines()
    assert lines[0].split() == ["NAMESPACE", "NAME", "UP", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:5] == ["default", "web", "1/1", "Running", "0"]
    assert lines[2].split()[0] == "production"


def test_lists_can_be_narrowed(commands: PodCommands) -> None:
    """By namespace, by who started them, by whether they run."""
    assert commands("ls", "-o", "name", "-n", "default").stdout == "default/web\n"
    assert commands("ls", "-o", "name", "--ours").stdout == "default/web\n"
    commands("stop", "web")
    assert "web" not in commands("ls", "-o", "name", "--running").stdout
    assert commands("ls", "-n", "nosuch").stdout == "No pods.\n"
    assert commands("ls", "-n", "default", "-A").exit_code == 2


@pytest.mark.parametrize(("code", "status"), [(0, "Completed"), (3, "Error")])
def test_ends_are_told(commands: PodCommands, code: int, status: str) -> None:
    """As far as a runtime knows them."""

    def end(runtime: object) -> None:
        name = next(key for key, one in commands.runtime.containers.items() if one.config.metadata.name == "main")
        commands.runtime.exit_container(name, code)

    commands.do(end)
    assert commands("ls", "-n", "default").stdout.splitlines()[1].split()[2] == status


def test_programs_get_json(commands: PodCommands) -> None:
    """With everything a wide list has."""
    ours, other = json.loads(commands("ls", "-o", "json").stdout)
    assert (ours["name"], ours["status"], ours["running"], ours["ours"]) == ("web", "Running", 1, True)
    assert other["ours"] is False
    assert ours["uid"][:13] in commands("ls", "-o", "wide").stdout


def test_a_pod_that_never_had_a_sandbox_is_listed(commands: PodCommands) -> None:
    """It failed before, and is there to be looked at: pending, with the age of its folder."""
    commands.do(lambda runtime: runtime.fail("RunPodSandbox", Code.INTERNAL, "no such handler"))
    assert commands("run", "-f", commands.manifest("bad"), "-q", "--timeout", "2s").exit_code == 1
    lines = [line.split() for line in commands("ls", "-n", "default").stdout.splitlines()]
    assert [line[:4] for line in lines[1:]] == [["bad", "0/1", "Pending", "0"], ["web", "1/1", "Running", "0"]]
    assert lines[1][4].endswith("s")
    bad, *_ = json.loads(commands("ls", "--ours", "-o", "json").stdout)
    assert (bad["namespace"], bad["name"], bad["status"], bad["ours"]) == ("default", "bad", "Pending", True)
    assert (bad["running"], bad["containers"], bad["images"]) == (0, 1, [])
    assert 0 <= bad["ageSeconds"] < 60
    assert "bad" not in commands("ls", "--running", "-o", "name").stdout
    commands("stop", "bad")
    assert commands("ls", "-n", "default").stdout.splitlines()[1].split()[2] == "Stopped"


def test_a_folder_of_which_nothing_is_known_is_listed(commands: PodCommands) -> None:
    """By its uid: it can be removed."""
    (commands.folder / "root/pods/left").mkdir()
    assert commands("ls", "--ours", "-o", "name").stdout.splitlines() == ["left", "default/web"]
    assert commands("ls").stdout.splitlines()[1].split() == ["-", "left", "0/0", "Unknown", "0", "-"]
