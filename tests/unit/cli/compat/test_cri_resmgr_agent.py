"""Command lines of `cri-resmgr-agent` work as they did."""

import shlex
from typing import Any

import pytest

from interpose import __version__
from interpose.cli.agent import command as agent
from interpose.cli.compat import cri_resmgr_agent
from interpose.cli.compat.cri_resmgr_agent import AGENT_PROGRAM, run_command
from interpose.cli.compat.cri_resmgr_common import load_line
from interpose.cli.compat.cri_resmgr_flags import read_line
from interpose.config.agent.settings import (
    AgentSettings,
    ApiSettings,
    ConfigSettings,
    NodeStateSettings,
    ServiceSettings,
)
from interpose.config.load import LoadedSettings

NODE = {"NODE_NAME": "n1"}
DEFAULTS = AgentSettings(
    config=ConfigSettings(socket="/var/run/cri-resmgr-config.sock"),
    service=ServiceSettings(socket="/var/run/cri-resmgr-agent.sock"),
    node_state=NodeStateSettings(file="none"),
)


def loaded(line: str, env: dict[str, str] | None = None) -> LoadedSettings:
    """The settings of a command line."""
    return load_line(AGENT_PROGRAM, read_line(shlex.split(line), flags=AGENT_PROGRAM.flags), env or NODE)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[AgentSettings]:
    """What would have been started."""
    started: list[AgentSettings] = []

    def run(said: LoadedSettings) -> int:
        started.append(said.settings)
        return 5

    monkeypatch.setattr(agent, "run_agent", run)
    return started


def test_the_bare_command_has_the_old_defaults(runs: list[AgentSettings]) -> None:
    """Sockets where they always were, no file for a hook server."""
    assert run_command([], NODE) == 5
    assert runs == [DEFAULTS]


def test_the_documented_command() -> None:
    """As the manual prints it, with one dash or two."""
    assert loaded("-kubeconfig /etc/kc").settings.api == ApiSettings(kubeconfig="/etc/kc")
    assert loaded("--kubeconfig=/etc/kc").settings.api == ApiSettings(kubeconfig="/etc/kc")


def test_a_relative_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Programs are started from somewhere."""
    monkeypatch.chdir(tmp_path)
    assert loaded("-kubeconfig kc").settings.api.kubeconfig == str(tmp_path / "kc")
    assert loaded("-kubeconfig ''").settings.api.kubeconfig == ""


def test_every_flag_reaches_its_setting() -> None:
    """The last one counts."""
    line = "-agent-socket /a -agent-socket /b -cri-resmgr-socket /c -config-ns ns -configmap-name m -label-name l/g"
    config = loaded(line).settings.config
    assert (config.socket, config.namespace, config.map, config.group_label) == ("/c", "ns", "m", "l/g")
    assert loaded(line).settings.service.socket == "/b"


@pytest.mark.parametrize("off", ["", "disabled"])
def test_sockets_can_be_turned_off(off: str) -> None:
    """As in the newer releases."""
    settings = loaded(f"-agent-socket '{off}' -cri-resmgr-socket '{off}'").settings
    assert (settings.pushes, settings.serves) == (False, False)


def test_flags_of_the_log() -> None:
    """As cri-resmgr treats them: levels and debugging count, klog's have no effect, which is said."""
    assert loaded("-logger-level warn").settings.logging.level == "warning"
    debugged = loaded("-logger-debug agent")
    assert (debugged.settings.logging.level, debugged.settings.logging.debug[0]) == ("info", "kube.agent")
    unknown = "--logger-debug: 'agnet' is not a source of the log, did you mean agent?"
    assert loaded("-logger-debug agnet").warnings == (unknown,)
    assert loaded("", NODE | {"LOGGER_DEBUG": "*"}).settings.logging.level == "debug"
    assert loaded("-v 5 -alsologtostderr").warnings == (
        "--v: has no effect; see --logger-level and --logger-debug",
        "--alsologtostderr: has no effect; the log goes to standard error",
    )


def test_the_environment_says_the_rest() -> None:
    """A flag beats it, it beats the old defaults."""
    env = NODE | {"INTERPOSE_AGENT_CONFIG_MAP": "m", "INTERPOSE_AGENT_NODE_STATE_FILE": "/x/state.json"}
    settings = loaded("", env).settings
    assert (settings.config.map, settings.node_state.file) == ("m", "/x/state.json")
    assert loaded("-configmap-name f", env).settings.config.map == "f"


def test_without_node_name_it_is_said_what_is_used(
    runs: list[AgentSettings], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old program ends; hosts are mostly called as their nodes."""
    monkeypatch.setattr("socket.gethostname", lambda: "host-1")
    assert run_command([], {}) == 5
    assert "NODE_NAME is not set, the node is taken to be 'host-1'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "code", "problem"),
    [
        ("-x", 2, "unknown flag -x"),
        ("-config-ns", 2, "flag -config-ns needs a value"),
        ("word", 1, "unexpected argument 'word'"),
        ("-config-ns a/b", 78, "flag -config-ns: 'a/b' is not the name of a namespace"),
    ],
)
def test_wrong_lines_are_refused(
    line: str, code: int, problem: str, runs: list[AgentSettings], capsys: pytest.CaptureFixture[str]
) -> None:
    """As Go programs end; values that cannot be used as ours do."""
    assert run_command(shlex.split(line), NODE) == code
    assert problem in capsys.readouterr().err
    assert runs == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--help", "--cri-resmgr-socket string"),
        ("-h", "Usage: cri-resmgr-agent [flags]"),
        ("-version", f"cri-resmgr-agent (interpose {__version__})"),
        ("-print-config", "default of cri-resmgr-agent"),
    ],
)
def test_what_is_printed(line: str, text: str, capsys: pytest.CaptureFixture[str], runs: list[AgentSettings]) -> None:
    """And nothing is run."""
    assert run_command([line], NODE) == 0
    assert text in capsys.readouterr().out
    assert runs == []


def test_the_process_ends_with_the_code(monkeypatch: pytest.MonkeyPatch, runs: list[AgentSettings]) -> None:
    """The entry point."""
    monkeypatch.setattr("sys.argv", ["cri-resmgr-agent"])
    monkeypatch.setenv("NODE_NAME", "n1")
    with pytest.raises(SystemExit) as ended:
        cri_resmgr_agent.main()
    assert ended.value.code == 5
