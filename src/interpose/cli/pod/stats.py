"""`interpose pod stats`: what containers use, as the runtime measures it."""

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from interpose.cli.common.terminal import output_width
from interpose.cli.pod.options import (
    connection_options,
    namespace_option,
    output_option,
    pop_connection_options,
    selector_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interpose.cli.pod.connect import PodRuntime
    from interpose.cli.render.pods import UsageRow
    from interpose.cri.messages import cri
    from interpose.node.pods.status.runtime_pod import RuntimePod


@click.command("stats")
@click.argument("names", nargs=-1, metavar="[POD...]")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 60.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Between the two looks of which CPU is computed.",
)
@namespace_option
@selector_option
@output_option("json")
@connection_options
def stats(**parameters: Any) -> None:
    """Show what running containers use: CPU in thousandths of one, memory that cannot be taken back, and what they
    wrote into their root file systems. Without names it is all pods.

    \b
      interpose pod stats
      interpose pod stats web -o json
    """
    connection = pop_connection_options(parameters)
    from interpose.cli.pod.connect import run_with_runtime

    async def work(runtime: "PodRuntime") -> "list[UsageRow]":
        return await _rows(runtime, parameters)

    _show(run_with_runtime(connection, work), parameters["output"])


async def _rows(runtime: "PodRuntime", parameters: dict[str, Any]) -> "list[UsageRow]":
    from interpose.cli.pod.select import select_pod
    from interpose.core.model.pod import ContainerState
    from interpose.node.pods.status.pod_index import known_pods

    namespace = parameters["namespace"]
    known = await known_pods(runtime.pods)
    pods: Sequence[RuntimePod] = [pod for pod in known.pods if namespace in (None, pod.namespace)]
    if parameters["names"]:
        pods = [select_pod(pods, name, namespace) for name in dict.fromkeys(parameters["names"])]
    pods = [pod for pod in pods if parameters["selector"].matches(pod.labels)]
    before = {stats.attributes.id: stats for stats in await runtime.services.list_container_stats()}
    await asyncio.sleep(parameters["interval"])
    after = {stats.attributes.id: stats for stats in await runtime.services.list_container_stats()}
    return [
        _row(pod, container.name, before.get(container.id), after[container.id])
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name))
        for container in reversed(pod.containers)
        if container.state is ContainerState.RUNNING and container.id in after
    ]


def _row(pod: "RuntimePod", name: str, before: "cri.ContainerStats | None", after: "cri.ContainerStats") -> "UsageRow":
    from interpose.cli.render.pods import UsageRow

    cpu = None
    if before is not None and after.cpu.timestamp > before.cpu.timestamp:
        used = after.cpu.usage_core_nano_seconds.value - before.cpu.usage_core_nano_seconds.value
        cpu = max(used, 0) / (after.cpu.timestamp - before.cpu.timestamp)
    return UsageRow(
        namespace=pod.namespace,
        pod=pod.name,
        container=name,
        cpu=cpu,
        memory=after.memory.working_set_bytes.value if after.memory.HasField("working_set_bytes") else None,
        written=after.writable_layer.used_bytes.value if after.writable_layer.HasField("used_bytes") else None,
    )


def _show(rows: "list[UsageRow]", output: str) -> None:
    from interpose.cli.render.pods import usage_table

    if output == "json":
        click.echo(json.dumps([_document(row) for row in rows], indent=2))
    elif not rows:
        click.echo("No container runs.")
    else:
        click.echo(usage_table(rows, output_width()))


def _document(row: "UsageRow") -> dict[str, Any]:
    return {
        "namespace": row.namespace,
        "pod": row.pod,
        "container": row.container,
        "cpuCores": None if row.cpu is None else round(row.cpu, 6),
        "memoryBytes": row.memory,
        "writtenBytes": row.written,
    }
