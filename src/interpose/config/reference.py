"""Text about settings for people: the reference page and the table of --print-config. Pure."""

from collections.abc import Sequence

from interpose.config.load import CONFIG_ENV, Loaded
from interpose.config.settings import RelaySettings
from interpose.config.table import RELAY_SETTINGS, Setting, value_of

SECTION_TITLES = {
    "": "General",
    "socket": "CRI socket",
    "admin": "Admin socket",
    "hooks": "Hooks",
    "limits": "Limits",
    "process": "Process",
    "logging": "Logging",
}

_INTRODUCTION = f"""\
# Settings of the relay

This page is generated from the table in `interpose.config.table`.

Each setting can be given as a flag, as an environment variable, or in a file (`--config FILE` or `{CONFIG_ENV}`).
A flag beats the environment, the environment beats the file, the file beats the default. `interpose relay
--print-config` shows the value in force and where it came from. An empty variable counts as not set; an unknown
`INTERPOSE_*` variable is reported at start and has no effect.

Times are written as `500ms`, `30s`, `2m` or `1h`; a plain number is seconds. Sizes are written as `64KiB`, `1MiB` or
`1GiB`; a plain number is bytes. File modes are octal.

The file is YAML (`.yaml`, `.yml`) or JSON (`.json`). It is checked strictly: unknown keys, duplicate keys, wrong
types and values out of range are all reported, with their line, and nothing starts (exit code 78).
"""


def settings_page() -> str:
    """The page docs/reference/settings.md."""
    parts = [_INTRODUCTION, _example()]
    for section, title in SECTION_TITLES.items():
        parts.append(f"## {title}\n")
        parts += [_entry(setting) for setting in RELAY_SETTINGS if setting.section == section]
    return "\n".join(parts).rstrip("\n") + "\n"


def shown_default(setting: Setting) -> str:
    """The default as a person would write it; empty when empty is the default."""
    return setting.kind.show(value_of(RelaySettings(), setting.key))


def values_table(loaded: Loaded, table: Sequence[Setting] = RELAY_SETTINGS) -> str:
    """Key, value and origin of every setting in aligned columns."""
    rows = [("KEY", "VALUE", "ORIGIN")]
    for setting in table:
        shown = setting.kind.show(value_of(loaded.settings, setting.key))
        rows.append((setting.key, shown or '""', loaded.origins[setting.key]))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {origin}" for key, value, origin in rows)


def _entry(setting: Setting) -> str:
    default = shown_default(setting)
    return (
        f"### `{setting.key}`\n\n{setting.help}\n\n"
        f"- flag `{setting.flag}`, environment `{setting.env}`\n"
        f"- value: {setting.kind.name}\n"
        f"- default: {f'`{default}`' if default else 'empty'}. {setting.why}\n"
    )


def _example() -> str:
    lines = ["```yaml", "apiVersion: interpose/v1", "kind: RelayConfig"]
    section = ""
    for setting in RELAY_SETTINGS:
        if setting.section != section:
            section = setting.section
            lines.append(f"{section}:")
        default = shown_default(setting)
        indent = "  " if section else ""
        # Everything that YAML itself might read as something else is quoted.
        plain = setting.is_switch or (default.isdigit() and not default.startswith("0"))
        written = default if plain else f'"{default}"'
        lines.append(f"{indent}{setting.key.rpartition('.')[2]}: {written}")
    return "\n".join([*lines, "```", ""])
