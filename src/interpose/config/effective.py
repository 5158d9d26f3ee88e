"""The settings in force, value by value with the origin of each: as rows for people, as a file, as an answer.

A process answers with them on its admin socket (`config_answer`), and `rows_of_answer` reads that answer, which may be
of another release: what is not known is shown as it came. No setting holds a secret: they say in which file one is.
Also the text of the reference pages and of --print-config. Pure.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from interpose.config.check import API_VERSION
from interpose.config.load import LoadedSettings
from interpose.config.schema import Schema, Setting, value_of
from interpose.core.model.text import printable

DEFAULT: Final = "default"
UNKNOWN: Final = "unknown"
# A number that YAML, too, has for one: not 007, which is octal for some.
_NUMBER: Final = re.compile("[1-9][0-9]*")
# Keys of an answer that are no settings.
PROGRAM: Final = "program"
ORIGINS: Final = "origins"


class SettingRow(NamedTuple):
    """One value as a person would write it, and where it came from."""

    key: str
    value: str
    origin: str


def rows_of(loaded: LoadedSettings) -> list[SettingRow]:
    """Every setting, in the order of the table."""
    return [
        SettingRow(row.key, row.kind.show(value_of(loaded.settings, row.key)), loaded.origins[row.key])
        for row in loaded.schema.table
    ]


def config_answer(schema: Schema, settings: Any, origins: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a running process for its admin socket: values by key, the program, and the origin of each."""
    values = {setting.key: value_of(settings, setting.key) for setting in schema.table}
    known = {setting.key: origins.get(setting.key, UNKNOWN) for setting in schema.table}
    return {**values, PROGRAM: schema.program, ORIGINS: known}


def rows_of_answer(schema: Schema, answer: Mapping[str, Any]) -> list[SettingRow]:
    """The rows of such an answer. A process of an older release sends no origins."""
    found = answer.get(ORIGINS)
    origins: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    known = {setting.key: setting for setting in schema.table}
    ordered = [key for key in known if key in answer] + [key for key in answer if key not in known]
    return [
        SettingRow(key, _format_value(known.get(key), answer[key]), str(origins.get(key, UNKNOWN)))
        for key in ordered
        if key not in (PROGRAM, ORIGINS)
    ]


def _format_value(setting: Setting | None, value: Any) -> str:
    try:
        if setting is not None:
            return setting.kind.show(tuple(value) if isinstance(value, list) else value)
    except (TypeError, ValueError, AttributeError):
        pass  # another release has another kind of value there
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def table_text(rows: Iterable[SettingRow]) -> str:
    """Aligned columns under a header."""
    lines = [("KEY", "VALUE", "ORIGIN"), *((row.key, row.value or '""', row.origin) for row in rows)]
    shown = [tuple(map(printable, line)) for line in lines]
    widths = [max(len(line[column]) for line in shown) for column in (0, 1)]
    return "\n".join(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {origin}" for key, value, origin in shown)


def settings_file(schema: Schema, rows: Iterable[SettingRow], *, origins: bool = True) -> str:
    """A settings file with these values, in YAML; the origin of each is a comment behind it."""
    known = {setting.key: setting for setting in schema.table}
    lines = [f"apiVersion: {API_VERSION}", f"kind: {schema.file_kind}"]
    section = ""
    for row in rows:
        setting = known.get(row.key)
        if setting is None:
            lines.append(f"# {printable(row.key)}: {printable(row.value)}")
            continue
        if setting.section != section:
            section = setting.section
            lines.append(f"{section}:")
        indent = "  " if section else ""
        comment = f"  # {printable(row.origin)}" if origins else ""
        lines.append(f"{indent}{setting.key.rpartition('.')[2]}: {written(setting, row.value)}{comment}")
    return "\n".join(lines)


def written(setting: Setting, text: str) -> str:
    """A value as it stands in a file: plain only if it is plain for YAML, and if its reader takes that; else quoted."""
    accepts = setting.kind.accepts
    plain = "str" not in accepts or ("int" in accepts and _NUMBER.fullmatch(text))
    return text if plain else json.dumps(text, ensure_ascii=False)


_INTRODUCTION = """\
# Settings of `{program}`

This page is generated from the table of settings.

Each setting can be given as a flag, as an environment variable, or in a file (`--config FILE` or `{config}`).
A flag beats the environment, the environment beats the file, the file beats the default. `{program}
--print-config` shows the value in force and where it came from. An empty variable counts as not set; an unknown
`{prefix}*` variable is reported at start and has no effect.

A path in a flag may be relative to the working directory, in a variable and in a file it is absolute.

Times are written as `500ms`, `30s`, `2m` or `1h`; a plain number is seconds. Sizes are written as `64KiB`, `1MiB` or
`1GiB`; a plain number is bytes. File modes are octal.

The file is YAML (`.yaml`, `.yml`) or JSON (`.json`). It is checked strictly: unknown keys, duplicate keys, wrong
types and values out of range are all reported, with their line, and nothing starts (exit code 78).
"""


def settings_page(schema: Schema) -> str:
    """A page of docs/reference."""
    introduction = _INTRODUCTION.format(program=schema.program, config=schema.config_env, prefix=schema.prefix)
    parts = [introduction, _example(schema)]
    for section, title in schema.titles.items():
        parts.append(f"## {title}\n")
        parts += [_entry(setting, schema) for setting in schema.table if setting.section == section]
    return "\n".join(parts).rstrip("\n") + "\n"


def values_table(loaded: LoadedSettings) -> str:
    """Key, value and origin of every setting in aligned columns."""
    return table_text(rows_of(loaded))


def _entry(setting: Setting, schema: Schema) -> str:
    return (
        f"### `{setting.key}`\n\n{setting.help}\n\n"
        f"- flag `{setting.flag}`, environment `{setting.env}`\n"
        f"- value: {setting.kind.name}\n"
        f"- default: {schema.defaults(setting, '`')}. {setting.why}\n"
    )


def _example(schema: Schema) -> str:
    rows = (SettingRow(setting.key, schema.default(setting), "") for setting in schema.table)
    return "\n".join(["```yaml", settings_file(schema, rows, origins=False), "```", ""])
