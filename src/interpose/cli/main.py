"""The `interpose` command: finds the subcommand, loads only that, and turns errors into messages and exit codes.

Exit codes: 0 fine, 1 failed, 2 wrong usage, 78 settings cannot be used (EX_CONFIG, so that a service manager can tell
a mistake in a file from a crash), 130 interrupted by Ctrl-C.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import click

from interpose import __version__
from interpose.cli.common.lazy import LazyGroup, Subcommand
from interpose.cli.common.stdio import EXIT_INTERRUPTED, EXIT_UNREAD, discard_output, is_output_closed, standard_streams
from interpose.errors import ConfigError, SocketInUseError

EXIT_FAILED = 1
EXIT_CONFIG = 78


SUBCOMMANDS = {
    "relay": Subcommand("interpose.cli.relay.command", "relay", "Stand between the kubelet and the container runtime."),
    "hookserver": Subcommand(
        "interpose.cli.hookserver.command", "hookserver", "Give pods what their QoS class and the node's rules say."
    ),
    "agent": Subcommand(
        "interpose.cli.agent.command", "agent", "Bring the cluster's configuration to the node, and back."
    ),
    "webhook": Subcommand(
        "interpose.cli.webhook.command", "webhook", "Annotate pods with what their containers ask for."
    ),
    "pod": Subcommand("interpose.cli.pod.command", "pod", "Run pods on any CRI runtime, or on the built-in one."),
    "runtime": Subcommand(
        "interpose.cli.runtime.command", "runtime", "Run containers: a runtime of our own behind CRI."
    ),
    "image": Subcommand(
        "interpose.cli.image.command", "image", "Import, pull, name, save and list images of the built-in runtime."
    ),
    "config": Subcommand("interpose.cli.config.command", "config", "Check, show and compare settings and documents."),
    "status": Subcommand("interpose.cli.status", "status", "Show what a running relay, runtime or hook server does."),
    "explain": Subcommand("interpose.cli.policy.explain", "explain", "Show why a container has the CPUs it has."),
    "policies": Subcommand(
        "interpose.cli.policy.policies", "policies", "List the resource policies and their options."
    ),
    "simulate": Subcommand(
        "interpose.cli.policy.simulate", "simulate_command", "Show what a policy would give to pods on some machine."
    ),
    "topology": Subcommand("interpose.cli.policy.topology", "topology", "Show the CPUs and NUMA nodes of a machine."),
    "hooks": Subcommand("interpose.cli.hooks", "hooks", "Check registration files, list hook servers."),
    "dump": Subcommand("interpose.cli.dump.command", "dump", "Record, show and replay what passes a relay."),
    "log-level": Subcommand(
        "interpose.cli.log_level", "log_level", "Change the log level of a running relay, runtime or hook server."
    ),
}


class MainGroup(LazyGroup):
    """The group of all subcommands, with the exit codes of the program."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run to the process exit, or return without standalone_mode. Errors of command lines look as all others do."""
        run: Callable[[], Any] = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        try:
            code = run()
        except click.ClickException as error:
            code = _show(error)
        except click.Abort:  # Ctrl-C before the command was found
            code = EXIT_INTERRUPTED
        except OSError as error:  # --help, to a full disk
            code = report(error)
        sys.exit(code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; its return value is the exit code, its known errors become messages."""
        try:
            code = super().invoke(ctx)
        except (ConfigError, SocketInUseError, OSError) as error:
            if isinstance(error, BrokenPipeError) and is_output_closed():
                discard_output()
                ctx.exit(EXIT_UNREAD)
            ctx.exit(report(error))
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)  # before a command handles it
        ctx.exit(code or 0)


def _show(error: click.ClickException) -> int:
    """Write what click says to stderr, with our spelling; the exit code."""
    if isinstance(error.__context__, BrokenPipeError) and is_output_closed():
        discard_output()
        return EXIT_UNREAD
    text = io.StringIO()
    error.show(text)
    with suppress(BrokenPipeError):
        click.echo(re.sub(r"(?m)^Error: ", "error: ", text.getvalue(), count=1), err=True, nl=False)
    return error.exit_code


def report(error: ConfigError | SocketInUseError | OSError) -> int:
    """Write an error to stderr, one problem per line, and give the exit code for it.

    An OSError that gets here is the system's no to something we were asked for: a port in use, a missing permission.
    """
    problems = error.problems if isinstance(error, ConfigError) else [_words(error)]
    for problem in problems:
        click.echo(f"error: {problem}", err=True)
    return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAILED


def _words(error: SocketInUseError | OSError) -> str:
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    place = error.filename if error.filename is not None or not discard_output() else "standard output"
    words = f"{place}: {error.strerror}" if place is not None else error.strerror
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        words += "; it takes root, or settings that name places of your own"
    return words


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from interpose.native import build

        click.echo(f"interpose {__version__} ({build()})")
        context.exit()


@click.group(cls=MainGroup, table=SUBCOMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and the build of the data path, and exit.",
)
def cli() -> None:
    """See, shape and steer what passes between the kubelet and the container runtime."""


def main() -> None:
    """Entry point of the `interpose` program."""
    with standard_streams():
        cli(prog_name="interpose")
