"""`interpose pod run --watch` as a process: it follows manifests, and its end leaves pods alone."""

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from interpose.net.grpc.status import Code
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.pods import BUSYBOX
from tests.support.lab.processes import wait_for
from tests.support.node.pod_commands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        yield made


def started(commands: PodCommands, *arguments: str, stderr: int) -> "subprocess.Popen[str]":
    """`interpose pod run` as a process."""
    program = [sys.executable, "-c", "from interpose.cli.main import main; main()"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("INTERPOSE_")}
    return subprocess.Popen([*program, "pod", "run", *arguments, *commands.reach()], stderr=stderr, text=True, env=env)


@contextmanager
def watching(commands: PodCommands, folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A manager of a folder; killed at the end, if it still runs."""
    child = started(commands, "-f", str(folder), "--watch", *options, stderr=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=WAIT_LIMIT)


class Screen:
    """What a person sees of a process."""

    def __init__(self, child: "subprocess.Popen[str]", terminal: int) -> None:
        self.child = child
        self._terminal = terminal
        self._text = ""

    def until(self, text: str) -> None:
        """Look until it is there."""
        until(lambda: text in self._seen(), text)

    def _seen(self) -> str:
        with suppress(BlockingIOError):
            self._text += os.read(self._terminal, 65536).decode()
        return self._text


@contextmanager
def on_a_terminal(commands: PodCommands, *arguments: str) -> Iterator[Screen]:
    """The same on a wide screen."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 500))
    os.set_blocking(ours, False)
    child = started(commands, *arguments, stderr=theirs)
    os.close(theirs)
    try:
        yield Screen(child, ours)
    finally:
        child.kill()
        child.wait(WAIT_LIMIT)
        os.close(ours)


def until(condition: Callable[[], object], what: str) -> None:
    """Look until it is so."""
    wait_for(condition, what=what, every=0.02)


def names(commands: PodCommands) -> list[str]:
    """The pods of which something runs."""
    return sorted(
        commands.do(
            lambda runtime: [
                one.config.labels["io.kubernetes.pod.name"] for one in runtime.containers.values() if one.pid
            ]
        )
    )


def test_pods_come_and_go_with_their_manifests(commands: PodCommands, tmp_path: Path) -> None:
    """An added file adds one, a removed file ends one, a broken file changes nothing."""
    folder = tmp_path / "pods"
    folder.mkdir()
    commands.manifest("a").rename(folder / "a.json")
    with watching(commands, folder) as child:
        until(lambda: names(commands) == ["a"], "the first pod")
        commands.manifest("b").rename(folder / "b.json")
        until(lambda: names(commands) == ["a", "b"], "the second pod")
        (folder / "a.json").write_text("{")
        (folder / "b.json").unlink()
        until(lambda: names(commands) == ["a"], "the second pod to leave")
        child.send_signal(signal.SIGTERM)
        _, text = child.communicate(timeout=WAIT_LIMIT)
        assert child.returncode == 0
        assert "Invalid manifest" in text
        assert str(folder / "a.json") in text
    assert names(commands) == ["a"]


def test_a_person_who_watches_hears_of_what_is_wrong_and_of_what_goes(commands: PodCommands, tmp_path: Path) -> None:
    """On a terminal there is no log: the lines say it."""
    folder = tmp_path / "pods"
    folder.mkdir()
    commands.manifest("a").rename(folder / "a.json")
    with on_a_terminal(commands, "-f", str(folder), "--watch") as screen:
        screen.until("Keeping the pods")
        (folder / "new.json").write_text("{}")
        screen.until("is missing, expected Pod, ConfigMap, Secret or List; what it said before, if anything, counts")
        (folder / "a.json").unlink()
        screen.until("default/a: no manifest names it any more, removing it")
        screen.child.send_signal(signal.SIGINT)
        assert screen.child.wait(WAIT_LIMIT) == 0


def test_a_person_who_watches_hears_of_a_runtime_that_is_away(commands: PodCommands) -> None:
    """From the start, and later."""
    elsewhere = commands.socket.rename(commands.socket.with_name("elsewhere.sock"))
    with on_a_terminal(commands, "-f", str(commands.manifest()), "--watch") as screen:
        screen.until(f"Waiting for the runtime: runtime {commands.socket} is not reachable: No such file or directory")
        elsewhere.rename(commands.socket)
        screen.until("Keeping the pods")
        commands.do(lambda runtime: runtime.fail("ListPodSandbox", Code.UNAVAILABLE, "asleep", times=2))
        screen.until("Waiting for the runtime: UNAVAILABLE: asleep")
        screen.until("The runtime is back.")


def test_who_is_interrupted_hears_what_goes_on(commands: PodCommands) -> None:
    """The pod is half started, and nobody goes on with it."""
    never = {"exec": {"command": ["never"]}}
    containers = [{"name": "main", "image": BUSYBOX, "readinessProbe": never}]
    with on_a_terminal(commands, "-f", str(commands.manifest(containers=containers))) as screen:
        screen.until("running, not ready yet")
        screen.child.send_signal(signal.SIGINT)
        screen.until("Interrupted: what was started goes on.")
        assert screen.child.wait(WAIT_LIMIT) == 130
    assert names(commands) == ["web"]


def test_a_killed_manager_is_replaced_by_the_next(commands: PodCommands, tmp_path: Path) -> None:
    """What ended meanwhile is started, what left meanwhile is removed, and nothing is started twice."""
    folder = tmp_path / "pods"
    folder.mkdir()
    for name in ("a", "b"):
        commands.manifest(name).rename(folder / f"{name}.json")
    with watching(commands, folder) as child:
        until(lambda: names(commands) == ["a", "b"], "both pods")
        child.kill()
        child.wait(WAIT_LIMIT)
    (folder / "b.json").unlink()
    ids = commands.do(
        lambda runtime: [
            key for key, one in runtime.containers.items() if one.config.labels["io.kubernetes.pod.name"] == "a"
        ]
    )
    commands.do(lambda runtime: runtime.exit_container(ids[0], 1))
    with watching(commands, folder) as child:
        until(lambda: names(commands) == ["a"] and commands.do(lambda runtime: len(runtime.sandboxes)) == 1, "one pod")
        child.send_signal(signal.SIGTERM)
        assert child.wait(WAIT_LIMIT) == 0


def test_pods_can_be_ended_with_their_manager(commands: PodCommands, tmp_path: Path) -> None:
    """--stop-on-exit removes what it kept."""
    folder = tmp_path / "pods"
    folder.mkdir()
    commands.manifest("a").rename(folder / "a.json")
    with watching(commands, folder, "--stop-on-exit") as child:
        until(lambda: names(commands) == ["a"], "the pod")
        child.send_signal(signal.SIGINT)
        assert child.wait(WAIT_LIMIT) == 0
    assert commands.do(lambda runtime: not runtime.sandboxes)


def test_a_pod_that_was_stopped_by_hand_stays_stopped(commands: PodCommands, tmp_path: Path) -> None:
    """Although a manager watches; an edit of its manifest starts it again."""
    folder = tmp_path / "pods"
    folder.mkdir()
    commands.manifest("a").rename(folder / "a.json")
    with watching(commands, folder):
        until(lambda: names(commands) == ["a"], "the pod")
        assert commands("stop", "a").exit_code == 0
        calls = commands.do(lambda runtime: runtime.calls["ListPodSandbox"])
        until(lambda: commands.do(lambda runtime: runtime.calls["ListPodSandbox"]) > calls + 3, "some more looks")
        assert names(commands) == []
        commands.manifest("a", hostname="edited").rename(folder / "a.json")
        until(lambda: names(commands) == ["a"], "the pod to be started again")
