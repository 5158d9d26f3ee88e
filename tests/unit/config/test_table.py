"""The table and the settings structs describe the same things."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from interpose.config.reference import shown_default
from interpose.config.settings import RelaySettings
from interpose.config.table import RELAY_SETTINGS, value_of


def _keys(cls: Any, section: str = "") -> Iterator[str]:
    for item in fields(cls):
        key = f"{section}.{item.name}" if section else item.name
        if is_dataclass(item.type):
            yield from _keys(item.type, key)
        else:
            yield key


def test_every_field_has_one_row_and_every_row_a_field() -> None:
    """A new field without flag, environment and documentation cannot exist."""
    assert sorted(setting.key for setting in RELAY_SETTINGS) == sorted(_keys(RelaySettings))


def test_flags_and_variables_are_unique_and_regular() -> None:
    """No two settings share a name, and names follow one pattern."""
    flags = [setting.flag for setting in RELAY_SETTINGS]
    assert len(set(flags)) == len(flags)
    assert all(flag.startswith("--") and flag == flag.lower() and "_" not in flag for flag in flags)
    header = next(setting for setting in RELAY_SETTINGS if setting.key == "limits.header_list")
    assert header.env == "INTERPOSE_MAX_HEADER_LIST"


def test_every_default_is_a_legal_value() -> None:
    """Writing down a default changes nothing: it parses to itself."""
    for setting in RELAY_SETTINGS:
        default = value_of(RelaySettings(), setting.key)
        assert setting.kind.parse(shown_default(setting), setting.flag) == default, setting.key


def test_every_row_explains_itself() -> None:
    """Meaning and reason are whole sentences."""
    for setting in RELAY_SETTINGS:
        assert setting.help.endswith("."), setting.key
        assert setting.why.endswith("."), setting.key
