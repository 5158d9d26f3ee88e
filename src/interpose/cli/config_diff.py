"""`interpose config diff`: in what two configurations differ, by what they mean and not by how they are written."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from interpose.cli.config_kinds import read
from interpose.cli.config_policy_kinds import nothing_said
from interpose.cli.config_reading import Circumstances
from interpose.cli.config_recognise import KINDS
from interpose.cli.config_running import ask_running
from interpose.cli.config_sources import read_sources
from interpose.config.effective import Row, harmless, rows_of
from interpose.config.load import load
from interpose.config.programs import PROGRAMS
from interpose.errors import ConfigError

_DEFAULT: Final = "default"
_RUNNING: Final = "running"
_NOTHING: Final = Row("", "", "")


class Side(NamedTuple):
    """One of the two: values by key."""

    name: str
    rows: Mapping[str, Row]


class Difference(NamedTuple):
    """A key of which the two say something else; None where one says nothing."""

    key: str
    left: Row | None
    right: Row | None


@click.command("diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
@click.option(
    "--kind",
    type=click.Choice(KINDS, case_sensitive=False),
    metavar="KIND",
    help=f"What the files are, where they do not tell: {', '.join(KINDS)}.",
)
@click.option("--node", metavar="NAME", help="Read ConfigMaps as this node does.")
@click.option(
    "--program",
    type=click.Choice(list(PROGRAMS)),
    help="Whose defaults or process is meant, where no file says it.  [default: relay]",
)
@click.option("--with-env", is_flag=True, help="Let the environment count for files, as when a program starts here.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def diff(
    first: str,
    second: str | None,
    kind: str | None,
    node: str | None,
    program: str | None,
    with_env: bool,
    output: str,
) -> int:
    """Show the keys of which A and B say something else, both values and where they come from.

    A and B are files, `default`, `running`, or `running:ADDRESS` with the address of an admin socket; `-` is standard
    input. Without B, A is compared with the defaults. Files are those that `interpose config validate` knows; an
    option file of cri-resmgr can be compared with a settings file, and a policy document with a ConfigMap, as they
    mean the same things.

    Ends with 0 if there is no difference, 1 if there is, 78 if a file cannot be used.
    """
    names = (first, second) if second is not None else (_DEFAULT, first)
    around = Circumstances(env=os.environ if with_env else {}, node=node)
    read_files = {name: _file(name, kind, around) for name in names if not _is_word(name)}
    families = {family for family, _ in read_files.values()} or {program or next(iter(PROGRAMS))}
    if program is not None:
        families.add(program)
    if len(families) > 1:
        raise click.UsageError(f"these cannot be compared: {' and '.join(sorted(families))}")
    (family,) = families
    left, right = (read_files[name][1] if name in read_files else _word(name, family) for name in names)
    found = differences(left, right)
    click.echo(json.dumps(_plain(found), indent=2) if output == "json" else _text(found, left, right))
    return 1 if found else 0


def differences(left: Side, right: Side) -> list[Difference]:
    """In the order of the left side, then what only the right one has."""
    keys = dict.fromkeys((*left.rows, *right.rows))
    pairs = (Difference(key, left.rows.get(key), right.rows.get(key)) for key in keys)
    return [one for one in pairs if (one.left or _NOTHING).value != (one.right or _NOTHING).value]


def _is_word(name: str) -> bool:
    return name in (_DEFAULT, _RUNNING) or name.startswith(f"{_RUNNING}:")


def _file(name: str, kind: str | None, around: Circumstances) -> tuple[str, Side]:
    sources = list(read_sources(name))
    keyed = [one for one in sources if not isinstance(one, ConfigError) and one.keys]
    chosen = keyed if keyed else sources
    if len(chosen) != 1:
        raise ConfigError(f"directory {name}: holds {len(chosen)} files, name one of them")
    (source,) = chosen
    if isinstance(source, ConfigError):
        raise source
    reading = read(source, kind, around)
    for warning in reading.warnings:
        click.echo(f"warning: {warning}", err=True)
    return reading.family, _side(name, reading.rows)


def _word(name: str, family: str) -> Side:
    if family not in PROGRAMS:
        if name == _DEFAULT:
            return _side(name, nothing_said(family))
        raise click.UsageError(f"{name!r} has settings, it cannot be compared with {family}")
    schema = PROGRAMS[family].schema()
    if name == _DEFAULT:
        return _side(name, rows_of(load(schema, flags={}, env={})))
    return _side(name, ask_running(schema, name.partition(":")[2] or None))


def _side(name: str, rows: Sequence[Row]) -> Side:
    return Side(name, {row.key: row for row in rows})


def _text(found: Sequence[Difference], left: Side, right: Side) -> str:
    if not found:
        return f"no difference between {harmless(left.name)} and {harmless(right.name)}"
    lines = []
    for one in found:
        lines.append(one.key)
        lines += [f"  {mark} {_said(row)}" for mark, row in (("-", one.left), ("+", one.right))]
    return "\n".join([f"--- {left.name}", f"+++ {right.name}", *lines])


def _said(row: Row | None) -> str:
    return "nothing" if row is None else f"{row.value or chr(34) * 2}  ({row.origin})"


def _plain(found: Sequence[Difference]) -> list[Mapping[str, Any]]:
    return [
        {
            "key": one.key,
            **{
                side: None if row is None else {"value": row.value, "origin": row.origin}
                for side, row in (("left", one.left), ("right", one.right))
            },
        }
        for one in found
    ]
