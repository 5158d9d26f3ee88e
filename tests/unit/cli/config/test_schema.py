"""`interpose config schema` prints what editors read."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interpose.cli.config.schema import NAMES, schema_text
from interpose.cli.main import cli

REFERENCE = Path(__file__).parents[4] / "docs/reference/schema"


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_is_json(name: str) -> None:
    """And says which dialect it is of."""
    result = CliRunner().invoke(cli, ["config", "schema", name])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert result.stdout == schema_text(name)


def test_the_relay_is_the_first() -> None:
    """Whoever names nothing means that one."""
    assert CliRunner().invoke(cli, ["config", "schema"]).stdout == schema_text("relay")


def test_there_are_no_others() -> None:
    """Wrong usage names those there are."""
    result = CliRunner().invoke(cli, ["config", "schema", "kubelet"])
    assert result.exit_code == 2
    assert "nodeslo" in result.output


def test_schemas_are_in_the_reference() -> None:
    """One file for each."""
    assert {path.stem for path in REFERENCE.glob("*.json")} == set(NAMES)
