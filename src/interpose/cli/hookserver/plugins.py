"""`interpose hookserver plugins`: which plugins there are, which are on, and what is wrong with those of packages.

Packages are imported here as the hook server would import them; nothing else is done with them.
"""

import json
import os

import click

from interpose.cli.hookserver.checks import check
from interpose.cli.render.text import flat, or_dash, table
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.load import load
from interpose.hooks.server.entry_points import GROUP, UnusablePlugin, load_plugins
from interpose.hooks.server.plugin import AnyPlugin
from interpose.hooks.server.plugin_registry import all_plugins, enabled_plugins
from interpose.host.entry_points import find_entry_points

_OWN = "interpose"


@click.command("plugins")
@click.option("--config", metavar="FILE", help=f"Settings file, YAML or JSON. [env: {HOOKSERVER.config_env}]")
@click.option(
    "-o",
    "--output",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
def plugins(config: str | None, output: str) -> int:
    """List the plugins in the order in which they run, and whether the settings turn them on.

    Settings are those of the environment and of the file. Exit code 1 if one that is on cannot be loaded.
    """
    loaded = load(HOOKSERVER, flags={}, env=os.environ, path=config)
    check(loaded)
    settings = loaded.settings.plugins
    own, found = all_plugins(settings), find_entry_points(GROUP)
    names = dict.fromkeys((*settings.external, *(plugin.name for plugin in found)))
    external = load_plugins(tuple(names), found, [plugin.name for plugin in own])
    on = {plugin.name for plugin in enabled_plugins(settings)}
    packages = {plugin.name: plugin.distribution for plugin in found}
    rows = [_row(plugin, plugin.name in on, _OWN) for plugin in own]
    rows += [_row(plugin, plugin.name in settings.external, packages.get(plugin.name, "")) for plugin in external]
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    else:
        cells = [["NAME", "STATE", "PACKAGE", "WHAT IT DOES"]]
        cells += [[or_dash(row[key]) for key in ("name", "state", "package", "summary")] for row in rows]
        click.echo("\n".join(flat(table(cells))))
        for row in rows:
            if row["problem"]:
                click.echo(f"error: plugin {or_dash(row['name'])}: {or_dash(row['problem'])}", err=True)
    return int(any(row["state"] == "on" and row["problem"] for row in rows))


def _row(plugin: AnyPlugin, on: bool, package: str) -> dict[str, str]:
    problem = plugin.problem if isinstance(plugin, UnusablePlugin) else ""
    return {
        "name": plugin.name,
        "state": "on" if on else "off",
        "package": package,
        "summary": plugin.summary,
        "problem": problem,
    }
