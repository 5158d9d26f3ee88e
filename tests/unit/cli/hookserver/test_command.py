"""`interpose hookserver` hands the right settings to the right part, and says no in time."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.config.hookserver.settings import HookServerSettings
from interpose.config.hookserver.table import HOOKSERVER_SETTINGS
from interpose.errors import ConfigError, SocketInUseError


class FakeParts:
    """Stands for what the command starts: remembers with what, and ends as told."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, HookServerSettings, dict[str, Any]]] = []
        self.exit_code = 0
        self.error: Exception | None = None

    def start(self, what: str) -> Callable[..., int]:
        """The function that starts it."""

        def run(settings: HookServerSettings, _origins: object = None, **options: Any) -> int:
            self.runs.append((what, settings, options))
            if self.error is not None:
                raise self.error
            return self.exit_code

        return run


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> FakeParts:
    """In the place of the modules that do the work."""
    fake = FakeParts()
    for module, functions in {"process": ("run",), "once": ("run_once", "remove_registration")}.items():
        stand_in = ModuleType(f"interpose.cli.hookserver.{module}")
        for name in functions:
            setattr(stand_in, name, fake.start(name))
        monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    return fake


def hookserver(*arguments: str, env: dict[str, str] | None = None) -> Result:
    """Call it."""
    return CliRunner().invoke(cli, ["hookserver", *arguments], env=env)


# -- what is started


def test_without_flags_the_defaults_are_run(parts: FakeParts) -> None:
    """The plain command is a daemon with the documented defaults."""
    assert hookserver().exit_code == 0
    assert parts.runs == [("run", HookServerSettings(), {})]


def test_once_is_one_round(parts: FakeParts) -> None:
    """In words unless somebody wants JSON."""
    assert hookserver("--once").exit_code == 0
    assert parts.runs == [
        ("run_once", HookServerSettings(), {"restore": False, "dry_run": False, "as_json": False}),
    ]


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (("--once", "--dry-run"), {"restore": False, "dry_run": True, "as_json": False}),
        (("--once", "--output", "json"), {"restore": False, "dry_run": False, "as_json": True}),
        (("--restore",), {"restore": True, "dry_run": False, "as_json": False}),
        (("--restore", "--dry-run", "--output=json"), {"restore": True, "dry_run": True, "as_json": True}),
        (("--once", "--restore"), {"restore": True, "dry_run": False, "as_json": False}),
    ],
)
def test_what_a_round_shall_do_is_passed_on(parts: FakeParts, flags: tuple[str, ...], options: dict[str, bool]) -> None:
    """Each flag by itself."""
    assert hookserver(*flags).exit_code == 0
    assert [(what, said) for what, _, said in parts.runs] == [("run_once", options)]


def test_deregistering_is_all_that_is_done(parts: FakeParts) -> None:
    """With the settings that say which file."""
    assert hookserver("--deregister", "--hooks-dir", "/hooks").exit_code == 0
    ((what, settings, _),) = parts.runs
    assert (what, settings.registration.dir) == ("remove_registration", "/hooks")


