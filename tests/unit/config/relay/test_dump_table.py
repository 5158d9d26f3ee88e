"""Settings about dumps and recordings."""

from pathlib import Path

import pytest

from interpose.config.load import LoadedSettings, SettingText, load
from interpose.config.relay.settings import DumpSettings
from interpose.config.relay.table import RELAY
from interpose.errors import ConfigError


def given(**values: str) -> LoadedSettings:
    """Settings with these flags."""
    return load(RELAY, flags={f"dump.{key}": SettingText(text, f"flag {key}") for key, text in values.items()}, env={})


def of_file(path: Path, text: str) -> DumpSettings:
    """Settings of a file with this below `dump:`."""
    path.write_text(f"apiVersion: interpose/v1\nkind: RelayConfig\ndump:\n{text}")
    settings: DumpSettings = load(RELAY, flags={}, env={}, path=str(path)).settings.dump
    return settings


def test_nothing_is_dumped_by_default() -> None:
    """And an empty variable is as good as none."""
    assert given().settings.dump == DumpSettings()
    assert given(rules="", file="", record="").settings.dump == DumpSettings()


def test_several_rules_have_a_semicolon_between() -> None:
    """As commas are a part of them."""
    text = "full:.*,off:Version; short:Exec;"
    assert given(rules=text).settings.dump.rules == ("full:.*,off:Version", "short:Exec")


def test_rules_in_a_file_are_a_list_or_one_text(tmp_path: Path) -> None:
    """Both in quotes, since YAML has other plans with on, off and stars."""
    path = tmp_path / "relay.yaml"
    assert of_file(path, '  rules: ["full:.*,off:Version", "short:Exec"]\n').rules == (
        "full:.*,off:Version",
        "short:Exec",
    )
    assert of_file(path, '  rules: "on"\n').rules == ("on",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("  rules: on\n", "line 4: dump.rules: expected [target:]method,"),
        ("  rules: [on]\n", "line 4: dump.rules: expected [target:]method,"),
        ('  rules: ["a;b"]\n', "line 4: dump.rules: expected [target:]method,"),
        ('  rules: ["a", "x:b"]\n', "line 4: dump.rules: 'x:b' names 'x', targets are off"),
        ("  redact: everything\n", "line 4: dump.redact: "),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    """And with the item."""
    path = tmp_path / "relay.yaml"
    with pytest.raises(ConfigError) as caught:
        of_file(path, text)
    assert caught.value.problems[0].startswith(f"file {path} {problem}")


def test_what_is_hidden_is_checked_and_kept_as_written(tmp_path: Path) -> None:
    """--print-config shows what was typed; in a file it may be a list."""
    assert given(redact=" default,-env:PATH ").settings.dump.redact == "default,-env:PATH"
    assert of_file(tmp_path / "r.yaml", '  redact: [default, "env:*"]\n').redact == "default,env:*"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"rules": "a:b:c"}, "flag rules: 'a:b:c' has more than one colon"),
        ({"file": "/dump\n.txt"}, r"flag file: '/dump\n.txt' has characters that cannot be shown"),
        ({"file": "/d"}, "flag file: dump.file would stay empty"),
        ({"rules": "on", "log": "false"}, "flag log: dump.rules (flag rules) are there, but neither dump.log nor"),
        ({"rules": "on", "file": "/d", "record": "/d"}, "flag record: dump.record is the same file as dump.file: '/d'"),
        ({"record_size": "1KiB"}, "flag record_size: '1KiB' is out of range: allowed are 64KiB to 1024GiB"),
        ({"record_files": "0"}, "flag record_files: '0' is out of range"),
        ({"queue": "1"}, "flag queue: '1' is out of range"),
        ({"count_period": "-1s"}, "flag count_period: '-1s' is not a time"),
    ],
)
def test_what_cannot_be_used_is_named(values: dict[str, str], problem: str) -> None:
    """With flag and value."""
    with pytest.raises(ConfigError) as caught:
        given(**values)
    assert len(caught.value.problems) == 1
    assert problem in caught.value.problems[0]


def test_a_file_of_its_own_is_enough() -> None:
    """Then the log may go without."""
    dump = given(rules="on", log="false", file="/d").settings.dump
    assert (dump.log, dump.file) == (False, "/d")
