"""Tables and settings structs describe the same things, for every program."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import combinations
from typing import Any

import pytest

from interpose.config.agent.table import AGENT
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.relay.table import RELAY
from interpose.config.schema import Schema, value_of
from interpose.config.webhook.table import WEBHOOK

SCHEMAS = (RELAY, HOOKSERVER, AGENT, WEBHOOK)
every_schema = pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.file_kind)


def _keys(cls: Any, section: str = "") -> Iterator[str]:
    for item in fields(cls):
        key = f"{section}.{item.name}" if section else item.name
        if is_dataclass(item.type):
            yield from _keys(item.type, key)
        else:
            yield key


@every_schema
def test_every_field_has_one_row_and_every_row_a_field(schema: Schema) -> None:
    """A new field without flag, environment and documentation cannot exist."""
    assert sorted(setting.key for setting in schema.table) == sorted(_keys(schema.settings))


@every_schema
def test_flags_are_unique_and_regular(schema: Schema) -> None:
    """No two settings share a name, and names follow one pattern."""
    flags = [setting.flag for setting in schema.table]
    assert len(set(flags)) == len(flags)
    assert all(flag.startswith("--") and flag == flag.lower() and "_" not in flag for flag in flags)
    assert all(setting.env.startswith(schema.prefix) for setting in schema.table)


@every_schema
def test_every_default_is_a_legal_value(schema: Schema) -> None:
    """Writing down a default changes nothing: it parses to itself."""
    for setting in schema.table:
        default = value_of(schema.settings(), setting.key)
        assert setting.kind.parse(schema.default(setting), setting.flag) == default, setting.key


@every_schema
def test_every_dependent_default_is_a_legal_value_and_depends_on_one(schema: Schema) -> None:
    """The other setting exists and can have that value."""
    rows = {setting.key: setting for setting in schema.table}
    for setting in schema.table:
        for one in setting.instead:
            assert setting.kind.show(setting.kind.parse(one.text, setting.flag)) == one.text
            assert rows[one.when].kind.show(rows[one.when].kind.parse(one.equals, one.when)) == one.equals


def test_help_and_reference_tell_every_default() -> None:
    """The usual one first, then those that depend on another setting."""
    listen = next(setting for setting in RELAY.table if setting.key == "listen")
    both = "/var/run/interpose/cri.sock, with backend docker /var/run/interpose/docker.sock"
    assert RELAY.defaults(listen) == both
    quoted = RELAY.defaults(listen, "`")
    assert quoted == "`/var/run/interpose/cri.sock`, with backend docker `/var/run/interpose/docker.sock`"
    runtime = next(setting for setting in RELAY.table if setting.key == "runtime_endpoint")
    assert RELAY.defaults(runtime, "`") == "empty"


@every_schema
def test_every_row_explains_itself_and_has_a_section(schema: Schema) -> None:
    """Meaning and reason are whole sentences; help and reference have a title for each group."""
    for setting in schema.table:
        assert setting.help.endswith("."), setting.key
        assert setting.why.endswith("."), setting.key
        assert setting.section in schema.titles, setting.key


def test_programs_do_not_share_variables() -> None:
    """What one program is told by the environment is not another one's business."""
    names = [{setting.env for setting in schema.table} for schema in SCHEMAS]
    assert all(not one & other for one, other in combinations(names, 2))
    assert "INTERPOSE_MAX_HEADER_LIST" in names[0]
    assert "INTERPOSE_HOOKSERVER_LISTEN" in names[1]