@pytest.mark.parametrize("flags", [(), ("--once",), ("--restore",)])
def test_what_is_started_gets_real_paths(parts: FakeParts, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """A mount may be reached by a link; what is shown is what was said."""
    (tmp_path / "link").symlink_to(tmp_path)
    said = ("--proc-root", f"{tmp_path}/link/proc")
    assert hookserver(*flags, *said).exit_code == 0
    ((_, settings, _),) = parts.runs
    assert settings.cgroups.proc_root == f"{tmp_path}/proc"
    assert f"{tmp_path}/link/proc" in hookserver("--print-config", *said).stdout


def test_flags_environment_and_file_reach_it(parts: FakeParts, tmp_path: Path) -> None:
    """A flag counts more than a variable, which counts more than the file."""
    path = tmp_path / "hookserver.yaml"
    path.write_text(
        "apiVersion: interpose/v1\nkind: HookServerConfig\nmode: proxy\n"
        "plugins: {oom_score: true, cpuset: false}\nreconcile: {interval: 30s}\n"
    )
    result = hookserver(
        "--config",
        str(path),
        "--mode=standalone",
        "--no-batch-resource",
        env={"INTERPOSE_HOOKSERVER_MODE": "both", "INTERPOSE_HOOKSERVER_RECONCILE_INTERVAL": "5s"},
    )
    assert result.exit_code == 0, result.output
    ((_, settings, _),) = parts.runs
    assert settings.mode == "standalone"
    assert settings.reconcile.interval == 5.0
    assert (settings.plugins.oom_score, settings.plugins.cpuset, settings.plugins.batch_resource) == (
        True,
        False,
        False,
    )


def test_variables_of_the_relay_are_not_ours(parts: FakeParts) -> None:
    """Both may run from one environment file."""
    result = hookserver(env={"INTERPOSE_LISTEN": "/run/relay.sock"})
    assert result.exit_code == 0
    assert parts.runs[0][1].listen == HookServerSettings().listen


def test_unknown_variables_are_pointed_out(parts: FakeParts) -> None:
    """A misspelt one does not stop it, but it is not silent either."""
    result = hookserver(env={"INTERPOSE_HOOKSERVER_MODUS": "proxy"})
    assert result.exit_code == 0
    assert "warning: environment INTERPOSE_HOOKSERVER_MODUS" in result.stderr
    assert len(parts.runs) == 1


# -- what is only told


def test_print_config_shows_values_with_origin_and_starts_nothing(parts: FakeParts) -> None:
    """A person can see what would be in force, and why."""
    result = hookserver("--print-config", "--mode", "proxy", env={"INTERPOSE_HOOKSERVER_PLUGIN_TIMEOUT": "2s"})
    assert result.exit_code == 0
    assert re.search(r"^mode +proxy +flag --mode$", result.stdout, re.MULTILINE)
    variable = r"^hooks\.plugin_timeout +2s +environment INTERPOSE_HOOKSERVER_PLUGIN_TIMEOUT$"
    assert re.search(variable, result.stdout, re.MULTILINE)
    assert re.search(r"^plugins\.cpuset +true +default$", result.stdout, re.MULTILINE)
    assert parts.runs == []


def test_print_config_shows_every_setting(parts: FakeParts) -> None:
    """One line each."""
    lines = hookserver("--print-config").stdout.splitlines()
    shown = {line.split()[0] for line in lines if line}
    assert {setting.key for setting in HOOKSERVER_SETTINGS} <= shown


def test_help_names_every_flag(parts: FakeParts) -> None:
    """With what it is about, and starts nothing."""
    result = hookserver("--help")
    assert result.exit_code == 0
    for setting in HOOKSERVER_SETTINGS:
        assert setting.flag in result.stdout
    for flag in ("--once", "--dry-run", "--restore", "--deregister", "--output", "--config", "--print-config"):
        assert flag in result.stdout
    assert parts.runs == []


def test_the_overview_names_the_command() -> None:
    """So that people find it."""
    assert re.search(r"^ +hookserver +Give pods", CliRunner().invoke(cli, ["--help"]).stdout, re.MULTILINE)


# -- what is refused


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--dry-run",), "--dry-run goes with --once or --restore"),
        (("--dry-run", "--output", "json"), "--dry-run goes with --once or --restore"),
        (("--deregister", "--once"), "--deregister goes alone"),
        (("--deregister", "--restore"), "--deregister goes alone"),
        (("--deregister", "--dry-run"), "--deregister goes alone"),
        (("--deregister", "--once", "--dry-run"), "--deregister goes alone"),
        (("--once", "--output", "xml"), "'xml' is not one of 'text', 'json'"),
        (("--strange",), "No such option"),
        (("more",), "No such command 'more'"),
        (("--mode",), "requires an argument"),
    ],
)
def test_wrong_usage_is_2_and_starts_nothing(parts: FakeParts, flags: tuple[str, ...], text: str) -> None:
    """With a word about what is wrong."""
    result = hookserver(*flags)
    assert result.exit_code == 2
    assert text in result.stderr
    assert parts.runs == []


