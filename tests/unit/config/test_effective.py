"""Settings in force are shown with their origins, also those another process tells of."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from interpose.config.effective import (
    UNKNOWN,
    SettingRow,
    config_answer,
    rows_of,
    rows_of_answer,
    settings_file,
    table_text,
)
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.load import LoadedSettings, SettingText, load
from interpose.config.relay.table import RELAY
from interpose.config.schema import Schema, Setting
from interpose.config.values import integer, text, words

SAID = {
    "socket.allow_uids": SettingText("0,1000", "flag --allow-uids"),
    "socket.mode": SettingText("0640", "flag --socket-mode"),
    "dump.rules": SettingText("full:.*;off:Version", "flag --dump"),
    "limits.backend_wait": SettingText("0", "flag --backend-wait"),
    "hooks.skip_value": SettingText('a "b" # c', "flag --hooks-skip-value"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A group of settings."""

    groups: tuple[str, ...] = ("7",)
    label: str = "7"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings with numbers in places where YAML would read one."""

    rank: int = 0
    part: Part = field(default_factory=Part)


SMALL = Schema(
    program="test",
    file_kind="TestConfig",
    settings=Settings,
    table=(
        Setting(key="rank", flag="--rank", kind=integer(0, 9), help="", why=""),
        Setting(key="part.groups", flag="--groups", kind=words(), help="", why=""),
        Setting(key="part.label", flag="--label", kind=text(), help="", why=""),
    ),
    titles={"": "", "part": ""},
)


def loaded() -> LoadedSettings:
    """A relay that was told something."""
    return load(RELAY, flags=SAID, env={})


def test_rows_have_value_and_origin() -> None:
    """As a person writes them, in the order of the table."""
    rows = {row.key: row for row in rows_of(loaded())}
    assert list(rows) == [setting.key for setting in RELAY.table]
    assert rows["socket.mode"] == SettingRow("socket.mode", "0640", "flag --socket-mode")
    assert rows["listen"].origin == "default"


@pytest.mark.parametrize("schema", [RELAY, HOOKSERVER], ids=lambda schema: schema.file_kind)
def test_a_process_tells_the_same_as_the_loader(schema: Schema) -> None:
    """What was sent as JSON and shown elsewhere is what was loaded."""
    flags = {key: said for key, said in SAID.items() if schema is RELAY}
    found = load(schema, flags=flags, env={})
    answer = json.loads(json.dumps(config_answer(schema, found.settings, found.origins)))
    assert rows_of_answer(schema, answer) == rows_of(found)
    assert answer["program"] == schema.program


def test_an_older_process_has_no_origins() -> None:
    """Its values are shown all the same."""
    (row,) = rows_of_answer(RELAY, {"listen": "/x", "origins": ["strange"]})
    assert row == SettingRow("listen", "/x", UNKNOWN)


def test_a_newer_process_may_know_more() -> None:
    """Keys and kinds of values that are not known here are shown as they came."""
    rows = rows_of_answer(RELAY, {"new.key": [1], "hooks.timeout": "soon", "new.text": "x"})
    assert [row.value for row in rows] == ["soon", "[1]", "x"]


def test_a_settings_file_gives_the_same_settings(tmp_path: Path) -> None:
    """What was said by flags can be said by the file that is made of it, whatever the values are."""
    path = tmp_path / "relay.yaml"
    path.write_text(settings_file(RELAY, rows_of(loaded())))
    assert load(RELAY, flags={}, env={}, path=str(path)).settings == loaded().settings


def test_a_settings_file_says_where_values_are_from() -> None:
    """As comments. Numbers have quotes where their reader wants text, and none where it wants a number."""
    rows = [*rows_of(load(SMALL, flags={}, env={})), SettingRow("new.key", "x", "default")]
    assert settings_file(SMALL, rows).splitlines() == [
        "apiVersion: interpose/v1",
        "kind: TestConfig",
        "rank: 0  # default",
        "part:",
        '  groups: "7"  # default',
        "  label: 7  # default",
        "# new.key: x",
    ]


def test_text_of_others_moves_no_cursor() -> None:
    """A file may be named anything."""
    text = table_text([SettingRow("key", "", "file \x1b[2J:1")])
    assert text.splitlines()[1] == 'key  ""     file ?[2J:1'
