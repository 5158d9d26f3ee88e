"""`interpose pod ls` lists pods."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

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
