"""Command-line options made from a schema of settings, and the way from a command line to a running program.

Options carry text: parsing belongs to `config`, which reports the mistakes of all sources together.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import click

from interpose.config.load import LoadedSettings, SettingText, load
from interpose.config.schema import Schema, Setting


class SettingOption(click.Option):
    """The option of one setting; unset means None, so that other sources can have a value."""

    def __init__(self, setting: Setting, schema: Schema) -> None:
        self.setting = setting
        name = setting.flag.removeprefix("--")
        flags = f"--{name}/--no-{name}" if setting.is_switch else setting.flag
        text = f"{setting.help} [default: {schema.defaults(setting)}; env: {setting.env}]"
        metavar = None if setting.is_switch else "TEXT"
        super().__init__(
            [flags, *setting.aliases, parameter_name(setting)],
            default=None,
            help=text,
            metavar=metavar,
            multiple=setting.kind.repeatable,
        )


class SettingsCommand(click.Command):
    """A command with one option per setting, whose help lists them by section."""

    def __init__(self, name: str, schema: Schema, *, params: list[click.Parameter], **attrs: Any) -> None:
        self.schema = schema
        config = click.Option(
            ["--config"], metavar="FILE", default=None, help=f"Settings file, YAML or JSON. [env: {schema.config_env}]"
        )
        show = click.Option(
            ["--print-config"], is_flag=True, help="Print every setting with its value and origin, then exit."
        )
        options = [SettingOption(setting, schema) for setting in schema.table]
        epilog = "A flag beats the environment, the environment beats the file, the file beats the default."
        super().__init__(name, params=[*params, config, show, *options], epilog=epilog, **attrs)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options of this command first, then one block per section of the settings."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                section = parameter.setting.section if isinstance(parameter, SettingOption) else None
                title = "Options" if section is None else self.schema.titles[section]
                sections.setdefault(title, []).append(record)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def parameter_name(setting: Setting) -> str:
    """The Python name of an option: `limits.message` is `limits__message`."""
    return setting.key.replace(".", "__")


def collect_flags(parameters: Mapping[str, Any], schema: Schema) -> dict[str, SettingText]:
    """The settings that were given as flags, by key."""
    flags = {}
    for setting in schema.table:
        value = parameters.get(parameter_name(setting))
        if setting.kind.repeatable:
            value = setting.kind.separator.join(value) if value else None
        if value is None:
            continue
        name = setting.flag
        if setting.is_switch:
            name = setting.flag if value else setting.flag.replace("--", "--no-", 1)
        flags[setting.key] = SettingText(str(value).lower() if setting.is_switch else value, f"flag {name}")
    return flags


def run_with_settings(
    schema: Schema,
    parameters: Mapping[str, Any],
    run: Callable[[LoadedSettings], int],
    *,
    check: Callable[[LoadedSettings], None] | None = None,
) -> int:
    """The work of a SettingsCommand: load settings from all sources, `check` them, then run the program.

    The exit code; ConfigError with every setting that cannot be used.
    """
    loaded = load(schema, flags=collect_flags(parameters, schema), env=os.environ, path=parameters["config"])
    if check is not None:
        check(loaded)
    return run_loaded(loaded, run, print_config=parameters["print_config"])


def run_loaded(loaded: LoadedSettings, run: Callable[[LoadedSettings], int], *, print_config: bool = False) -> int:
    """Print warnings, then run the program, or with `print_config` print every setting instead; the exit code."""
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    if not print_config:
        return run(loaded)
    from interpose.config.effective import values_table

    click.echo(values_table(loaded))
    return 0
