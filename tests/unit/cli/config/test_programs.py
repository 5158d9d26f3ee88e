"""Settings are those the program itself would have, by whatever name it is called."""

from pathlib import Path

import click
import pytest

from interpose.cli.config.programs import DROP_INS, check, load_program
from interpose.config.load import SettingText, load
from interpose.config.programs import PROGRAMS
from interpose.errors import ConfigError


def test_flags_are_those_of_the_program() -> None:
    """They beat the environment, which beats the file; what is set by key beats them all."""
    loaded = load_program(
        "relay",
        ["--policy", "static", "--no-hooks", "--grace", "5s"],
        {"INTERPOSE_GRACE": "1s", "INTERPOSE_BACKEND_WAIT": "2s"},
        config=None,
        given={"process.grace": SettingText("7s", "flag --set process.grace")},
    )
    found = {key: loaded.origins[key] for key in ("policy.name", "hooks.enabled", "process.grace")}
    assert found == {
        "policy.name": "flag --policy",
        "hooks.enabled": "flag --no-hooks",
        "process.grace": "flag --set process.grace",
    }
    assert loaded.origins["limits.backend_wait"] == "environment INTERPOSE_BACKEND_WAIT"


def test_a_settings_file_can_be_among_the_flags(tmp_path: Path) -> None:
    """Then that one counts."""
    path = tmp_path / "relay.yaml"
    path.write_text("apiVersion: interpose/v1\nkind: RelayConfig\nlisten: /run/x.sock\n")
    loaded = load_program("relay", ["--config", str(path)], {}, config="/nowhere", given={})
    assert loaded.origins["listen"] == f"file {path}:3"


def test_flags_that_do_not_exist_are_wrong_usage() -> None:
    """As for the program."""
    with pytest.raises(click.UsageError):
        load_program("relay", ["--polcy", "static"], {}, config=None, given={})


@pytest.mark.parametrize(
    ("name", "arguments", "key", "origin"),
    [
        ("cri-resmgr", ["-policy", "static"], "policy.name", "flag -policy"),
        ("koord-runtime-proxy", ["--backend-runtime-mode=Containerd"], "backend", "flag --backend-runtime-mode"),
        ("cri-resmgr-agent", ["-config-ns", "x"], "config.namespace", "flag -config-ns"),
        ("cri-resmgr-webhook", ["-port", "8443"], "listen", "flag -port"),
    ],
)
def test_programs_of_others_have_their_own_flags(name: str, arguments: list[str], key: str, origin: str) -> None:
    """And settings of the program that stands in for them."""
    loaded = DROP_INS[name].load(arguments, {"NODE_NAME": "n"})
    assert loaded.schema is PROGRAMS[DROP_INS[name].program].schema()
    assert loaded.origins[key] == origin


@pytest.mark.parametrize("name", DROP_INS)
def test_their_mistakes_are_wrong_usage(name: str) -> None:
    """A flag nobody has, and words behind the flags."""
    with pytest.raises(click.UsageError, match="unknown flag"):
        DROP_INS[name].load(["--no-such-flag"], {})
    with pytest.raises(click.UsageError, match="unexpected argument"):
        DROP_INS[name].load(["word"], {})


def test_a_relay_refuses_rules_that_take_for_ever() -> None:
    """As at its start; where files are is a matter of the machine."""
    slow = load(PROGRAMS["relay"].schema(), flags={"dump.rules": SettingText("full:(.*)*(.*)*(.*)*x", "x")}, env={})
    with pytest.raises(ConfigError, match="takes too long"):
        check("relay", slow, {})
    elsewhere = load(PROGRAMS["relay"].schema(), flags={"dump.record": SettingText("/no/such/x.crirec", "x")}, env={})
    (warning,) = check("relay", elsewhere, {})
    assert warning.endswith("is not a directory (on this machine)")


def test_a_hook_server_knows_its_hook_points() -> None:
    """Which its table does not."""
    wrong = load(PROGRAMS["hookserver"].schema(), flags={"hooks.disable_stages": SettingText("PreCreate", "x")}, env={})
    with pytest.raises(ConfigError, match="is not a hook point"):
        check("hookserver", wrong, {})


@pytest.mark.parametrize("name", PROGRAMS)
def test_defaults_are_fine(name: str) -> None:
    """For every program, on any machine."""
    assert check(name, load(PROGRAMS[name].schema(), flags={}, env={}), {"NODE_NAME": "n"}) == []
