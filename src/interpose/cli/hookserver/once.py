"""Runs of `interpose hookserver` that end: `--once`, `--dry-run`, `--restore` and `--deregister`.

They do one reconcile pass, or remove our registration file; no socket is served and nothing is registered.
"""

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import click
import uvloop

from interpose.cli.common.terminal import format_value
from interpose.cli.hookserver.parts import HookServerParts, select_plugins
from interpose.config.hookserver.settings import HookServerSettings
from interpose.core.model.qos import qos_of
from interpose.errors import SocketInUseError
from interpose.hooks.server.proxy.self_registration import Registrar
from interpose.hooks.server.reconcile.reconciler import ReconcilePass
from interpose.hooks.server.reconcile.report import ReportedProblem, as_json, idle_plugins, missing_parameters, render
from interpose.host.peer_credentials import check_unowned
from interpose.log import setup


def run_once(settings: HookServerSettings, *, restore: bool, dry_run: bool, as_json: bool) -> int:
    """One reconcile pass; exit code 1 if not all is known, a plugin could not decide, or a value could not be written.

    To restore, neither a policy nor the kubelet is needed: the values are in the journal, and no plugin runs.
    """
    if restore:
        settings = replace(settings, nodeslo="", reconcile=replace(settings.reconcile, kubelet_url=""))
    setup(settings.logging.level if settings.logging.level != "info" else "warning", settings.logging.format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_main(settings, restore=restore, dry_run=dry_run, json_output=as_json))


async def _main(settings: HookServerSettings, *, restore: bool, dry_run: bool, json_output: bool) -> int:
    # No hooks are answered here, so an update carries the values themselves.
    parts = HookServerParts(settings, plugins=() if restore else select_plugins(settings), dry_run=dry_run)
    try:
        if parts.node_file is not None:
            parts.node_file.load()
        parts.upstream.start()
        done = await parts.reconciler.reconcile("once", detail=True, apply=not dry_run)
        troubles = [
            ReportedProblem(failed.failure.plugin, failed.target.name, failed.failure.text)
            for failed in done.desired_state.problems
        ]
        _show(done, parts, troubles, acted=not dry_run, json_output=json_output)
        problems = list(parts.node_file.problems) if parts.node_file is not None else []
        if not done.listed:
            problems.append(f"runtime {parts.upstream.path}: {parts.upstream.last_error or 'did not list everything'}")
        problems += done.errors
        for problem in problems:
            click.echo(f"error: {format_value(problem)}", err=True)
        return 1 if problems or troubles or parts.reconciler.rules.problems else 0
    finally:
        await parts.close()


def _show(
    done: ReconcilePass, parts: HookServerParts, troubles: Sequence[ReportedProblem], *, acted: bool, json_output: bool
) -> None:
    rules = parts.reconciler.rules
    problems, idle = rules.problems, idle_plugins(rules.by_plugin)
    known = [plugin for plugin in parts.plugins if plugin.name in rules.by_plugin]
    missing = missing_parameters(known, parts.reconciler.node.inputs.kernel)
    qos = {subject.pod.uid: found for subject in done.subjects if (found := qos_of(subject.pod.labels)) is not None}
    if json_output:
        records = as_json(done.items, failures=troubles, problems=problems, idle=idle, missing=missing, qos=qos)
        click.echo(json.dumps(records, indent=2))
        return
    colour = sys.stdout.isatty()
    width = shutil.get_terminal_size((120, 24)).columns
    text = render(
        done.items,
        failures=troubles,
        problems=problems,
        idle=idle,
        missing=missing,
        qos=qos,
        acted=acted,
        undone=done.undone,
        width=width,
        colour=colour,
    )
    click.echo(text, nl=False)


def remove_registration(settings: HookServerSettings) -> int:
    """Remove the registration file, whatever it says; 1 if it stays, because a hook server runs or for another reason.

    One that runs writes it again within a second, so removing it would only look like success.
    """
    setup(settings.logging.level, settings.logging.format)
    registration = settings.registration
    registrar = Registrar(
        registration.dir, registration.name, endpoint=registration.host_endpoint or settings.listen, hooks=()
    )
    for path in dict.fromkeys(filter(None, (settings.listen, registrar.registered_endpoint))):
        try:
            with suppress(NotADirectoryError):
                check_unowned(path)
        except SocketInUseError as error:
            problem = f"{error}: a hook server that runs would register again, stop it first; {registrar.path} stays"
            click.echo(f"error: {format_value(problem)}", err=True)
            return 1
    return 0 if registrar.deregister() else 1
