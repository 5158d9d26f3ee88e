"""`interpose pod ls`: the pods that a runtime has, and those of ours that never came to it."""

import asyncio
import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from interpose.cli.pod_options import output_option, reach_of, reach_options

if TYPE_CHECKING:
    from interpose.cli.pod_runtime import Opened
    from interpose.kuberuntime.running import RunningPod
    from interpose.views.pods import PodRow


@click.command("ls")
@click.option("-n", "--namespace", metavar="NAME", default=None, help="Only pods of this namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of all namespaces; that is also the default.")
@click.option("--ours", is_flag=True, help="Only pods that `interpose pod` started, not those of a kubelet.")
@click.option("--running", is_flag=True, help="Only pods of which something runs.")
@output_option("wide", "json", "name")
@reach_options
def ls(**parameters: Any) -> None:
    """List the pods that the runtime has, of everybody.

    UP is how many containers run, of how many; init containers of pods of our own do not count. STATUS is what can be
    told without the manifest.

    \b
      interpose pod ls
      interpose pod ls -n default -o wide
      interpose pod ls -o json | jq -r '.[].name'
    """
    reach = reach_of(parameters)
    if parameters["namespace"] and parameters["all_namespaces"]:
        raise click.UsageError("--namespace and --all-namespaces exclude each other")
    from interpose.cli.pod_runtime import run_with

    async def work(runtime: "Opened") -> "list[PodRow]":
        return await _rows(runtime, parameters)

    _show(run_with(reach, work), parameters["output"], one_namespace=bool(parameters["namespace"]))


async def _rows(runtime: "Opened", parameters: dict[str, Any]) -> "list[PodRow]":
    from interpose.kuberuntime.knownpods import known_pods

    known = await known_pods(runtime.manager)
    pods = [
        pod
        for pod in known.pods
        if parameters["namespace"] in (None, pod.namespace)
        and (not parameters["ours"] or pod.uid in known.ours)
        and (not parameters["running"] or pod.running or any(one.ready for one in pod.sandboxes))
    ]
    pods.sort(key=lambda pod: (pod.namespace, pod.name, pod.uid))
    return [await _row(runtime, pod, known.ours) for pod in pods]


async def _row(runtime: "Opened", pod: "RunningPod", ours: frozenset[str]) -> "PodRow":
    from interpose.kuberuntime.knownpods import known_phase
    from interpose.kuberuntime.origins import read_origin
    from interpose.model.pod import ContainerState
    from interpose.views.pods import PodRow

    status = await runtime.manager.get_pod_status(pod)
    names = list(dict.fromkeys(one.name for one in status.containers))
    latest = [one for name in names if (one := status.latest(name)) is not None]
    dirs = runtime.manager.dirs
    stopped = pod.uid in ours and await asyncio.to_thread(dirs.is_stopped, pod.uid)
    origin = await asyncio.to_thread(read_origin, dirs.folder(pod.uid)) if pod.uid in ours else None
    # Of somebody else's pod nobody knows which containers were to end.
    main = latest if origin is None else [one for one in latest if one.name in origin.containers]
    words = known_phase(status, origin).value
    if stopped and not pod.running:
        words = "Stopped"
    else:
        bad = [one for one in latest if one.failed]
        ended = all(one.state is ContainerState.EXITED for one in latest)
        if bad and words in ("Running", "Failed"):
            words = bad[0].reason or "Error"
        elif latest and ended:
            words = "Completed"
    created = [one.created_at for one in status.sandboxes] or ([origin.began] if origin is not None else [])
    return PodRow(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        status=words,
        running=sum(one.state is ContainerState.RUNNING for one in main),
        containers=len(latest if origin is None else origin.containers),
        restarts=sum(one.restart_count for one in latest),
        age=time.time() - min(created) / 1e9 if created else None,
        ips=status.ips,
        images=tuple(dict.fromkeys(one.image for one in latest)),
        ours=pod.uid in ours,
    )


def _show(rows: "list[PodRow]", output: str, *, one_namespace: bool) -> None:
    from interpose.views.pods import pod_table
    from interpose.views.text import WIDTH

    if output == "json":
        click.echo(json.dumps([_document(row) for row in rows], indent=2))
    elif output == "name":
        for row in rows:
            click.echo(row.title)
    elif not rows:
        click.echo("No pods.")
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
        click.echo(pod_table(rows, wide=output == "wide", namespaces=not one_namespace, width=width))


def _document(row: "PodRow") -> dict[str, Any]:
    return {
        "namespace": row.namespace,
        "name": row.name,
        "uid": row.uid,
        "status": row.status,
        "running": row.running,
        "containers": row.containers,
        "restarts": row.restarts,
        "ageSeconds": None if row.age is None else round(row.age),
        "ips": list(row.ips),
        "images": list(row.images),
        "ours": row.ours,
    }
