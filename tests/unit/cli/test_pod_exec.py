"""`interpose pod exec` and `attach`: which container, and what is asked of the runtime.

The streams themselves are tested with real runtimes; a fake runtime's URLs lead nowhere.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.testing.podcommands import PodCommands, pod_commands


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

    monkeypatch.setattr("interpose.streaming.client.run_command", nobody_reads)
    result = commands("exec", "web", "--", "yes")
    assert (result.exit_code, result.stderr) == (141, "")
