"""Options of commands that run a policy without a node: which one, and on which machine. Loads nothing else."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

# What the decorators add, by the names of parameters.
DETAILS: Final = ("reserved", "available", "policy_config", "pools_file", "pools_dir")


def machine_option(command: _Command, prefix: str = "") -> _Command:
    """The machine, as `topology`. `prefix` begins what the help says."""
    return click.option(
        "--topology",
        metavar="DIR|FILE|TEXT",
        help=_add_prefix(
            prefix,
            "The machine: a copy of a /sys, a .json or .yaml file, or a description such as "
            '"2 sockets x 2 numa x 8 cores x 2 threads". [default: this one]',
        ),
    )(command)


def policy_details(command: _Command, prefix: str = "") -> _Command:
    """Reserved and available CPUs, document and pools: DETAILS; not the policy itself."""
    rows = (
        ("--reserved-resources", "reserved", "SPEC", "", "As for the relay: cpu=1, cpu=0-1."),
        ("--available-resources", "available", "SPEC", "", "As for the relay: cpu=2-15."),
        ("--policy-config", "policy_config", "FILE", None, "Policy document, as for the relay."),
        ("--static-pools-conf-file", "pools_file", "FILE", "", "As for the relay."),
        ("--static-pools-conf-dir", "pools_dir", "DIR", "", "As for the relay."),
    )
    for flag, name, metavar, default, text in reversed(rows):
        command = click.option(flag, name, metavar=metavar, default=default, help=_add_prefix(prefix, text))(command)
    return command


def _add_prefix(prefix: str, text: str) -> str:
    return prefix + text[0].lower() + text[1:] if prefix else text
