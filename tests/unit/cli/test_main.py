"""The program finds its commands, loads no more than it needs, and ends with the right code."""

import os
import subprocess
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner

from interpose import __version__
from interpose.cli import main
from interpose.cli.common.lazy import LazyGroup
from interpose.cli.main import SUBCOMMANDS, cli
from interpose.errors import ConfigError, SocketInUseError
from interpose.native import build


def test_help_lists_the_commands_and_version_prints_it() -> None:
    """The overview names every command with its summary."""
    overview = CliRunner().invoke(cli, ["--help"])
    assert overview.exit_code == 0
    for name, entry in SUBCOMMANDS.items():
        assert name in overview.output
        assert entry.summary in overview.output
    assert CliRunner().invoke(cli, ["--version"]).output == f"interpose {__version__} ({build()})\n"


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_of_the_table_exists(name: str) -> None:
    """No entry of the overview leads nowhere."""
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert f"Usage: cli {name}" in result.output


@pytest.mark.parametrize("arguments", [["nonsense"], ["relay", "--nonsense"], ["relay", "word"], ["log-level"]])
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    """Unknown commands, flags and arguments are usage errors."""
    assert CliRunner().invoke(cli, arguments).exit_code == 2


def test_each_problem_of_the_settings_has_its_own_line_and_the_code_is_78(process: Any) -> None:
    """A service manager can tell bad settings from a crash, a person can read them."""
    result = CliRunner().invoke(cli, ["relay", "--grace", "x", "--max-streams", "0"])
    assert result.exit_code == 78
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [
        ["error", "flag --max-streams"],
        ["error", "flag --grace"],
    ]
    assert process.runs == []


@pytest.mark.parametrize(
    ("uid", "hint"), [(0, ""), (1000, "; it takes root, or settings that name places of your own")]
)
def test_who_is_not_root_hears_what_is_missing(
    process: Any, monkeypatch: pytest.MonkeyPatch, uid: int, hint: str
) -> None:
    """Most places are root's unless others are named."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    process.error = PermissionError(13, "Permission denied", "/run/x")
    assert CliRunner().invoke(cli, ["relay"]).stderr == f"error: /run/x: Permission denied{hint}\n"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError(["a: b", "c: d"]), 78, "error: a: b\nerror: c: d\n"),
        (SocketInUseError("/run/x.sock", 42), 1, "error: socket /run/x.sock is in use by PID 42\n"),
        (OSError("cannot listen on :1"), 1, "error: cannot listen on :1\n"),
        (OSError(24, "Too many open files"), 1, "error: Too many open files\n"),
        (FileNotFoundError(2, "No such file or directory", "/a"), 1, "error: /a: No such file or directory\n"),
    ],
)
def test_errors_of_the_running_relay_become_messages(process: Any, error: Exception, code: int, text: str) -> None:
    """What the relay raises on purpose is shown without a traceback."""
    process.error = error
    result = CliRunner().invoke(cli, ["relay"])
    assert (result.exit_code, result.stderr) == (code, text)


def test_a_relay_command_line_loads_nothing_heavy() -> None:
    """The parts a pass-through relay does not need are not imported before it listens."""
    heavy = ["yaml", "prometheus_client", "h11", "google.protobuf", "msgspec", "http.client", "asyncio", "subprocess"]
    code = (
        "import sys, interpose.cli.main, interpose.cli.relay.command, interpose.config.load, interpose.log;"
        "from interpose.cli.compat.koord_runtime_proxy import load_flags;"
        "from interpose.config.load import load;"
        "from interpose.config.relay.table import RELAY;"
        "load(RELAY, flags={}, env={}); load_flags({}, {});"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_installed_program_reports_bad_settings() -> None:
    """The real process ends with 78 and writes to stderr only."""
    code = "from interpose.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "relay", "--listen", "relative.sock"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 78
    assert done.stdout == ""
    assert done.stderr.startswith("error: flag --listen: ")
    assert "relative.sock" in done.stderr


def test_an_interrupt_has_the_code_of_one(process: Any) -> None:
    """Also before anybody was there to handle it."""
    process.error = KeyboardInterrupt()
    result = CliRunner().invoke(cli, ["relay"])
    assert (result.exit_code, result.output) == (130, "")


@pytest.mark.parametrize("arguments", [["nonsense"], ["relay", "--nonsense"], ["pod", "ls", "-r", "/no/such.sock"]])
def test_errors_have_one_spelling(arguments: list[str]) -> None:
    """Whoever finds them: a wrong command line looks as a wrong setting does."""
    lines = CliRunner().invoke(cli, arguments).stderr.splitlines()
    assert [line for line in lines if line.lower().startswith("error")] == [lines[-1]]
    assert lines[-1].startswith("error: ")


def test_an_error_about_output_that_nobody_reads_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where somebody made a message of it."""

    def broken(*_: object, **__: object) -> None:
        try:
            raise BrokenPipeError(32, "Broken pipe")
        except OSError as error:
            raise click.ClickException(str(error)) from None

    monkeypatch.setattr(main, "is_output_closed", lambda: True)
    monkeypatch.setattr(LazyGroup, "invoke", broken)
    result = CliRunner().invoke(cli, ["policies"])
    assert (result.exit_code, result.output) == (141, "")


def test_a_connection_that_broke_is_told(process: Any) -> None:
    """It is not our output."""
    process.error = BrokenPipeError(32, "Broken pipe")
    result = CliRunner().invoke(cli, ["relay"])
    assert (result.exit_code, result.stderr) == (1, "error: Broken pipe\n")


def test_somebody_else_may_call() -> None:
    """And hears what happened as click says it."""
    with pytest.raises(click.UsageError):
        cli.main(["nonsense"], standalone_mode=False)
