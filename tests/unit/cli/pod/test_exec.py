"""`interpose pod exec` and `attach`: which container, and what is asked of the runtime.

The streams themselves are tested with real runtimes; a fake runtime's URLs lead nowhere.
"""

import io
import json
import os
import pty
import termios
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interpose.cli.pod.exec import has_stdin_and_tty
from interpose.net.grpc.status import Code
from interpose.testing.pods import BUSYBOX
from tests.support.node.pod_commands import PodCommands, pod_commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[PodCommands]:
    with pod_commands(tmp_path) as made:
        made.up()
        yield made


def test_a_session_is_asked_for_as_it_is_wanted(commands: PodCommands) -> None:
    """A terminal only if there is one; a session that cannot be had is exit code 126."""
    result = commands("exec", "-t", "web", "--", "ls", "-l")
    assert result.exit_code == 126
    assert "-t is left out" in result.stderr
    request = commands.do(lambda runtime: runtime.requests_of("Exec")[0])
    assert list(request.cmd) == ["ls", "-l"]
    assert (request.stdin, request.tty, request.stdout, request.stderr) == (False, False, True, True)


def test_attaching_asks_for_the_process_itself(commands: PodCommands) -> None:
    """Without standard input unless it is wanted."""
    assert commands("attach", "web").exit_code == 126
    request = commands.do(lambda runtime: runtime.requests_of("Attach")[0])
    assert (request.stdin, request.tty) == (False, False)


class Session:
    """Stands for what is said over the streams: remembers whether there was input, and whether keys are seen as typed
    while it lasts."""

    def __init__(self, terminal: int) -> None:
        self.wanted: dict[str, Any] = {}
        self.raw = False
        self._terminal = terminal

    async def __call__(self, source: Any, **wanted: Any) -> int:
        await source()
        self.wanted = wanted
        self.raw = not termios.tcgetattr(self._terminal)[3] & termios.ECHO
        return 0


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    """At a terminal."""
    master, fd = pty.openpty()
    made = Session(fd)
    ours = SimpleNamespace(fileno=lambda: fd, isatty=lambda: True)
    monkeypatch.setattr("interpose.cli.pod.exec.sys", SimpleNamespace(stdin=ours, stdout=ours, stderr=io.StringIO()))
    monkeypatch.setattr("interpose.cli.pod.tty.is_on_terminal", lambda: True)
    monkeypatch.setattr("interpose.net.streaming.client.run_command", made)
    yield made
    os.close(master)
    os.close(fd)


NO_STDIN = "warning: container main has no standard input, -i is left out\n"
NO_TTY = "warning: container main has no terminal, -t is left out\n"


@pytest.mark.parametrize(
    ("stdin", "tty", "said"),
    [(True, True, ""), (True, False, NO_TTY), (False, True, NO_STDIN), (False, False, NO_STDIN + NO_TTY)],
)
def test_what_the_container_does_not_have_is_left_out(
    tmp_path: Path, session: Session, stdin: bool, tty: bool, said: str
) -> None:
    """Else every key would go to a process that does not read any, Ctrl-C too."""
    container = {"name": "main", "image": BUSYBOX, "stdin": stdin, "tty": tty}
    with pod_commands(tmp_path) as commands:
        commands.up(containers=[container])
        result = commands("attach", "-it", "web")
        request = commands.do(lambda runtime: runtime.requests_of("Attach")[0])
    assert (result.exit_code, result.stderr) == (0, said)
    assert (request.stdin, request.tty, request.stderr) == (stdin, tty, not tty)
    assert (session.wanted["stdin"] is not None, session.wanted["tty"]) == (stdin, tty)
    assert session.raw is (stdin and tty)


def test_what_cannot_be_told_is_tried(commands: PodCommands, session: Session) -> None:
    """The runtime does not have to say what a container was made with."""
    commands.do(lambda runtime: runtime.fail("ContainerStatus", Code.UNIMPLEMENTED))
    result = commands("attach", "-it", "web")
    assert (result.exit_code, result.stderr) == (0, "")
    assert session.raw


def test_a_command_gets_what_is_asked_for(commands: PodCommands, session: Session) -> None:
    """Whatever the container itself was made with."""
    assert commands("exec", "-it", "web", "--", "sh").stderr == ""
    assert session.raw


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({"config": {"metadata": {"name": "a"}, "stdin": True, "tty": True}}, (True, True)),
        ({"config": {"metadata": {"name": "a"}, "tty": True}}, (False, True)),
        ({"config": {"metadata": {"name": "a"}, "stdin": True, "tty": False}}, (True, False)),
        ({"config": {"linux": {}}}, (True, True)),
        ({"runtimeSpec": {}}, (True, True)),
        (["x"], (True, True)),
    ],
)
def test_what_a_container_has_is_read_from_what_it_was_made_with(info: object, found: tuple[bool, bool]) -> None:
    """What is false is left out by runtimes; what shows only a part of it says nothing."""
    assert has_stdin_and_tty({"info": json.dumps(info)}) == found
    assert has_stdin_and_tty({}) == (True, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("web", "-c", "nosuch", "--", "ls"), "has no container"), (("nosuch", "--", "ls"), "there is no pod")],
)
def test_what_is_not_there_is_told(commands: PodCommands, arguments: tuple[str, ...], words: str) -> None:
    """Before anything is asked."""
    result = commands("exec", *arguments)
    assert result.exit_code == 1
    assert words in result.stderr


def test_only_containers_that_run_can_be_entered(commands: PodCommands) -> None:
    """Named or not."""
    commands("stop", "web")
    assert "no container of pod default/web runs" in commands("exec", "web", "--", "ls").stderr
    assert "does not run" in commands("exec", "web", "-c", "main", "--", "ls").stderr


def test_a_command_is_needed(commands: PodCommands) -> None:
    """Which one should it be?"""
    assert commands("exec", "web").exit_code == 2


def test_who_has_seen_enough_is_told_nothing(commands: PodCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """`interpose pod exec web -- yes | head -1` ends as every other program would."""

    async def nobody_reads(*_: object, **__: object) -> int:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("interpose.net.streaming.client.run_command", nobody_reads)
    result = commands("exec", "web", "--", "yes")
    assert (result.exit_code, result.stderr) == (141, "")
