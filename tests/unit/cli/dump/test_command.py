"""The table of `interpose dump`."""

import pytest
from click.testing import CliRunner

from interpose.cli.dump.command import SUBCOMMANDS
from interpose.cli.main import cli


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_subcommand_explains_itself(name: str) -> None:
    """By its own help, which begins with what the overview says of it or more."""
    result = CliRunner().invoke(cli, ["dump", name, "--help"])
    assert result.exit_code == 0, result.output
    assert f"interpose dump {name}" in result.output.replace("Usage: cli", "interpose")


def test_overview_names_them_all() -> None:
    """With their summaries."""
    result = CliRunner().invoke(cli, ["dump", "--help"])
    assert all(entry.summary in result.output for entry in SUBCOMMANDS.values())
