"""`interpose dump replay FILE --policy P`: what policies would have decided about the calls of a recording.

Importing this loads options only; see `replay_policy_run` for what is done.
"""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import click

from interpose.cli.policy.flags import DETAILS, machine_option, policy_details
from interpose.core.policy.names import NAMES

_Command = TypeVar("_Command", bound=Callable[..., Any])

_WITH: Final = "With --policy: "
# What `policy_options` adds, by the names of parameters.
POLICY_VALUES: Final = ("policies", "topology", *DETAILS, "picture", "ascii_only", "allow_refusals")


def policy_options(command: _Command) -> _Command:
    """Decorator that adds the options of `replay_policy`."""
    options: list[Callable[[_Command], _Command]] = [
        click.option(
            "--policy",
            "policies",
            type=click.Choice(list(NAMES)),
            multiple=True,
            help="Show what this policy would have decided. May be repeated: several are compared. "
            "[default: what --policy-config says]",
        ),
        partial(machine_option, prefix=_WITH),
        partial(policy_details, prefix=_WITH),
        click.option("--picture", is_flag=True, help=f"{_WITH}draw who had which CPUs alone, along time."),
        click.option("--ascii", "ascii_only", is_flag=True, help="With --picture: only characters of ASCII."),
        click.option("--allow-refusals", is_flag=True, help=f"{_WITH}end with 0 also if a container was refused."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def policy_wanted(values: Mapping[str, Any]) -> bool:
    """Whether these options ask for a policy."""
    return bool(values.get("policies") or values.get("policy_config"))


def replay_policy(
    paths: Sequence[str],
    *,
    filters: str = "",
    output: str = "text",
    verbose: bool = False,
    alone: bool = False,
    policies: Sequence[str] = (),
    topology: str | None = None,
    picture: bool = False,
    ascii_only: bool = False,
    allow_refusals: bool = False,
    **details: Any,
) -> int:
    """Read recordings, let policies decide, show it: the exit code."""
    from interpose.cli.dump.output import quiet_end
    from interpose.cli.dump.replay_policy_run import WhatIfRequest, replay_policies

    if filters:
        raise click.UsageError("a filter does not go with --policy: what one container gets depends on all others")
    if picture and output == "json":
        raise click.UsageError("--picture does not go with -o json, which has the same under stays")
    wanted = WhatIfRequest(policies=tuple(policies), topology=topology, details=details)
    code: list[int] = []
    with quiet_end(code):
        outcome = replay_policies(paths, wanted, alone=alone)
        click.echo(outcome.json() if output == "json" else outcome.text(verbose=verbose, width=_width()))
        if picture:
            plain = ascii_only or "utf" not in (sys.stdout.encoding or "").lower()
            click.echo("\n" + outcome.pictures(width=_width(), ascii_only=plain))
        code.append(1 if outcome.refused and not allow_refusals else 0)
    return code[0] if code else 0


def _width() -> int | None:
    """Columns of the terminal; None if there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
