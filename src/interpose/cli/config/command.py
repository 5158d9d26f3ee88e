"""`interpose config`: settings and documents, before a program reads them and as one has read them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

from interpose.cli.common.lazy import LazyGroup, Subcommand

SUBCOMMANDS: Final[Mapping[str, Subcommand]] = MappingProxyType(
    {
        "validate": Subcommand("interpose.cli.config.validate", "validate", "Check files as their programs read them."),
        "show": Subcommand("interpose.cli.config.show", "show", "Show settings in force, and where each came from."),
        "diff": Subcommand("interpose.cli.config.diff", "diff", "Show in what two configurations differ."),
        "schema": Subcommand("interpose.cli.config.schema", "schema", "Print the JSON Schema of a kind of file."),
    }
)


@click.group("config", cls=LazyGroup, table=SUBCOMMANDS)
def config() -> None:
    """Check, show and compare settings and documents."""
