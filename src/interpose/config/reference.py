"""Text about settings for people: the reference pages and the table of --print-config. Pure."""

from interpose.config.effective import Row, rows_of, settings_file, table_text
from interpose.config.load import Loaded
from interpose.config.schema import Schema, Setting

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


def values_table(loaded: Loaded) -> str:
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
    rows = (Row(setting.key, schema.default(setting), "") for setting in schema.table)
    return "\n".join(["```yaml", settings_file(schema, rows, origins=False), "```", ""])
