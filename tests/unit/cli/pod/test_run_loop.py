"""The life of `interpose pod run`: which manifests stop it, and what is said at its end."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interpose.cli.pod.run_loop import RunOptions, check_manifests
from interpose.errors import ConfigError
from interpose.node.pods.locks import watch_lock
from interpose.node.pods.manifest.files import ManifestSnapshot
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.node.managed_node import pod
from tests.support.node.pod_commands import PodCommands, pod_commands

WRONG = ManifestSnapshot(pods=(pod(),), problems={"/pods/a.yaml": ("file /pods/a.yaml: is wrong",)})


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        yield made


def test_a_wrong_manifest_stops_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """One that is named, always; one of a folder that is watched is told, and the others are kept."""
    with pytest.raises(ConfigError):
        check_manifests(WRONG, RunOptions(files=("/pods",)))
    with pytest.raises(ConfigError):
        check_manifests(WRONG, RunOptions(files=("/pods/a.yaml",), watch=True))
    check_manifests(WRONG, RunOptions(files=("/pods",), watch=True))
    assert capsys.readouterr().err == "error: file /pods/a.yaml: is wrong\n"


def test_no_pods_are_a_mistake_unless_they_may_come() -> None:
    """A folder that is watched may be empty."""
    with pytest.raises(ConfigError, match="holds no pods"):
        check_manifests(ManifestSnapshot(), RunOptions(files=("/pods",)))
    check_manifests(ManifestSnapshot(), RunOptions(files=("/pods",), watch=True))


def test_a_second_manager_that_watches_is_refused(commands: PodCommands) -> None:
    """It hears who does; one that only brings pods up may do so."""
    lock = watch_lock(str(commands.folder / "root"), str(commands.socket))
    result = commands("run", "-f", commands.manifest(), "--watch")
    assert result.exit_code == 1
    assert f"(process {os.getpid()})" in result.stderr
    assert commands("run", "-f", commands.manifest()).exit_code == 0
    lock.release()


def test_work_that_ends_can_be_waited_for(commands: PodCommands) -> None:
    """With --wait end a pod that only runs is not enough."""
    path = commands.manifest(restartPolicy="Never")
    assert commands("run", "-f", path, "--wait", "end", "--timeout", "1s").exit_code == 1
    commands.do(lambda runtime: runtime.exit_container(next(iter(runtime.containers)), 0))
    result = commands("run", "-f", path, "--wait", "end")
    assert result.exit_code == 0
    assert "default/web: succeeded" in result.stderr
    # Its network and what holds it are given back before anybody is told that it is over.
    assert commands.do(lambda runtime: [one.ready for one in runtime.sandboxes.values()]) == [False]


def test_the_last_lines_of_a_container_that_failed_are_shown(commands: PodCommands) -> None:
    """So that nobody has to look for them."""
    path = commands.manifest(restartPolicy="Never")
    commands.up(restartPolicy="Never")
    (folder,) = commands.log_root.iterdir()
    (folder / "main/0.log").write_text("2026-01-02T03:04:05.000000001Z stderr F no such file\n")
    commands.do(lambda runtime: runtime.exit_container(next(iter(runtime.containers)), 2))
    result = commands("run", "-f", path)
    assert result.exit_code == 1
    assert "error: pod default/web: main: exit code 2" in result.stderr
    assert "    no such file" in result.stderr


def test_why_a_container_cannot_be_started_is_told(commands: PodCommands) -> None:
    """Not only that it has to wait before the next try; and all of it once."""

    def end(runtime: FakeRuntime) -> None:
        for one in runtime.containers.values():
            if one.pid:
                runtime.exit_container(one.id, 128, "StartError", "no such\nprogram")

    over = threading.Event()

    def end_them() -> None:
        while not over.wait(0.05):
            commands.do(end)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(end_them)
        result = commands("run", "-f", commands.manifest(), "--timeout", "4s", "--min-ready", "60s")
        over.set()
    assert result.exit_code == 1
    assert "  main ended with StartError, exit code 128: no such program\n" in result.stderr
    assert result.stderr.splitlines()[-1] == "0 pods up, 1 failed, 4s"
