"""Command lines of CRI Resource Manager work as they did."""

import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from interpose import __version__
from interpose.cli.compat import cri_resmgr
from interpose.cli.compat.cri_resmgr import load_line, run_command
from interpose.cli.compat.cri_resmgr_flags import FLAGS, read_line
from interpose.cli.compat.go_flags import read_option_file
from interpose.config.documents.policy import read_policy_document
from interpose.config.documents.yaml import read_document
from interpose.config.dump_rules import DumpTarget, parse_rules
from interpose.config.load import LoadedSettings
from interpose.config.relay.settings import DumpSettings, HookSettings, PolicySettings, RelaySettings
from interpose.core.policy.names import NAMES
from interpose.cri.methods import METHODS
from interpose.errors import ConfigError

SAMPLES = Path(__file__).parents[4] / "samples"
DEFAULTS = RelaySettings(
    listen="/var/run/cri-relay.sock",
    hooks=HookSettings(enabled=False),
    policy=PolicySettings(
        state_dir="/var/lib/cri-relay",
        config_socket="/var/run/cri-resmgr-config.sock",
        agent_socket="/var/run/cri-resmgr-agent.sock",
    ),
    dump=DumpSettings(rules=("on",)),
)


@pytest.fixture(autouse=True)
def _no_dockershim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever this machine has."""
    flag = FLAGS["runtime-socket"]._replace(default=str(tmp_path / "dockershim.sock"))
    monkeypatch.setattr(cri_resmgr, "FLAGS", {**FLAGS, "runtime-socket": flag})


def loaded(line: str, env: dict[str, str] | None = None) -> LoadedSettings:
    """The settings of a command line."""
    return load_line(read_line(shlex.split(line), read_option_file), env or {})


def test_the_bare_command_has_the_old_defaults(process: Any) -> None:
    """It listens where it always did, has no policy and asks no hook server."""
    assert run_command([], {}) == 0
    assert process.runs == [DEFAULTS]


@pytest.mark.parametrize(
    ("line", "policy", "reserved", "dump"),
    [
        (
            "-policy null -dump 'reset,full:.*' -dump-file /tmp/cri.dump",
            "none",
            "",
            DumpSettings(rules=("reset,full:.*",), file="/tmp/cri.dump"),
        ),
        ("--policy static --reserved-resources cpu=1000m", "static", "cpu=1000m", DEFAULTS.dump),
        ("--policy static-plus --reserved-resources cpu=1000m", "static-plus", "cpu=1000m", DEFAULTS.dump),
    ],
)
def test_printed_command_lines_work(line: str, policy: str, reserved: str, dump: DumpSettings) -> None:
    """Those of the old documentation."""
    found = loaded(line)
    assert (found.settings.policy.name, found.settings.policy.reserved) == (policy, reserved)
    assert found.settings.dump == dump
    assert found.warnings == ()


def test_the_policy_is_not_said_if_it_is_not_given() -> None:
    """What a document says counts then; an empty value is as good as none."""
    assert loaded("").origins["policy.name"] == "default"
    assert loaded("-policy ''").origins["policy.name"] == "default"
    assert loaded("-policy static -policy ''").origins["policy.name"] == "default"
    assert loaded("-policy stp").settings.policy.name == "static-pools"
    assert loaded("-policy none").origins["policy.name"] == "flag -policy"


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("-relay-socket unix:///r.sock", "listen", "/r.sock"),
        ("-runtime-socket /r.sock", "runtime_endpoint", "/r.sock"),
        ("-image-socket /i.sock", "image_endpoint", "/i.sock"),
        ("-image-socket default", "image_endpoint", ""),
        ("-available-resources cpu=0,2", "policy.available", "cpu=0,2"),
        ("-static-policy-relaxed-isolation", "policy.static_relaxed_isolation", True),
        ("-topology-aware-pin-cpu=false", "policy.topology_pin_cpu", False),
        ("-topology-aware-pin-memory=false", "policy.topology_pin_memory", False),
        ("-topology-aware-prefer-isolated-cpus=false", "policy.topology_prefer_isolated", False),
        ("-topology-aware-prefer-shared-cpus", "policy.topology_prefer_shared", True),
        ("-static-pools-conf-file /p.yaml", "policy.pools_file", "/p.yaml"),
        ("-static-pools-conf-dir /cmk", "policy.pools_dir", "/cmk"),
        ("-static-pools-create-cmk-node-label", "policy.pools_label_node", True),
        ("-static-pools-create-cmk-node-taint=false", "policy.pools_taint_node", False),
        ("--disable-policy-switch", "policy.switch", False),
        ("--disable-policy-switch=false", "policy.switch", True),
        ("--force-config /f.cfg", "policy.config", "/f.cfg"),
        ("--fallback-config /f.cfg", "policy.fallback", "/f.cfg"),
        ("--relay-dir /d", "policy.state_dir", "/d"),
        ("--config-socket /c.sock", "policy.config_socket", "/c.sock"),
        ("--config-socket disabled", "policy.config_socket", "none"),
        ("--config-socket=", "policy.config_socket", "none"),
        ("--agent-socket /a.sock", "policy.agent_socket", "/a.sock"),
        ("--agent-socket disabled", "policy.agent_socket", "none"),
        ("--agent-socket=", "policy.agent_socket", "none"),
        ("--host-root /host", "policy.host_root", "/host"),
        ("--host-root=", "policy.host_root", "/"),
        ("-logger-level warn", "logging.level", "warning"),
        ("-logger-level error", "logging.level", "error"),
        ("-logger-debug '*'", "logging.level", "debug"),
        ("-logger-debug policy -logger-level error", "logging.level", "error"),
        ("-logger-debug policy -logger-level error", "logging.debug", ("resmgr",)),
        ("-logger-debug * -logger-level error", "logging.level", "debug"),
        ("-image-socket -", "image_endpoint", "none"),
        ("-logger-debug none", "logging.level", "info"),
        ("-dump off:.* -dump full:RunPodSandbox", "dump.rules", ("off:.*", "full:RunPodSandbox")),
        ("-dump off:.* -dump '' -dump=on", "dump.rules", ("off:.*", "on")),
        ("-dump ''", "dump.rules", ("on",)),
        ("-dump-file /d", "dump.file", "/d"),
        ("-dump-file=", "dump.file", ""),
        ("-count-period 1m30s", "dump.count_period", 90.0),
        ("-count-period 1.5h", "dump.count_period", 5400.0),
        ("-count-period 500ms", "dump.count_period", 0.5),
        ("-count-period 250000us", "dump.count_period", 0.25),
        ("-count-period 0", "dump.count_period", 0.0),
        ("-count-period ''", "dump.count_period", 60.0),
    ],
)
def test_flags_become_settings(line: str, key: str, value: object) -> None:
    """Each the one it stands for, without a word of warning."""
    found: Any = loaded(line)
    setting: Any = found.settings
    for name in key.split("."):
        setting = getattr(setting, name)
    assert setting == value
    assert found.warnings == ()


def test_rules_of_files_and_flags_add_up(tmp_path: Path) -> None:
    """In the order in which they stand, indented options of the dump between them."""
    path = tmp_path / "dump.cfg"
    path.write_text("dump = off:.*\n  file = /d\ndump = full:CreateContainer,StartContainer\ncount-period = 2m\n")
    found = loaded(f"-dump reset -config {path} -dump short:.*Image")
    rules = ("reset", "off:.*", "full:CreateContainer,StartContainer", "short:.*Image")
    assert found.settings.dump == DumpSettings(rules=rules, file="/d", count_period=120.0)


def test_each_wrong_rule_is_named_with_its_place(tmp_path: Path) -> None:
    """Together with what else is wrong."""
    path = tmp_path / "dump.cfg"
    path.write_text("dump = off:.*\ndump = a:b:c\ndump = on\n")
    with pytest.raises(ConfigError) as caught:
        loaded(f"-policy statik -dump full:( -config {path}")
    assert caught.value.problems == [
        "flag -dump: 'full:(' is not a regular expression: missing ), unterminated subpattern at position 0",
        f"file {path} line 2: dump: 'a:b:c' has more than one colon, it is target:method",
        f"flag -policy: 'statik' is not one of {', '.join(NAMES)}",
    ]


def test_the_environment_can_turn_the_dump_off() -> None:
    """For those who never asked for it."""
    assert loaded("", {"INTERPOSE_DUMP": "off"}).settings.dump.rules == ("off",)
    assert loaded("", {"INTERPOSE_DUMP_LOG": "false"}).settings.dump.log is False


def test_paths_may_be_relative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """To where the program was started."""
    monkeypatch.chdir(tmp_path)
    assert loaded("--force-config f.cfg").settings.policy.config == f"{tmp_path}/f.cfg"
    assert loaded("--dump-file d").settings.dump.file == f"{tmp_path}/d"


def test_dockershim_is_used_where_it_exists(tmp_path: Path) -> None:
    """Else the relay looks for a runtime that does."""
    assert loaded("").settings.runtime_endpoint == ""
    (tmp_path / "dockershim.sock").touch()
    found = loaded("")
    assert found.settings.runtime_endpoint == f"{tmp_path}/dockershim.sock"
    assert found.origins["runtime_endpoint"] == "default of cri-resmgr"


def test_the_environment_beats_the_old_defaults_but_not_the_flags() -> None:
    """INTERPOSE_* works here as it does for `interpose relay`, and so does LOGGER_DEBUG."""
    env = {"INTERPOSE_LISTEN": "/e.sock", "INTERPOSE_HOOKS": "true", "LOGGER_DEBUG": "*"}
    found = loaded("", env)
    assert (found.settings.listen, found.settings.hooks.enabled) == ("/e.sock", True)
    assert found.origins["logging.level"] == "environment LOGGER_DEBUG"
    assert loaded("-relay-socket /f.sock -logger-level info", env).settings.listen == "/f.sock"
    assert loaded("-logger-level info", env).settings.logging.level == "info"


@pytest.mark.parametrize("name", [name for name, flag in FLAGS.items() if flag.note])
def test_what_does_nothing_is_said(name: str) -> None:
    """Each flag that is accepted for its own sake is named in a warning."""
    flag = FLAGS[name]
    line = f"--{name}" if flag.switch else f"--{name} x"
    assert loaded(line).warnings == (f"--{name}: {flag.note}",)


def test_nothing_is_said_about_what_is_off() -> None:
    """A switch that is false, a flag that asks for what is so anyway."""
    line = "--skip_headers=false --allow-untested-runtimes --disable-ui --image-socket default"
    assert loaded(line).warnings == ()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["static"], 1, "unexpected argument 'static'"),
        (["--disable-ui", "true"], 1, "unexpected argument 'true'"),
        (["config-help", "rdt"], 1, "'rdt' is not a module"),
        (["--polcy", "static"], 2, "unknown flag --polcy"),
        (["--policy"], 2, "flag --policy needs a value"),
        (["--policy", "eda"], 78, "flag --policy: 'eda' is not one of none, null, static"),
        (["--reserved-resources=cpu=x"], 78, "flag --reserved-resources: 'x' is not a quantity"),
        (["--force-config=/a", "--fallback-config=/b"], 78, "flag --fallback-config: policy.fallback contradicts"),
        (["-count-period", "soon"], 78, "flag -count-period: 'soon' is not a time"),
        (["-count-period", "1m3x"], 78, "flag -count-period: '1m3x' is not a time"),
        (["-dump", "x:y", "-dump", "on"], 78, "flag -dump: 'x:y' names 'x', targets are off, "),
        (["-config", "/nonexistent.cfg"], 78, "file /nonexistent.cfg: cannot be read"),
    ],
)
def test_mistakes_are_named_and_start_nothing(
    process: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    """Leftovers end with 1 and wrong flags with 2, as they did; settings that cannot be used end with 78."""
    assert run_command(arguments, {}) == code
    output = capsys.readouterr()
    assert message in output.err
    assert ("Usage: cri-resmgr [flags]" in output.err) is (code != 78)
    assert output.out == ""
    assert process.runs == []


@pytest.mark.parametrize(
    ("arguments", "beginning"),
    [
        (["-h"], "Usage: cri-resmgr [flags]"),
        (["--help", "--unknown"], "Usage: cri-resmgr [flags]"),
        (["--version"], f"cri-resmgr (interpose {__version__})"),
        (["-list-policies"], "The available policies are:\n  none: "),
        (["--list-policies"], "Available policies:\n  * none: "),
        (["--list-loggers"], "The available loggers are:"),
        (["--print-config"], "KEY"),
        (["help"], "policy:\n  Active: "),
        (["-policy", "static", "config-help", "policy.static"], "policy.static:\n  RelaxedIsolation: "),
    ],
)
def test_what_is_asked_for_is_printed_and_nothing_starts(
    process: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], beginning: str
) -> None:
    """The exit code is 0."""
    assert run_command(arguments, {}) == 0
    assert capsys.readouterr().out.startswith(beginning)
    assert process.runs == []


def test_warnings_do_not_keep_the_relay_from_running(process: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """They are on stderr."""
    assert run_command(["--trace=always"], {}) == 0
    assert process.runs == [DEFAULTS]
    assert capsys.readouterr().err.splitlines() == [
        "warning: --trace: tracing is not available; the admin socket has metrics",
    ]


def test_state_can_be_forgotten(process: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both parts or one; nothing is there yet, which is fine, and nothing starts."""
    where = ["--relay-dir", str(tmp_path), "--relay-socket", str(tmp_path / "relay.sock")]
    assert run_command([*where, "--reset-policy", "--reset-config"], {}) == 0
    path = tmp_path / "policy-state.json"
    assert capsys.readouterr().out.splitlines() == [
        f"--reset-policy: nothing to do, there is no {path}",
        f"--reset-config: nothing to do, no configuration of an agent is in {path}",
    ]
    assert process.runs == []


