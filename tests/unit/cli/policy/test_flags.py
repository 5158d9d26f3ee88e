"""Options that commands share."""

import click
import pytest
from click.testing import CliRunner

from interpose.cli.policy.flags import DETAILS, machine_option, policy_details


@click.command()
@machine_option
@policy_details
def plain(**values: object) -> None:
    """Says what it was given."""
    click.echo(sorted(values.items()))


def test_the_options_have_the_names_they_say() -> None:
    """Nothing is given unless somebody does."""
    assert {one.name for one in plain.params} == {"topology", *DETAILS}
    output = CliRunner().invoke(plain, ["--reserved-resources", "cpu=1"]).output
    assert "('reserved', 'cpu=1')" in output
    assert "('policy_config', None)" in output


@pytest.mark.parametrize(("prefix", "text"), [("", "As for the relay"), ("With -x: ", "With -x: as for the relay")])
def test_the_help_may_begin_with_a_condition(prefix: str, text: str) -> None:
    """Where a command does other things as well."""
    options = {one.name: one for one in policy_details(click.Command("x"), prefix).params}
    assert isinstance(options["pools_dir"], click.Option)
    assert str(options["pools_dir"].help).startswith(text)
