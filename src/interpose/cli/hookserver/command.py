"""`interpose hookserver`: gather settings, then serve hooks and reconcile, or do one round and tell about it."""

from typing import Any

import click

from interpose.cli.common.lazy import Subcommand
from interpose.cli.common.options import run_with_settings
from interpose.cli.common.settings_group import SettingsGroup
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.load import LoadedSettings

_FORMATS = ("text", "json")
_COMMANDS = {
    "plugins": Subcommand(
        "interpose.cli.hookserver.plugins", "plugins", "List plugins, those of installed packages too."
    ),
}


def _hookserver(once: bool, dry_run: bool, restore: bool, deregister: bool, output: str, **parameters: Any) -> int:
    from interpose.cli.hookserver.checks import check, with_real_paths

    def run_hookserver(loaded: LoadedSettings) -> int:
        if deregister and (once or restore or dry_run):
            raise click.UsageError("--deregister goes alone, without --once, --restore and --dry-run")
        if dry_run and not (once or restore):
            raise click.UsageError("--dry-run goes with --once or --restore")
        settings = with_real_paths(loaded.settings)
        if deregister or once or restore:
            from interpose.cli.hookserver.once import remove_registration, run_once

            if deregister:
                return remove_registration(settings)
            return run_once(settings, restore=restore, dry_run=dry_run, as_json=output == "json")
        from interpose.cli.hookserver.process import run

        return run(settings, loaded.origins)

    return run_with_settings(HOOKSERVER, parameters, run_hookserver, check=check)


hookserver = SettingsGroup(
    "hookserver",
    HOOKSERVER,
    table=_COMMANDS,
    callback=_hookserver,
    help=(
        "Give pods what their QoS class and the node's rules say: as a hook server of a relay, by watching the "
        "runtime, or both."
    ),
    params=[
        click.Option(["--once"], is_flag=True, help="Do one round, tell what was done, and exit."),
        click.Option(["--dry-run"], is_flag=True, help="With --once: change nothing, tell what would be done and why."),
        click.Option(["--restore"], is_flag=True, help="Put back every value that was changed, and exit."),
        click.Option(
            ["--deregister"],
            is_flag=True,
            help=(
                "Remove the registration file of our name, whatever it says, and exit. Refused while a hook server "
                "runs, which would write it again."
            ),
        ),
        click.Option(
            ["--output"],
            type=click.Choice(_FORMATS),
            default="text",
            show_default=True,
            help="Form of what --once tells.",
        ),
    ],
)
