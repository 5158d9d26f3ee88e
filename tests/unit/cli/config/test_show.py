"""`interpose config show` tells what a program would be started with, and why."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interpose.cli.compat.cri_resmgr import load_line
from interpose.cli.compat.cri_resmgr_flags import read_line
from interpose.cli.compat.go_flags import read_option_file
from interpose.cli.main import cli
from interpose.config.load import load
from interpose.config.relay.table import RELAY

SAMPLES = Path(__file__).parents[4] / "samples"


def show(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(cli, ["config", "show", *map(str, arguments)])


def rows(*arguments: object) -> list[list[str]]:
    """The lines of its table without the header, in columns."""
    result = show(*arguments)
    assert result.exit_code == 0, result.output
    return [line.split(maxsplit=2) for line in result.stdout.splitlines()[1:]]


def test_flags_behind_two_dashes_are_those_of_the_program() -> None:
    """The program itself need not be named if it is the relay."""
    expected = [["policy.name", "static", "flag --policy"], ["policy.reserved", "cpu=1", "flag --reserved-resources"]]
    line = ("--", "--policy", "static", "--reserved-resources", "cpu=1")
    assert rows("--changed", "relay", *line) == expected
    assert rows("--changed", *line) == expected


def test_the_table_is_that_of_print_config() -> None:
    """Both say the same of the same flags."""
    printed = CliRunner().invoke(cli, ["relay", "--print-config", "--grace", "5s"])
    assert show("relay", "--", "--grace", "5s").stdout == printed.stdout


def test_every_origin_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File and line, variable, flag, and the value set by key."""
    path = tmp_path / "relay.yaml"
    path.write_text("apiVersion: interpose/v1\nkind: RelayConfig\nlisten: /run/a.sock\nprocess: {grace: 1s}\n")
    monkeypatch.setenv("INTERPOSE_GRACE", "2s")
    monkeypatch.setenv("INTERPOSE_BACKEND_WAIT", "2s")
    found = rows("--changed", "--config", path, "--set", "backend=cri", "relay", "--", "--backend-wait", "3s")
    assert found == [
        ["listen", "/run/a.sock", f"file {path}:3"],
        ["backend", "cri", "flag --set backend"],
        ["limits.backend_wait", "3s", "flag --backend-wait"],
        ["process.grace", "2s", "environment INTERPOSE_GRACE"],
    ]
    assert ["process.grace", "1s", f"file {path}:4"] in rows("--config", path, "--no-env")


def test_programs_of_others_have_defaults_of_their_own() -> None:
    """And option files, whose lines are origins."""
    found = rows("cri-resmgr", "--changed", "--no-env", "--", "-config", SAMPLES / "static-policy.cfg")
    assert ["listen", "/var/run/cri-relay.sock", "default of cri-resmgr"] in found
    assert ["policy.name", "static", f"file {SAMPLES}/static-policy.cfg line 2: policy"] in found


def test_an_option_file_becomes_a_settings_file(tmp_path: Path) -> None:
    """With the same settings: a way to migrate."""
    options = SAMPLES / "static-policy.cfg"
    path = tmp_path / "relay.yaml"
    path.write_text(show("cri-resmgr", "--changed", "-o", "yaml", "--", "-config", options).stdout)
    before = load_line(read_line(["-config", str(options)], read_option_file), {})
    assert load(RELAY, flags={}, env={}, path=str(path)).settings == before.settings


def test_settings_are_available_as_json() -> None:
    """By key."""
    found = json.loads(show("hookserver", "--changed", "-o", "json", "--", "--mode", "proxy").stdout)
    assert found == {
        "program": "interpose hookserver",
        "kind": "HookServerConfig",
        "settings": {"mode": {"value": "proxy", "origin": "flag --mode"}},
    }


def test_warnings_go_to_standard_error() -> None:
    """The output stays what it is."""
    result = show("cri-resmgr", "--", "-trace", "x")
    assert "warning: --trace: tracing is not available" in result.stderr
    assert "warning" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["kubelet"], 2, "'kubelet' is not a program with settings, they are relay, hookserver"),
        (["relay", "--set", "x"], 2, "expected KEY=VALUE"),
        (["relay", "--set", "x=1"], 2, "'x' is not a key of interpose relay"),
        (["relay", "--set", "backend=x"], 78, "flag --set backend: 'x' is not one of cri, docker"),
        (["relay", "--", "--no-such"], 2, "No such option"),
        (["relay", "--", "word"], 2, "unexpected extra argument"),
        (["cri-resmgr", "--config", "x"], 2, "has flags of its own"),
        (["cri-resmgr", "--", "-x"], 2, "unknown flag -x"),
        (["relay", "--running", "--config", "x"], 2, "--running shows what a process has"),
        (["relay", "--admin", "x"], 2, "--admin goes with --running"),
        (["relay", "--config", "/no/such.yaml"], 78, "cannot be read"),
        (["hookserver", "--", "--disable-stages", "x"], 78, "is not a hook point"),
    ],
)
def test_mistakes_are_told(arguments: list[str], code: int, message: str) -> None:
    """Wrong usage is 2, settings that cannot be used are 78."""
    result = show(*arguments)
    assert (result.exit_code, message in result.output) == (code, True), result.output


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["webhook", "--", "--tls-cert", "f"], "tls.cert"),
        (["agent", "--", "--kubeconfig", "f"], "api.kubeconfig"),
        (["agent", "--set", "node_state.file=f"], "node_state.file"),
        (["relay", "--", "--policy-config", "f"], "policy.config"),
        (["cri-resmgr-webhook", "--", "-cert-file", "f"], "tls.cert"),
        (["cri-resmgr-agent", "--", "-kubeconfig", "f"], "api.kubeconfig"),
        (["cri-resmgr", "--", "-force-config", "f"], "policy.config"),
    ],
)
def test_paths_of_flags_may_be_relative(
    arguments: list[str], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here as there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NODE_NAME", "n1")
    assert f"{tmp_path}/f" in [value for name, value, _ in rows(*arguments) if name == key]


def test_every_key_of_a_settings_file_can_stand_beside_the_others(tmp_path: Path) -> None:
    """The whole file is taken again, with the defaults that a switch replaces."""
    path = tmp_path / "relay.yaml"
    path.write_text(show("relay", "-o", "yaml", "--", "--socket-like-backend").stdout)
    assert load(RELAY, flags={}, env={}, path=str(path)).settings.socket.like_backend
