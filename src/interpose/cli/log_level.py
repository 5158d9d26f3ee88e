"""`interpose log-level`: change the log level of a running relay."""

import click

from interpose.cli.common.admin_client import admin_option, ask
from interpose.log import LEVELS


@click.command("log-level")
@click.argument("level", type=click.Choice(list(LEVELS)))
@admin_option
def log_level(level: str, admin: str) -> None:
    """Change the log level of a running relay, or with --admin of a runtime or a hook server, until it restarts."""
    ask(admin, "PUT", "/v1/log-level", {"level": level})
    click.echo(f"Log level is {level} now")