def test_a_part_of_the_state_is_forgotten(tmp_path: Path) -> None:
    """The other one stays."""
    from interpose.resmgr.state.checkpoint import load
    from interpose.resmgr.state.state import State, encode

    path = tmp_path / "policy-state.json"
    path.write_bytes(encode(State(policy="static", fingerprint="f", config={"policy.static": "{}"}, config_node="n")))
    path.chmod(0o600)
    where = ["--relay-dir", str(tmp_path), "--relay-socket", str(tmp_path / "relay.sock")]
    assert run_command([*where, "--reset-policy"], {}) == 0
    state = load(str(path)).state
    assert state is not None
    assert (state.policy, state.reset, state.config) == ("static", True, {"policy.static": "{}"})
    assert run_command([*where, "--reset-config"], {}) == 0
    state = load(str(path)).state
    assert state is not None
    assert (state.config, state.config_node) == ({}, "")


def test_state_is_not_forgotten_while_a_relay_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would write the state anew at once."""
    path = str(tmp_path / "relay.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        assert run_command(["--relay-dir", str(tmp_path), "--relay-socket", path, "--reset-policy"], {}) == 1
    assert f"socket {path} is in use" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.cfg")), ids=lambda path: path.stem)
def test_the_samples_can_be_used(path: Path) -> None:
    """Every option in them is known."""
    policy = "static" if path.stem == "static-policy" else "none"
    assert loaded(f"-config {path}").settings.policy.name == policy


def test_the_samples_of_the_dump_show_what_they_say() -> None:
    """All calls, or those that make pods and containers what they are."""
    every = parse_rules(loaded(f"-config {SAMPLES / 'cri-full-message-dump.cfg'}").settings.dump.rules)
    some = parse_rules(loaded(f"-config {SAMPLES / 'cri-kubelet-message-dump.cfg'}").settings.dump.rules)
    assert every.selected(METHODS) == dict.fromkeys(METHODS, DumpTarget.FULL)
    pods = {f"{verb}PodSandbox" for verb in ("Run", "Stop", "Remove")}
    containers = {f"{verb}Container" for verb in ("Create", "Start", "Stop", "Remove")}
    assert some.selected(METHODS) == dict.fromkeys(pods | containers | {"UpdateContainerResources"}, DumpTarget.FULL)


def test_the_sample_of_a_policy_document_can_be_used() -> None:
    """All of it has an effect."""
    path = str(SAMPLES / "policy.yaml")
    document = read_policy_document(read_document(path), f"file {path}")
    assert document.active == "static"
    assert set(document.options) == {"static", "static-pools"}
    assert document.warnings == ()