@pytest.mark.parametrize(
    ("flags", "texts"),
    [
        (("--mode", "sideways"), ("--mode", "sideways")),
        (("--plugin-timeout", "soon"), ("--plugin-timeout", "soon")),
        (("--reconcile-interval", "1ms"), ("--reconcile-interval", "1ms")),
        (("--priority", "-1"), ("--priority", "-1")),
        (("--registration-name", "../x"), ("--registration-name", "../x")),
        (("--kubelet-url", "ftp://x"), ("--kubelet-url", "ftp://x")),
        (("--kubepods", "a/../b"), ("--kubepods", "a/../b")),
        (("--kubepods", "a--b"), ("--kubepods", "a--b")),
        (("--kubepods", "kubepods.slice"), ("--kubepods", "without .slice: 'kubepods'")),
        (("--disable-stages", "Never"), ("--disable-stages", "'Never'", "PreRunPodSandbox")),
        (("--disable-stages", "Never", "--once"), ("--disable-stages", "'Never'")),
        (("--disable-stages", "Never", "--deregister"), ("--disable-stages", "'Never'")),
        (("--disable-stages", "Never", "--print-config"), ("--disable-stages", "'Never'")),
        (("--listen", "/a.sock", "--admin-listen", "/a.sock"), ("admin.listen", "/a.sock")),
        (("--config", "/nowhere/at/all.yaml"), ("/nowhere/at/all.yaml",)),
    ],
)
def test_settings_that_cannot_be_used_are_78_and_start_nothing(
    parts: FakeParts, flags: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    """The message names the flag and the value."""
    result = hookserver(*flags)
    assert result.exit_code == 78, result.output
    assert result.stderr.startswith("error: ")
    for text in texts:
        assert text in result.stderr
    assert parts.runs == []


def test_a_bad_settings_file_is_named_with_key_and_value(parts: FakeParts, tmp_path: Path) -> None:
    """All problems at once."""
    path = tmp_path / "c.yaml"
    path.write_text("apiVersion: interpose/v1\nkind: HookServerConfig\nmode: sideways\nplugins: {cpusets: true}\n")
    result = hookserver("--config", str(path))
    assert result.exit_code == 78
    assert str(path) in result.stderr
    assert "sideways" in result.stderr
    assert "cpusets" in result.stderr
    assert parts.runs == []


def test_a_settings_file_of_the_relay_is_refused(parts: FakeParts, tmp_path: Path) -> None:
    """It says of what kind it should be."""
    path = tmp_path / "c.yaml"
    path.write_text("apiVersion: interpose/v1\nkind: RelayConfig\n")
    result = hookserver("--config", str(path))
    assert result.exit_code == 78
    assert "HookServerConfig" in result.stderr


# -- how it ends


@pytest.mark.parametrize("flags", [(), ("--once",), ("--deregister",)])
def test_the_exit_code_is_that_of_what_was_started(parts: FakeParts, flags: tuple[str, ...]) -> None:
    """Whatever it was."""
    parts.exit_code = 1
    assert hookserver(*flags).exit_code == 1


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ConfigError("journal /x is in use by another process"), 78, "journal /x is in use by another process\n"),
        (SocketInUseError("/run/x.sock", 42), 1, "socket /run/x.sock is in use by PID 42\n"),
        (PermissionError(13, "Permission denied", "/run/x.sock"), 1, "/run/x.sock: Permission denied"),
    ],
)
def test_known_errors_are_messages(parts: FakeParts, error: Exception, code: int, words: str) -> None:
    """Not stack traces."""
    parts.error = error
    result = hookserver()
    assert result.exit_code == code
    assert result.stderr.startswith(f"error: {words}")
