"""A daemon with commands of its own: `interpose agent` runs it, `interpose agent status` asks one that runs.

Without a command the options are those of the daemon. With one they would have no effect, so they are refused.
"""

from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from interpose.cli.common.lazy import LazyGroup, Subcommand
from interpose.cli.common.options import SettingsCommand
from interpose.config.schema import Schema


class SettingsGroup(LazyGroup):
    """A SettingsCommand that has subcommands; its callback runs only when none of them is named."""

    def __init__(
        self,
        name: str,
        schema: Schema,
        *,
        table: Mapping[str, Subcommand],
        params: list[click.Parameter] | None = None,
        **attrs: Any,
    ) -> None:
        self._alone = SettingsCommand(name, schema, params=params or [], **attrs)
        super().__init__(
            name=name,
            table=table,
            params=self._alone.params,
            callback=click.pass_context(self._begin),
            invoke_without_command=True,
            no_args_is_help=False,
            help=self._alone.help,
            epilog=self._alone.epilog,
            subcommand_metavar="[COMMAND [ARGS]...]",
        )

    def _begin(self, ctx: click.Context, /, **parameters: Any) -> Any:
        """Run the daemon, or a subcommand: never both."""
        if ctx.invoked_subcommand is None:
            return ctx.invoke(self._alone, **parameters)
        for parameter in self.params:
            if ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
                name = ctx.invoked_subcommand
                raise click.UsageError(f"{parameter.opts[0]} has no effect before {name!r}, which has its own options")
        return None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands first: the options fill a page."""
        self.format_commands(ctx, formatter)
        self._alone.format_options(ctx, formatter)
