"""`interpose pod ls`: the pods that a runtime has, and those of ours that never came to it."""

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from interpose.cli.common.stdio import is_output_closed
from interpose.cli.common.terminal import output_width
from interpose.cli.pod.options import connection_options, output_option, pop_connection_options, selector_option

if TYPE_CHECKING:
    from interpose.cli.pod.connect import PodRuntime
    from interpose.cli.render.pods import PodRow
    from interpose.node.pods.status.phase import ContainerView
    from interpose.node.pods.status.pod_index import PodRecord

_EVERY: Final = 1.0  # seconds from look to look


@click.command("ls")
@click.option("-n", "--namespace", metavar="NAME", default=None, help="Only pods of this namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces; that is also the default.")
@click.option("--ours", is_flag=True, help="Only pods that `interpose pod` started, not those of a kubelet.")
@click.option("--running", is_flag=True, help="Only pods of which something runs.")
@selector_option
@click.option("--show-labels", is_flag=True, help="With the labels of pods.")
@click.option("-w", "--watch", is_flag=True, help="Stay, and add a line for each pod that changes, until Ctrl-C.")
@output_option("wide", "json", "name")
@connection_options
def ls(**parameters: Any) -> None:
    """List the pods that the runtime has, of everybody.

    UP is how many containers run, of how many; init containers of pods of our own do not count. STATUS is what the
    runtime says now, and why containers wait as the manager of the pod last noted it: ErrImagePull, CrashLoopBackOff.

    \b
      interpose pod ls
      interpose pod ls -n default -o wide
      interpose pod ls -l 'app in (web,db),!canary' -w
      interpose pod ls -o json | jq -r '.[].name'
    """
    connection = pop_connection_options(parameters)
    if parameters["namespace"] and parameters["all_namespaces"]:
        raise click.UsageError("--namespace and --all-namespaces exclude each other")
    import asyncio

    from interpose.cli.pod.connect import run_with_runtime

    async def work(runtime: "PodRuntime") -> None:
        rows = await _rows(runtime, parameters)
        if not parameters["watch"]:
            _show(rows, parameters)
            return
        printed: dict[str, PodRow] = {}
        while True:
            _show_changes(rows, printed, parameters)
            if is_output_closed():
                raise BrokenPipeError
            await asyncio.sleep(_EVERY)
            rows = await _rows(runtime, parameters)

    run_with_runtime(connection, work)


async def _rows(runtime: "PodRuntime", parameters: dict[str, Any]) -> "list[PodRow]":
    from interpose.node.pods.status.pod_index import known_pod, known_pods

    known = await known_pods(runtime.pods)
    pods = [
        pod
        for pod in known.pods
        if parameters["namespace"] in (None, pod.namespace)
        and (not parameters["ours"] or pod.uid in known.ours)
        and (not parameters["running"] or pod.running or any(sandbox.ready for sandbox in pod.sandboxes))
        and parameters["selector"].matches(pod.labels)
    ]
    pods.sort(key=lambda pod: (pod.namespace, pod.name, pod.uid))
    ours = known.ours
    return [_row(await known_pod(runtime.pods, pod, ours=pod.uid in ours), ours=pod.uid in ours) for pod in pods]


def _row(known: "PodRecord", *, ours: bool) -> "PodRow":
    from interpose.cli.render.pods import PodRow
    from interpose.node.pods.status.phase import ContainerViewState

    pod, summary = known.pod, known.summary
    views = summary.containers
    return PodRow(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        status=summary.word,
        running=sum(view.state is ContainerViewState.RUNNING for view in summary.main),
        containers=len(summary.main),
        restarts=sum(view.restart_count for view in views),
        age=time.time() - known.began / 1e9 if known.began else None,
        ips=summary.status.ips,
        images=tuple(dict.fromkeys(view.image for view in views)),
        ours=ours,
        labels=pod.labels,
        message=summary.message,
        states=tuple(map(_state, views)),
    )


def _state(view: "ContainerView") -> dict[str, Any]:
    """A container as values for JSON."""
    return {
        "name": view.name,
        "role": view.role.value,
        "state": view.state.value,
        "reason": view.reason,
        "message": view.message,
        "exitCode": view.exit_code,
        "restarts": view.restart_count,
        "image": view.image,
    }


def _show(rows: "list[PodRow]", parameters: dict[str, Any]) -> None:
    if parameters["output"] == "json":
        click.echo(json.dumps([_document(row) for row in rows], indent=2))
    elif parameters["output"] == "name":
        for row in rows:
            click.echo(row.title)
    elif not rows:
        click.echo("No pods.")
    else:
        click.echo("\n".join(_table(rows, parameters)))


def _show_changes(rows: "list[PodRow]", printed: "dict[str, PodRow]", parameters: dict[str, Any]) -> None:
    """Print the rows that changed since `printed`, which is updated; for programs a line of JSON each."""
    first = not printed
    now = {row.uid: row for row in rows}
    changed = [row for row in rows if row.uid not in printed or replace(printed[row.uid], age=row.age) != row]
    changed += [replace(printed.pop(uid), status="Removed", running=0) for uid in set(printed) - set(now)]
    printed.update(now)
    for row in changed if parameters["output"] in ("json", "name") else ():
        click.echo(json.dumps(_document(row)) if parameters["output"] == "json" else row.title)
    if changed and parameters["output"] in ("text", "wide"):
        # As wide as all that is known needs it: columns stay where they are.
        lines = _table([*printed.values(), *changed], parameters)
        click.echo("\n".join([*lines[: int(first)], *lines[-len(changed) :]]))


def _table(rows: "list[PodRow]", parameters: dict[str, Any]) -> list[str]:
    from interpose.cli.render.pods import pod_table

    wide, namespaces = parameters["output"] == "wide", not parameters["namespace"]
    labels = parameters["show_labels"]
    return pod_table(rows, wide=wide, namespaces=namespaces, labels=labels, width=output_width()).splitlines()


def _document(row: "PodRow") -> dict[str, Any]:
    return {
        "namespace": row.namespace,
        "name": row.name,
        "uid": row.uid,
        "status": row.status,
        "message": row.message,
        "running": row.running,
        "containers": row.containers,
        "restarts": row.restarts,
        "ageSeconds": None if row.age is None else round(row.age),
        "ips": list(row.ips),
        "images": list(row.images),
        "labels": dict(row.labels),
        "ours": row.ours,
        "containerStatuses": list(row.states),
    }
