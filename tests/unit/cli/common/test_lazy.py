"""Groups that load only what is called."""

import sys

import click
from click.testing import CliRunner

from interpose.cli.common.lazy import LazyGroup, Subcommand

TABLE = {
    "there": Subcommand("interpose.cli.status", "status", "Something that is there."),
    "broken": Subcommand("interpose.cli.no_such_module", "x", "Something that cannot be loaded."),
}


@click.group(cls=LazyGroup, table=TABLE)
def group() -> None:
    """A group."""


def test_overview_loads_nothing() -> None:
    """It is made of the table: a command that cannot be loaded is listed like any other."""
    sys.modules.pop("interpose.cli.no_such_module", None)
    result = CliRunner().invoke(group, ["--help"])
    assert result.exit_code == 0
    assert "Something that is there." in result.output
    assert "Something that cannot be loaded." in result.output


def test_command_is_loaded_when_it_is_called() -> None:
    """And only that one."""
    result = CliRunner().invoke(group, ["there", "--help"])
    assert result.exit_code == 0
    assert "--admin" in result.output
    assert isinstance(CliRunner().invoke(group, ["broken"]).exception, ModuleNotFoundError)


def test_unknown_command() -> None:
    """With a guess at what was meant, if there is one; options are click's."""
    result = CliRunner().invoke(group, ["away"])
    assert result.exit_code == 2
    assert "No such command 'away'\n" in result.output
    assert "No such command 'theer', did you mean there?" in CliRunner().invoke(group, ["theer"]).output
    assert "No such option" in CliRunner().invoke(group, ["--away"]).output
