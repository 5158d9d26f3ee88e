"""`interpose status`: what a running relay is doing, for people or (--json) for programs.

The text follows the shape of the answer and knows none of its keys, so a newer relay can say more. What a policy does
is a block of its own.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

import click

from interpose.cli.common.admin_client import admin_option, ask, ask_optional
from interpose.cli.common.terminal import format_value
from interpose.cli.render.policy_status import policy_status_text


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@admin_option
def status(as_json: bool, admin: str) -> None:
    """Show what a running relay does; with --admin a runtime or a hook server."""
    answer = ask(admin, "GET", "/v1/status")
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    policy = ask_optional(admin, "/v1/policy")
    if policy is not None and isinstance(answer, Mapping):
        answer = {name: value for name, value in answer.items() if name != "policy"}  # a block of its own below
    click.echo(status_text(answer))
    if policy is not None:
        click.echo(policy_status_text(policy))


def status_text(answer: object) -> str:
    """Aligned lines: plain values first, then one block per group or list."""
    return "\n".join(_block(answer, "")) if isinstance(answer, Mapping) else format_value(answer)


def _block(group: Mapping[str, object], indent: str) -> Iterator[str]:
    plain = {_title(name): value for name, value in group.items() if not isinstance(value, Mapping | list)}
    width = max(map(len, plain), default=0)
    for title, value in plain.items():
        yield f"{indent}{title:<{width}}  {format_value(value)}"
    for name, value in group.items():
        if isinstance(value, Mapping):
            yield f"{indent}{_title(name)}:" + ("" if value else " none")
            yield from _block(value, indent + "  ")
        elif isinstance(value, list):
            yield f"{indent}{_title(name)}:" + ("" if value else " none")
            yield from (f"{indent}  {line}" for line in _rows(value))


def _rows(items: Sequence[object]) -> Iterator[str]:
    """A list of groups as a table, any other list as lines."""
    if not items or not all(isinstance(item, Mapping) for item in items):
        yield from (f"- {format_value(item)}" for item in items)
        return
    records = [item for item in items if isinstance(item, Mapping)]
    columns = list(dict.fromkeys(name for record in records for name in record))
    table = [[_title(name).upper() for name in columns]]
    table += [[_cell(record.get(name)) for name in columns] for record in records]
    widths = [max(len(row[index]) for row in table) for index in range(len(columns))]
    for row in table:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cell(value: object) -> str:
    """An empty group or list is shown as None is."""
    return format_value(None if isinstance(value, Mapping | list) and not value else value)


def _title(name: object) -> str:
    return format_value(str(name).replace("_", " "))
