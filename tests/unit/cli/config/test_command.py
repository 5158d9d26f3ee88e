"""`interpose config` finds its commands without loading them."""

import pytest
from click.testing import CliRunner

from interpose.cli.config.command import SUBCOMMANDS
from interpose.cli.main import cli


def test_the_overview_lists_every_command() -> None:
    """With what each is for."""
    result = CliRunner().invoke(cli, ["config", "--help"])
    assert result.exit_code == 0
    assert [name for name, one in SUBCOMMANDS.items() if one.summary not in result.output] == []


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    """Also to a newcomer."""
    result = CliRunner().invoke(cli, ["config", name, "--help"])
    assert (result.exit_code, "Usage: " in result.output) == (0, True)
