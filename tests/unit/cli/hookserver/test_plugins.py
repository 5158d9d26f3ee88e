"""`interpose hookserver plugins`: what is listed, and its exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interpose.cli.hookserver import plugins as hookserver_plugins
from interpose.cli.main import cli
from interpose.core.model.cgroup import Level, Parameter
from interpose.host.entry_points import InstalledEntryPoint
from tests.support.hooks.parts import ToyPlugin


def missing() -> Any:
    raise ImportError("No module named 'x\x1b[2J'")


@pytest.fixture(autouse=True)
def _packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a good plugin, and one with a bad one."""

    class Toy(ToyPlugin):
        serves = {Level.POD: frozenset((Parameter.CPU_SHARES,))}  # noqa: RUF012

    found = (
        InstalledEntryPoint("bad", "b:Bad", "acme 2", missing),
        InstalledEntryPoint("toy", "t:Toy", "toys 1", lambda: Toy),
    )
    monkeypatch.setattr(hookserver_plugins, "find_entry_points", lambda _group: found)


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    """The command with a variable for its settings."""
    return CliRunner().invoke(cli, ["hookserver", "plugins", *arguments], env=env or {}, standalone_mode=False)


def test_all_plugins_are_listed_in_their_order() -> None:
    """Ours, then those that are on, then those that are only installed."""
    result = run("-o", "json", env={"INTERPOSE_HOOKSERVER_EXTERNAL_PLUGINS": "toy"})
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows][-3:] == ["GPUEnvInject", "toy", "bad"]
    by_name = {row["name"]: row for row in rows}
    assert (by_name["CPUSetAllocator"]["state"], by_name["Resctrl"]["state"]) == ("on", "off")
    assert by_name["toy"] == {"name": "toy", "state": "on", "package": "toys 1", "summary": "For tests", "problem": ""}
    assert result.return_value == 0, "one that is off and broken is no failure"


def test_settings_of_the_file_count(tmp_path: Path) -> None:
    """As for the hook server itself."""
    path = tmp_path / "hookserver.yaml"
    path.write_text("apiVersion: interpose/v1\nkind: HookServerConfig\nplugins: {resctrl: true, external: [bad]}\n")
    result = run("--config", str(path))
    assert "Resctrl           on     interpose" in result.stdout
    assert "bad               on     acme 2     could not be loaded" in result.stdout
    error = "error: plugin bad: distribution acme 2, entry point bad = b:Bad: ImportError: No module named 'x?[2J'"
    assert result.stderr.startswith(error)
    assert result.return_value == 1


def test_a_plugin_that_is_on_and_not_installed_is_listed() -> None:
    """So that whoever asks sees the misspelt name."""
    result = run(env={"INTERPOSE_HOOKSERVER_EXTERNAL_PLUGINS": "tyo"})
    assert "error: plugin tyo: no installed package has an entry point 'tyo'" in result.stderr
    assert result.return_value == 1


def test_a_name_twice_is_a_mistake_of_the_settings() -> None:
    """Nobody can run twice."""
    result = run(env={"INTERPOSE_HOOKSERVER_EXTERNAL_PLUGINS": "toy,toy"})
    assert "plugins.external: toy appears more than once" in result.stderr
    assert result.return_value == 78
