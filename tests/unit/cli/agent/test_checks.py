"""What an agent finds around it before it starts."""

import socket
from pathlib import Path

import pytest

from interpose.cli.agent.checks import check, find_access, node_name
from interpose.config.agent.settings import AgentSettings, ApiSettings
from interpose.config.agent.table import AGENT
from interpose.config.load import SettingText, load
from interpose.errors import ConfigError


def test_the_name_of_the_node_is_as_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the setting, else by NODE_NAME, else as the host is called."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Host-1")
    env = {"NODE_NAME": "n2"}
    assert node_name(AgentSettings(node_name="n1"), env) == "n1"
    assert node_name(AgentSettings(), env) == "n2"
    assert node_name(AgentSettings(), {}) == "host-1"


def test_a_name_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With where it came from."""
    with pytest.raises(ConfigError, match="environment NODE_NAME: 'N 2' is not the name of a node"):
        node_name(AgentSettings(), {"NODE_NAME": "N 2"})
    monkeypatch.setattr(socket, "gethostname", lambda: "my_host")
    with pytest.raises(ConfigError, match="name of the host: 'my_host'"):
        node_name(AgentSettings(), {})


@pytest.mark.parametrize("flag", ["config.map", "node_name"])
def test_a_name_that_no_object_can_have_is_refused(flag: str) -> None:
    """A ConfigMap of that name would never be found."""
    flags = {"node_name": SettingText("n1", "flag --node-name")} | {flag: SettingText("a..b", "flag --it")}
    with pytest.raises(ConfigError, match=r"flag --it: .*'a\.\.b'"):
        check(load(AGENT, flags=flags, env={}), {})


def test_names_that_objects_can_have() -> None:
    """With dots in them too."""
    flags = {"config.map": SettingText("a.b", "flag"), "node_name": SettingText("n1.example.org", "flag")}
    check(load(AGENT, flags=flags, env={}), {})


def test_outside_of_a_cluster_a_kubeconfig_is_asked_for() -> None:
    """The message names the flag."""
    with pytest.raises(ConfigError, match="--kubeconfig"):
        find_access(AgentSettings(), {"api.kubeconfig": "default"}, {})


def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """With who named it."""
    path = tmp_path / "kubeconfig"
    settings = AgentSettings(api=ApiSettings(kubeconfig=str(path)))
    origins = {"api.kubeconfig": "flag --kubeconfig"}
    with pytest.raises(ConfigError, match=f"flag --kubeconfig: file {path}"):
        find_access(settings, origins, {})
    path.write_text("apiVersion: v1\nkind: Config\nclusters: 7\n")
    with pytest.raises(ConfigError, match=f"flag --kubeconfig: file {path}"):
        find_access(settings, origins, {})
