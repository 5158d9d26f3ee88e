"""Groups of commands that load only the one that is called."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from interpose.core.model.text import did_you_mean


class Subcommand(NamedTuple):
    """Where a subcommand lives and what the overview says of it, so that the overview loads none of them."""

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are called."""

    def __init__(self, *args: Any, table: Mapping[str, Subcommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table: the main one first."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the subcommand of that name; None if there is none."""
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The one that is called, or a guess at what was meant."""
        name = args[0]
        if name not in self._table and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}{did_you_mean(name, self._table)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._table.items()])
