"""`interpose config show`: the settings a program would have, or has, and where each of them came from."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

from interpose.cli.config.programs import DROP_INS, check, load_program
from interpose.cli.config.running import ask_running
from interpose.config.effective import DEFAULT, SettingRow, rows_of, settings_file, table_text
from interpose.config.load import SettingText
from interpose.config.programs import PROGRAMS
from interpose.config.schema import Schema

_FIRST: Final = next(iter(PROGRAMS))
NAMES: Final = (*PROGRAMS, *DROP_INS)


@click.command("show")
@click.argument("program", metavar="[PROGRAM]", required=False)
@click.argument("arguments", metavar="[-- FLAGS...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--config", metavar="FILE", help="Settings file of the program.")
@click.option(
    "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Set a value, as a flag would. Repeatable."
)
@click.option("--changed", is_flag=True, help="Only what is not a default of interpose.")
@click.option("--no-env", is_flag=True, help="As if no variable of the program were set.")
@click.option("--running", is_flag=True, help="What the running process has, asked on its admin socket.")
@click.option("--admin", metavar="ADDRESS", help="That admin socket, if it is not where it is by default.")
@click.option("-o", "--output", type=click.Choice(["table", "yaml", "json"]), default="table", show_default=True)
def show(
    program: str | None,
    arguments: Sequence[str],
    config: str | None,
    assignments: Sequence[str],
    changed: bool,
    no_env: bool,
    running: bool,
    admin: str | None,
    output: str,
) -> None:
    """Show every setting of PROGRAM with its value and its origin.

    PROGRAM is relay (the default), hookserver, agent and so on, or the name of a program they stand in for, such as
    cri-resmgr. What follows two dashes are flags as that program takes them:

    \b
      interpose config show relay -- --policy static --reserved-resources cpu=1
      interpose config show cri-resmgr -- -policy static -config /etc/cri-resmgr.cfg

    A flag beats the environment, the environment beats the file, the file beats the defaults: first those of a program
    that is stood in for, then ours. With -o yaml the result is a settings file, its origins as comments: with --changed
    it is a way from flags and from files of other programs to a file of ours.
    """
    if program is not None and program.startswith("-"):
        arguments, program = (program, *arguments), None  # only flags were given
    name = program or _FIRST
    if name not in NAMES:
        raise click.UsageError(f"{name!r} is not a program with settings, they are {', '.join(NAMES)}")
    if running and (arguments or config or assignments or no_env):
        raise click.UsageError("--running shows what a process has: no --config, --set, --no-env or flags with it")
    if admin and not running:
        raise click.UsageError("--admin goes with --running")
    schema = PROGRAMS[DROP_INS[name].program if name in DROP_INS else name].schema()
    if running:
        rows = ask_running(schema, admin)
    else:
        rows = _load_rows(
            name, arguments, {} if no_env else os.environ, config, _parse_assignments(assignments, schema)
        )
    click.echo(_text(output, schema, [row for row in rows if not changed or row.origin != DEFAULT]))


def _load_rows(
    name: str, arguments: Sequence[str], env: Mapping[str, str], config: str | None, given: Mapping[str, SettingText]
) -> list[SettingRow]:
    drop_in = DROP_INS.get(name)
    if drop_in is None:
        program = name
        loaded = load_program(name, arguments, env, config=config, given=given)
    else:
        if config or given:
            raise click.UsageError(f"{name} has flags of its own, give them after two dashes: -- -flag value")
        program = drop_in.program
        loaded = drop_in.load(arguments, env)
    for warning in (*loaded.warnings, *check(program, loaded, env)):
        click.echo(f"warning: {warning}", err=True)
    return rows_of(loaded)


def _parse_assignments(assignments: Iterable[str], schema: Schema) -> dict[str, SettingText]:
    known = {setting.key for setting in schema.table}
    found: dict[str, SettingText] = {}
    for pair in assignments:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--set {pair}: expected KEY=VALUE")
        if key not in known:
            raise click.UsageError(f"--set {pair}: {key!r} is not a key of {schema.program}")
        found[key] = SettingText(value, f"flag --set {key}")
    return found


def _text(output: str, schema: Schema, rows: Sequence[SettingRow]) -> str:
    if output == "json":
        return json.dumps(_plain(schema, rows), indent=2, ensure_ascii=False)
    return settings_file(schema, rows) if output == "yaml" else table_text(rows)


def _plain(schema: Schema, rows: Iterable[SettingRow]) -> Mapping[str, Any]:
    values = {row.key: {"value": row.value, "origin": row.origin} for row in rows}
    return {"program": schema.program, "kind": schema.file_kind, "settings": values}
