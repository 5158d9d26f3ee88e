"""Options of commands that run a policy without a node: which one, and on which machine. Loads nothing else."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

# What the decorators add, by the names of parameters.
DETAILS: Final = ("reserved", "available", "policy_config", "pools_file", "pools_dir")


def machine_option(command: _Command) -> _Command:
    """The machine, as `topology`."""
    return click.option(
        "--topology",
        metavar="DIR|FILE|TEXT",
        help="The machine: a copy of a /sys, a .json or .yaml file, or a description such as "
        '"2 sockets x 2 numa x 8 cores x 2 threads". [default: this one]',
    )(command)


def policy_details(command: _Command) -> _Command:
    """Reserved and available CPUs, document and pools: DETAILS; not the policy itself."""
    for option in reversed(_details()):
        command = option(command)
    return command


def _details() -> list[Callable[[_Command], _Command]]:
    return [
        click.option(
            "--reserved-resources", "reserved", metavar="SPEC", default="", help="As for the relay: cpu=1, cpu=0-1."
        ),
        click.option(
            "--available-resources", "available", metavar="SPEC", default="", help="As for the relay: cpu=2-15."
        ),
        click.option("--policy-config", "policy_config", metavar="FILE", help="Policy document, as for the relay."),
        click.option("--static-pools-conf-file", "pools_file", metavar="FILE", default="", help="As for the relay."),
        click.option("--static-pools-conf-dir", "pools_dir", metavar="DIR", default="", help="As for the relay."),
    ]
