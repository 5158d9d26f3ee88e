"""`interpose pod logs`: what containers wrote."""

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from interpose.cli.pod.options import connection_options, container_option, namespace_option, pop_connection_options

if TYPE_CHECKING:
    from interpose.cli.pod.connect import PodRuntime
    from interpose.node.pods.logs.format import LogLine
    from interpose.node.pods.logs.reader import LogOptions
    from interpose.node.pods.status.origin import Origin
    from interpose.node.pods.status.types import ContainerStatus


def _since(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> int:
    """Nanoseconds since 1970 of a duration back from now, or of a time."""
    if not text:
        return 0
    from interpose.config.values import duration
    from interpose.errors import ConfigError
    from interpose.node.pods.logs.format import nanoseconds

    moment = nanoseconds(text)
    if moment is not None:
        return moment
    try:
        span: float = duration(0.0, 3650 * 86400.0).parse(text, "--since")
    except ConfigError:
        raise click.UsageError(
            f"--since: {text!r} is neither a span such as 90s, 10m or 2h nor a time such as 2026-01-02T15:04:05Z"
        ) from None
    return time.time_ns() - int(span * 1e9)


@click.command("logs")
@click.argument("name", metavar="POD")
@container_option
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until the container has ended.")
@click.option("--tail", type=click.IntRange(min=0), default=None, metavar="N", help="Only the last N lines.")
@click.option(
    "--since", default=None, metavar="TIME", callback=_since, help="Only lines since then: 10m, 2h, or a moment."
)
@click.option(
    "-p", "--previous", is_flag=True, help="Of the run before; of a container that has crashed and waits, its last run."
)
@click.option("--timestamps", is_flag=True, help="With the time of each line.")
@namespace_option
@connection_options
def logs(**parameters: Any) -> None:
    """Show what a container wrote, from its rotated logs on, to stdout and stderr as it was written.

    Without -c it is the container that the pod names as its default, or its first.

    \b
      interpose pod logs web
      interpose pod logs -f --tail 20 web -c nginx
      interpose pod logs -p crashing
    """
    connection = pop_connection_options(parameters)
    from interpose.cli.pod.connect import run_with_runtime
    from interpose.cli.render.text import or_dash
    from interpose.node.pods.logs.reader import LogOptions

    options = LogOptions(tail=parameters["tail"], since=parameters["since"], follow=parameters["follow"])

    async def work(runtime: "PodRuntime") -> None:
        found = await _find_instance(runtime, parameters)
        if not found.log_path:
            raise click.ClickException(f"the runtime does not say where the log of {found.name} is")
        try:
            await _show(runtime, found, options, timestamps=parameters["timestamps"])
        except BrokenPipeError:
            # The reader of our output has left. What is still buffered must not fail when the program ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except FileNotFoundError:
            text = f"the log of {found.name} is not there: {found.log_path}"
            if found.failed and found.message:
                text += f"; it ended with {found.reason}: {' '.join(found.message.split())}"
            raise click.ClickException(or_dash(text)) from None

    run_with_runtime(connection, work)


async def _find_instance(runtime: "PodRuntime", parameters: dict[str, Any]) -> "ContainerStatus":
    from interpose.cli.pod.select import find_pod_record, list_started_containers, select_container

    known = await find_pod_record(runtime.pods, parameters["name"], parameters["namespace"])
    pod, status = known.pod, known.summary.status
    names = list_started_containers(known, parameters["container"])
    mains = known.origin.containers if known.origin is not None else ()
    name = select_container(names, parameters["container"], pod, mains)
    instances = [instance for instance in status.containers if instance.name == name]
    if not parameters["previous"]:
        return instances[0]
    # Of one that is about to be started again the current one is still to come.
    before = instances if _will_restart(known.origin, instances[0]) else instances[1:]
    if not before:
        raise click.ClickException(f"container {name} of pod {pod.title} has no instance before the current one")
    return before[0]


def _will_restart(origin: "Origin | None", newest: "ContainerStatus") -> bool:
    """Whether a container has ended and waits to be started again, as far as the manager noted that."""
    from interpose.core.model.pod import ContainerState
    from interpose.node.pods.spec import RestartPolicy

    policy = RestartPolicy.ALWAYS.value if origin is None else origin.restart_policy
    again = policy == RestartPolicy.ALWAYS.value or (policy == RestartPolicy.ON_FAILURE.value and newest.exit_code != 0)
    return newest.state is ContainerState.EXITED and again


async def _show(runtime: "PodRuntime", found: "ContainerStatus", options: "LogOptions", *, timestamps: bool) -> None:
    from interpose.net.grpc.status import RpcError
    from interpose.node.pods.logs.reader import follow_log, read_log

    if not options.follow:

        def read() -> None:
            for line in read_log(found.log_path, options):
                _write(line, timestamps=timestamps)
            _flush()

        await asyncio.to_thread(read)
        return

    asked_at = 0.0

    async def running() -> bool:
        nonlocal asked_at
        _flush()
        if time.monotonic() - asked_at < 1.0:
            return True
        asked_at = time.monotonic()
        try:
            answer = await runtime.services.container_status(found.id)
        except RpcError:
            return False
        return int(answer.status.state) in (0, 1)  # created or running

    async for line in follow_log(found.log_path, options, running):
        _write(line, timestamps=timestamps)
    _flush()


def _write(line: "LogLine", *, timestamps: bool) -> None:
    target = sys.stderr if line.stream == "stderr" else sys.stdout
    head = f"{line.time} ".encode() if timestamps and line.time else b""
    target.buffer.write(head + line.content + (b"\n" if line.full else b""))


def _flush() -> None:
    sys.stdout.buffer.flush()
    sys.stderr.buffer.flush()
