"""`interpose pod`: the overview and the help of each command."""

import pytest
from click.testing import CliRunner

from interpose.cli.main import cli
from interpose.cli.pod.command import SUBCOMMANDS


def test_the_overview_names_every_command() -> None:
    """With examples for a newcomer."""
    text = CliRunner().invoke(cli, ["pod", "--help"]).output
    assert all(f"  {name} " in text for name in SUBCOMMANDS)
    assert "interpose pod run -f web.yaml" in text


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    """That can be typed as it stands."""
    result = CliRunner().invoke(cli, ["pod", name, "--help"])
    assert result.exit_code == 0
    assert f"interpose pod {name} " in result.output
    assert "--runtime-endpoint" in result.output
