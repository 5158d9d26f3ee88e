"""`interpose config diff`: in what two configurations differ, by what they mean and not by how they are written."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from interpose.cli.config.compare import Side, differences_json, find_differences, render_differences
from interpose.cli.config.kinds import kind_option, read
from interpose.cli.config.policy_kinds import default_rows
from interpose.cli.config.reading import DocumentPart, ReadContext
from interpose.cli.config.running import ask_running
from interpose.cli.config.sources import read_sources
from interpose.config.effective import rows_of
from interpose.config.load import load
from interpose.config.programs import PROGRAMS
from interpose.core.model.text import printable
from interpose.errors import ConfigError

_DEFAULT: Final = "default"
_RUNNING: Final = "running"


class ComparisonError(click.ClickException):
    """There is nothing to compare with: its code is not that of a difference, as with diff(1)."""

    exit_code = 2


@click.command("diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
@kind_option
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

    Of manifests with several objects, those of the same kind, namespace and name are compared.

    Ends with 0 if there is no difference, 1 if there is, 2 if there was nothing to compare with, 78 if a file cannot be
    used.
    """
    names = (first, second) if second is not None else (_DEFAULT, first)
    context = ReadContext(env=os.environ if with_env else {}, node=node)
    files = {name: _read_file(name, kind, context) for name in names if not _is_word(name)}
    owner = program or next(iter(PROGRAMS))
    families = [{part.family for part in parts} for parts in files.values()]
    if program is not None or not files:
        families.append({owner})
    if not set.intersection(*families):
        raise click.UsageError(f"these cannot be compared: {' and '.join(sorted(set.union(*families)))}")
    other = next(iter(files.values()), [DocumentPart(owner, ())])
    left, right = (Side(name, files[name] if name in files else _read_word(name, other)) for name in names)
    found = find_differences(left, right)
    click.echo(
        json.dumps(differences_json(found), indent=2) if output == "json" else render_differences(found, left, right)
    )
    return 1 if found else 0


def _is_word(name: str) -> bool:
    return name in (_DEFAULT, _RUNNING) or name.startswith(f"{_RUNNING}:")


def _read_file(name: str, kind: str | None, context: ReadContext) -> Sequence[DocumentPart]:
    sources = list(read_sources(name))
    keyed = [source for source in sources if not isinstance(source, ConfigError) and source.keys]
    candidates = keyed if keyed else sources
    if len(candidates) != 1:
        raise ConfigError(f"directory {name}: holds {len(candidates)} files, name one of them")
    (source,) = candidates
    if isinstance(source, ConfigError):
        raise source
    reading = read(source, kind, context)
    for warning in reading.warnings:
        click.echo(f"warning: {warning}", err=True)
    if not reading.parts:
        raise ConfigError(f"{source.where}: holds nothing that can be compared")
    titles = Counter(part.title for part in reading.parts)
    if twice := [title for title, count in titles.items() if count > 1]:
        raise ConfigError(f"{source.where}: {', '.join(map(printable, twice))}: appears more than once")
    return reading.parts


def _read_word(name: str, others: Sequence[DocumentPart]) -> Sequence[DocumentPart]:
    """The configuration that `default` or `running` stands for, in the family of `others`."""
    family = others[0].family
    if family not in PROGRAMS:
        if name == _DEFAULT:
            return [DocumentPart(part.family, default_rows(part.family), part.title) for part in others]
        raise click.UsageError(f"{name!r} has settings, it cannot be compared with {family}")
    schema = PROGRAMS[family].schema()
    if name == _DEFAULT:
        return [DocumentPart(family, tuple(rows_of(load(schema, flags={}, env={}))))]
    try:
        return [DocumentPart(family, tuple(ask_running(schema, name.partition(":")[2] or None)))]
    except click.ClickException as error:
        raise ComparisonError(error.message) from None
