"""A daemon that has commands: one or the other, never both."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from interpose.cli.common.lazy import Subcommand
from interpose.cli.common.settings_group import SettingsGroup
from interpose.config.agent.table import AGENT

RUNS: list[dict[str, Any]] = []


def _run(**parameters: Any) -> int:
    RUNS.append(parameters)
    return 7


@click.command("ask")
@click.option("--query", default="")
def ask(query: str) -> int:
    """Ask something."""
    click.echo(f"asked {query}")
    return 3


@pytest.fixture
def group() -> SettingsGroup:
    """One with a single command."""
    RUNS.clear()
    table = {"ask": Subcommand(__name__, "ask", "Ask something.")}
    return SettingsGroup("agent", AGENT, table=table, callback=_run, help="Does things.")


def invoke(group: SettingsGroup, *arguments: str) -> Any:
    """As MainGroup does: the result is the exit code."""
    return CliRunner().invoke(group, arguments, standalone_mode=False)


def test_without_a_command_the_daemon_runs(group: SettingsGroup) -> None:
    """With its options; what was not given is None."""
    result = invoke(group, "--node-name", "n1")
    assert result.return_value == 7
    assert RUNS[0]["node_name"] == "n1"
    assert RUNS[0]["api__kubeconfig"] is None


def test_a_command_runs_alone(group: SettingsGroup) -> None:
    """The daemon does not."""
    result = invoke(group, "ask", "--query", "x")
    assert result.exception is None
    assert (result.return_value, result.output) == (3, "asked x\n")
    assert RUNS == []


def test_options_before_a_command_are_refused(group: SettingsGroup) -> None:
    """They would have no effect, and nobody would notice."""
    result = invoke(group, "--node-name", "n1", "ask")
    assert isinstance(result.exception, click.UsageError)
    assert "--node-name has no effect before 'ask'" in str(result.exception)


def test_what_is_no_command_is_refused(group: SettingsGroup) -> None:
    """The daemon is not started with a word it does not know."""
    result = invoke(group, "start")
    assert isinstance(result.exception, click.UsageError)
    assert RUNS == []


def test_help_has_commands_and_sections(group: SettingsGroup) -> None:
    """Commands first."""
    text = CliRunner().invoke(group, ["--help"]).output
    assert text.index("Ask something.") < text.index("--kubeconfig")
    assert "API server:" in text
    assert "A flag beats the environment" in text
