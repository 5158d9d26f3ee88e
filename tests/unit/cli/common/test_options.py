"""Options follow the table of settings."""

import pytest
from click.testing import CliRunner

from interpose.cli.common.options import SettingOption, SettingsCommand, collect_flags, parameter_name, run_loaded
from interpose.config.load import LoadedSettings, SettingText, load
from interpose.config.relay.table import RELAY, RELAY_SETTINGS


def test_there_is_one_option_per_setting() -> None:
    """No setting lacks its flag, and none is left over."""
    command = SettingsCommand("x", RELAY, params=[])
    assert [option.setting for option in command.params if isinstance(option, SettingOption)] == list(RELAY_SETTINGS)


def test_help_shows_section_default_and_variable() -> None:
    """A reader of --help learns everything needed to set a value."""
    command = SettingsCommand("x", RELAY, params=[], callback=lambda **_: None)
    text = CliRunner().invoke(command, ["--help"], terminal_width=400).output
    for title in RELAY.titles.values():
        assert f"\n{title}:\n" in text
    assert "[default: 64KiB; env: INTERPOSE_MAX_HEADER_LIST]" in text
    for setting in RELAY_SETTINGS:
        assert setting.flag in text
        assert setting.env in text


def test_only_collect_flags_count() -> None:
    """What was not on the command line stays open for other sources; switches can be turned off too."""
    seen: dict[str, SettingText] = {}

    def callback(**parameters: object) -> None:
        seen.update(collect_flags(parameters, RELAY))

    command = SettingsCommand("x", RELAY, params=[], callback=callback)
    CliRunner().invoke(
        command, ["--max-streams", "5", "--no-take-over", "--socket-like-backend"], catch_exceptions=False
    )
    assert seen == {
        "limits.max_streams": SettingText("5", "flag --max-streams"),
        "process.take_over": SettingText("false", "flag --no-take-over"),
        "socket.like_backend": SettingText("true", "flag --socket-like-backend"),
    }


def test_parameter_names_are_unique_python_names() -> None:
    """Dots of keys become double underscores."""
    names = [parameter_name(setting) for setting in RELAY_SETTINGS]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)


def test_a_flag_that_may_be_repeated_keeps_all_its_values() -> None:
    """In their order; not given it says nothing."""
    seen: list[dict[str, SettingText]] = []

    def callback(**parameters: object) -> None:
        seen.append(collect_flags(parameters, RELAY))

    command = SettingsCommand("x", RELAY, params=[], callback=callback)
    for line in ([], ["--dump", "full:.*,off:Version"], ["--dump", "reset", "--dump=short:Exec"]):
        CliRunner().invoke(command, line, catch_exceptions=False)
    assert seen == [
        {},
        {"dump.rules": SettingText("full:.*,off:Version", "flag --dump")},
        {"dump.rules": SettingText("reset;short:Exec", "flag --dump")},
    ]


@pytest.mark.parametrize("print_config", [True, False])
def test_print_config_prints_settings_and_runs_nothing(print_config: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings are printed in any case, before the program runs."""
    loaded = load(RELAY, flags={}, env={"INTERPOSE_XYZ": "1s"})
    runs: list[LoadedSettings] = []

    def run(loaded: LoadedSettings) -> int:
        runs.append(loaded)
        return 7

    assert run_loaded(loaded, run, print_config=print_config) == (0 if print_config else 7)
    assert runs == ([] if print_config else [loaded])
    output = capsys.readouterr()
    assert output.err == "warning: environment INTERPOSE_XYZ: is not a known setting and has no effect\n"
    assert output.out.startswith("KEY ") is print_config
