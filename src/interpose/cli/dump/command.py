"""`interpose dump`: see what passes a relay, now or from a recording."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

from interpose.cli.common.lazy import LazyGroup, Subcommand

SUBCOMMANDS: Final[Mapping[str, Subcommand]] = MappingProxyType(
    {
        "live": Subcommand("interpose.cli.dump.live", "live", "Look at calls as they pass, full screen."),
        "record": Subcommand("interpose.cli.dump.record", "record", "Record what passes a running relay."),
        "show": Subcommand("interpose.cli.dump.show", "show", "Show the calls of a recording, or some of them."),
        "follow": Subcommand("interpose.cli.dump.show", "follow", "Show calls as a recording grows."),
        "info": Subcommand("interpose.cli.dump.info", "info", "Say what is in a recording, and if it is damaged."),
        "replay": Subcommand(
            "interpose.cli.dump.replay", "replay", "Make the calls of a recording again, answer them, or decide anew."
        ),
    }
)


@click.group("dump", cls=LazyGroup, table=SUBCOMMANDS)
def dump() -> None:
    """Record, show and replay what passes a relay."""
