"""The settings of a running process, asked on its admin socket."""

import os
from collections.abc import Mapping
from typing import Any

import click

from interpose.cli.common.admin_client import ask
from interpose.config.effective import PROGRAM, SettingRow, rows_of_answer
from interpose.config.schema import Schema, value_of

_KEY = "admin.listen"


def ask_running(schema: Schema, admin: str | None) -> list[SettingRow]:
    """The settings of the process as rows; a click error if none answers, or another program."""
    answer = _ask_config(admin or default_address(schema))
    program = answer.get(PROGRAM, schema.program)
    if program != schema.program:
        raise click.ClickException(f"the process there is {program!r}, not {schema.program!r}")
    return rows_of_answer(schema, answer)


def default_address(schema: Schema) -> str:
    """Where the process listens unless a flag or a file said otherwise; a click error if nowhere."""
    setting = next((setting for setting in schema.table if setting.key == _KEY), None)
    if setting is None:
        raise click.ClickException(f"{schema.program} has no admin socket: a running one cannot be asked")
    return os.environ.get(setting.env) or str(value_of(schema.settings(), _KEY))


def _ask_config(address: str) -> Mapping[str, Any]:
    answer = ask(address, "GET", "/v1/config")
    if not isinstance(answer, Mapping):
        raise click.ClickException(f"{address} answered with something that is not settings")
    return answer
