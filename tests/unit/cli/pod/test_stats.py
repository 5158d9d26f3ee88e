"""`interpose pod stats` shows what containers use."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node.pod_commands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        yield made


def test_what_runs_is_measured(commands: PodCommands) -> None:
    """CPU of two looks, memory, and what was written; what has ended uses nothing."""
    commands.up()
    commands.up("ended", restartPolicy="Never")
    commands("stop", "ended")
    result = commands("stats", "--interval", "0.1")
    assert result.exit_code == 0
    header, line = result.stdout.splitlines()
    assert header.split() == ["NAMESPACE", "POD", "CONTAINER", "CPU", "MEMORY", "WRITTEN"]
    assert line.split() == ["default", "web", "main", "100m", "32", "MiB", "1", "MiB"]


def test_some_pods_for_programs(commands: PodCommands) -> None:
    """By name and namespace."""
    commands.up()
    commands.up("db")
    (found,) = json.loads(commands("stats", "db", "db", "--interval", "0.1", "-o", "json").stdout)
    assert (found["namespace"], found["pod"], found["container"]) == ("default", "db", "main")
    assert found["cpuCores"] == pytest.approx(0.1)
    assert (found["memoryBytes"], found["writtenBytes"]) == (32 << 20, 1 << 20)
    assert commands("stats", "-n", "other", "--interval", "0.1").stdout == "No container runs.\n"
    assert commands("stats", "-l", "app", "--interval", "0.1").stdout == "No container runs.\n"
    assert commands("stats", "nosuch").exit_code == 1
