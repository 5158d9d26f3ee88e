"""`interpose agent`: flags, environment and file become settings; nothing is started with wrong ones."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.config.agent.settings import AgentSettings, ApiSettings


class FakeProcess(ModuleType):
    """Stands for `interpose.cli.agent.process`: remembers what it was run with."""

    def __init__(self) -> None:
        super().__init__("interpose.cli.agent.process")
        self.runs: list[tuple[AgentSettings, str]] = []
        self.servers: list[str] = []

    def run(self, settings: AgentSettings, node: str, access: Any, origins: Mapping[str, str]) -> int:
        """Remember."""
        self.runs.append((settings, node))
        self.servers.append(str(access.server))
        assert origins["api.kubeconfig"] != "default"
        return 0


@pytest.fixture
def agent_process(monkeypatch: pytest.MonkeyPatch) -> FakeProcess:
    """The agent that commands will start."""
    fake = FakeProcess()
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    monkeypatch.setenv("NODE_NAME", "n1")
    return fake


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """One that can be used."""
    path = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    path.write_text(json.dumps(document))
    path.chmod(0o600)
    return path


def agent(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli, ["agent", *arguments])


def test_settings_reach_the_process(agent_process: FakeProcess, kubeconfig: Path) -> None:
    """With the name of the node and the way to the cluster."""
    result = agent("--kubeconfig", str(kubeconfig))
    assert result.exit_code == 0, result.output
    assert agent_process.runs == [(AgentSettings(api=ApiSettings(kubeconfig=str(kubeconfig))), "n1")]
    assert agent_process.servers == ["http://127.0.0.1:1"]


def test_a_kubeconfig_may_be_named_from_here(
    agent_process: FakeProcess, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on every command line; in the environment it has to be the whole path."""
    monkeypatch.chdir(kubeconfig.parent)
    assert agent("--kubeconfig", "kubeconfig").exit_code == 0
    assert agent_process.runs[0][0].api.kubeconfig == str(kubeconfig)
    monkeypatch.setenv("INTERPOSE_AGENT_KUBECONFIG", "kubeconfig")
    result = agent()
    assert result.exit_code == 78
    assert "environment INTERPOSE_AGENT_KUBECONFIG: 'kubeconfig' is not an absolute path" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--kubeconfig", "/nonexistent"], "flag --kubeconfig: file /nonexistent"),
        ([], "name a kubeconfig file (--kubeconfig FILE)"),
        (["--when-missing", "x"], "flag --when-missing: 'x'"),
    ],
)
def test_what_cannot_be_used_ends_the_start(
    agent_process: FakeProcess, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str
) -> None:
    """Exit code 78, and nothing was started."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = agent(*arguments)
    assert result.exit_code == 78
    assert problem in result.stderr
    assert agent_process.runs == []


def test_unknown_variables_are_pointed_out(
    agent_process: FakeProcess, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typing mistake is not silently ignored."""
    monkeypatch.setenv("INTERPOSE_AGENT_NODE", "x")
    result = agent("--kubeconfig", str(kubeconfig))
    assert "warning: environment INTERPOSE_AGENT_NODE" in result.stderr
    assert len(agent_process.runs) == 1


def test_print_config_starts_nothing(agent_process: FakeProcess) -> None:
    """Not even a cluster is needed."""
    result = agent("--print-config")
    assert result.exit_code == 0
    assert "config.namespace" in result.stdout
    assert agent_process.runs == []
