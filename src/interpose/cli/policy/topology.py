"""`interpose topology`: the machine as a policy sees it, this one or another, as tree, picture, drawing or document.

The machine is given as a folder like /sys, as a document, or in a few words.
"""

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from interpose.cli.common.admin_client import admin_option, ask
from interpose.cli.render.machine import CpuOwners, owners_of
from interpose.cli.render.pool_tree import owners_of_pools, pools_text
from interpose.cli.render.text import WIDTH, group, groups
from interpose.cli.render.topology_picture import picture
from interpose.cli.render.topology_svg import svg_text
from interpose.cli.render.topology_tree import tree_text
from interpose.config.documents.topology import read_topology_document
from interpose.config.documents.yaml import parse_document, read_document
from interpose.core.model.text import quoted
from interpose.core.topology.document import topology_document
from interpose.core.topology.synthetic import parse_text
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.host.sysfs import read_topology

# 8192 CPUs with a line for each of their fields.
_MAX_BYTES = 8 << 20
_SUFFIXES = (".json", ".yaml", ".yml")
_POOL_KEYS = ("policy", "pool_details", "assignments")


def load_topology(source: str) -> Topology:
    """The machine in a folder (/sys or a copy of one), in a .json or .yaml file, or described in words.

    ConfigError that says what was tried.
    """
    path = Path(source)
    there = bool(source) and _true(path.exists)  # no name at all would be the folder we are in
    if there and path.is_dir():
        return _from_folder(source)
    if there or path.suffix.lower() in _SUFFIXES:
        return read_topology_document(read_document(source, _MAX_BYTES), f"file {source}")
    try:
        return parse_text(source)
    except ValueError as error:
        raise ConfigError(
            f"machine {quoted(source)}: there is no such folder and no such file, and as a description such as "
            f'"2 sockets x 8 cores x 2 threads" it has a mistake: {error}'
        ) from None


def _from_folder(source: str) -> Topology:
    try:
        return read_topology(source, name=source)
    except OSError as error:
        raise ConfigError(f"machine {source}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"machine {error}") from None


def _true(question: Callable[[], bool]) -> bool:
    """Whether it is so; what is too long or too odd for the name of a file is none."""
    try:
        return question()
    except (OSError, ValueError):
        return False


SYSFS = "/sys"


@click.command("topology")
@click.option(
    "--from",
    "--topology",
    "source",
    metavar="DIR|FILE|TEXT",
    help="Another machine: a copy of its /sys, a .json or .yaml file, or a description such as "
    '"2 sockets x 2 numa x 8 cores x 2 threads". [default: this one]',
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "tree", "picture", "json"]),
    default="text",
    show_default=True,
    help="text is tree and picture; what json prints, --from reads.",
)
@click.option("--svg", metavar="FILE", help="Write a drawing to this file instead; - is standard output.")
@click.option("--show-assignments", is_flag=True, help="Mark CPUs with who has them, as a running relay says.")
@click.option(
    "--show-pools",
    is_flag=True,
    help="Show the pools of the policy of a running relay instead of the parts of the machine: as tree with their "
    "containers, in pictures by their CPUs, or as JSON.",
)
@admin_option
def topology(
    source: str | None, output: str, svg: str | None, show_assignments: bool, show_pools: bool, admin: str
) -> None:
    """Show the CPUs and NUMA nodes of a machine."""
    if show_assignments:
        _check_assignments(source, output if svg is None else "drawing")
    if show_pools:
        _check_pools(source, with_assignments=show_assignments)
    policy = group(ask(admin, "GET", "/v1/policy")) if show_assignments or show_pools else {}
    if show_pools and svg is None and output == "json":
        click.echo(json.dumps({key: policy.get(key) for key in _POOL_KEYS}, indent=2))
        return
    machine = _ask_topology(admin) if policy else load_machine(source)
    owners = None
    if policy:
        owners = owners_of_pools(policy) if show_pools else owners_of(groups(policy.get("assignments")))
    if svg is not None:
        write_drawing(svg, svg_text(machine, owners))
    elif output == "json":
        click.echo(json.dumps(topology_document(machine), indent=2))
    else:
        click.echo(_text(machine, output, owners, policy if show_pools else None))


def load_machine(source: str | None) -> Topology:
    """The machine of --topology or --from; without one the machine we run on."""
    return load_topology(source) if source else replace(load_topology(SYSFS), name=platform.node())


def _check_assignments(source: str | None, output: str) -> None:
    """Owners are those of the relay's machine, and only pictures have a place for them."""
    if source:
        raise click.UsageError("--show-assignments is about the machine of a running relay: drop --from")
    if output in ("tree", "json"):
        raise click.UsageError(f"--show-assignments marks CPUs in pictures, -o {output} has none: use text or picture")


def _check_pools(source: str | None, *, with_assignments: bool) -> None:
    """Pools are those of the relay's policy, and a CPU has one letter."""
    if source:
        raise click.UsageError("--show-pools is about the machine of a running relay: drop --from")
    if with_assignments:
        raise click.UsageError("--show-pools and --show-assignments both mark CPUs: use one of them")


def _ask_topology(admin: str) -> Topology:
    """The machine as the policy of a relay sees it: the one the assignments are about."""
    where = f"the topology of {admin}"
    answer = ask(admin, "GET", "/v1/topology")
    return read_topology_document(parse_document(json.dumps(answer), where, json_only=True), where)


def _text(machine: Topology, output: str, owners: CpuOwners | None, pools: Mapping[str, Any] | None) -> str:
    """`pools`: the policy whose pools the tree has, None: it has the parts of the machine."""
    on_terminal = _on_terminal()
    width = shutil.get_terminal_size().columns if on_terminal else WIDTH
    colour = on_terminal and not os.environ.get("NO_COLOR")
    blocks = []
    if output in ("text", "tree"):
        blocks.append(tree_text(machine, width) if pools is None else pools_text(pools, width))
    if output in ("text", "picture"):
        blocks.append(picture(machine, width, colour=colour, owners=owners, titled=output == "picture"))
    return "\n\n".join(blocks)


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def write_drawing(path: str, text: str, *, announce: bool = True) -> None:
    """Write a drawing to a file, or to standard output; `announce` prints where it is."""
    if path == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"--svg {path}: cannot be written: {error.strerror}") from None
    if announce:
        click.echo(f"Drawing is in {path}")
