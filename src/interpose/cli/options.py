"""Command-line options made from the table of settings.

Options carry text: parsing belongs to `config`, which reports the mistakes of all sources together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from interpose.config.load import Given
from interpose.config.reference import SECTION_TITLES, shown_default
from interpose.config.table import RELAY_SETTINGS, Setting


class SettingOption(click.Option):
    """The option of one setting; unset means None, so that other sources can speak."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        name = setting.flag.removeprefix("--")
        flags = f"--{name}/--no-{name}" if setting.is_switch else setting.flag
        default = shown_default(setting)
        text = f"{setting.help} [default: {default or 'empty'}; env: {setting.env}]"
        metavar = None if setting.is_switch else "TEXT"
        super().__init__([flags, parameter_name(setting)], default=None, help=text, metavar=metavar)


class SettingsCommand(click.Command):
    """A command whose help lists options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options of this command first, then one block per section of the settings."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                section = parameter.setting.section if isinstance(parameter, SettingOption) else None
                title = "Options" if section is None else SECTION_TITLES[section]
                sections.setdefault(title, []).append(record)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def parameter_name(setting: Setting) -> str:
    """The Python name of an option: `limits.message` is `limits__message`."""
    return setting.key.replace(".", "__")


def setting_options(table: Sequence[Setting] = RELAY_SETTINGS) -> list[click.Parameter]:
    """One option per setting."""
    return [SettingOption(setting) for setting in table]


def given_flags(parameters: Mapping[str, Any], table: Sequence[Setting] = RELAY_SETTINGS) -> dict[str, Given]:
    """The settings that were given as flags, by key."""
    given = {}
    for setting in table:
        value = parameters.get(parameter_name(setting))
        if value is None:
            continue
        name = setting.flag
        if setting.is_switch:
            name = setting.flag if value else setting.flag.replace("--", "--no-", 1)
        given[setting.key] = Given(str(value).lower() if setting.is_switch else value, f"flag {name}")
    return given
