"""`interpose pod exec` and `interpose pod attach`: a command in a container, or its own process, at our terminal."""

import asyncio
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from interpose.cli.pod.options import connection_options, container_option, namespace_option, pop_connection_options
from interpose.cli.render.text import or_dash

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from interpose.cli.pod.connect import PodRuntime
    from interpose.node.pods.status.runtime_pod import RuntimeContainer

# As shells say that a command could not be run, and that one wrote to a pipe that nobody reads.
_CANNOT_RUN = 126
_NOBODY_READS = 141


@click.command("exec", context_settings={"ignore_unknown_options": False})
@click.argument("name", metavar="POD")
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
@container_option
@click.option("-i", "--stdin", is_flag=True, help="Hand our standard input on.")
@click.option("-t", "--tty", is_flag=True, help="With a terminal; only if ours is one.")
@namespace_option
@connection_options
def exec_command(**parameters: Any) -> int:
    """Run a command in a container; its exit code is ours.

    \b
      interpose pod exec web -- ls /
      interpose pod exec -it web -- sh
      tar c . | interpose pod exec -i web -c files -- tar x -C /data

    Without -c it is the container that the pod names as its default, or its first that runs.
    """
    connection = pop_connection_options(parameters)
    command = parameters["command"]

    async def url(runtime: "PodRuntime", container_id: str, flags: dict[str, bool]) -> str:
        return await runtime.services.exec(container_id, command, **flags)

    return _run_session(connection, parameters, url, stdin=parameters["stdin"], tty=parameters["tty"])


@click.command("attach")
@click.argument("name", metavar="POD")
@container_option
@click.option("-i", "--stdin", is_flag=True, help="Hand our standard input on; the container must have asked for it.")
@click.option("-t", "--tty", is_flag=True, help="The container has a terminal; only if ours is one.")
@namespace_option
@connection_options
def attach_command(**parameters: Any) -> int:
    """Connect to a container's own process: see what it writes from now on, and with -i write to it.

    Ctrl-C ends the connection, not the container. With -t it goes to the container, as every key: Ctrl-P Ctrl-Q ends
    the connection then.

    \b
      interpose pod attach web
      interpose pod attach -it shell
    """
    connection = pop_connection_options(parameters)

    async def url(runtime: "PodRuntime", container_id: str, flags: dict[str, bool]) -> str:
        return await runtime.services.attach(container_id, **flags)

    return _run_session(connection, parameters, url, stdin=parameters["stdin"], tty=parameters["tty"], attach=True)


def _run_session(
    connection: Any,
    parameters: dict[str, Any],
    url: "Callable[[PodRuntime, str, dict[str, bool]], Awaitable[str]]",
    *,
    stdin: bool,
    tty: bool,
    attach: bool = False,
) -> int:
    from interpose.cli.pod.connect import run_with_runtime
    from interpose.cli.pod.tty import LeavableInput, TypedInput, is_on_terminal, make_writer, raw_terminal, watch_sizes
    from interpose.log import setup
    from interpose.net.streaming.client import StreamError, run_command

    if tty and not (is_on_terminal() if stdin else sys.stdout.isatty()):
        click.echo("warning: -t is left out: standard input and output are not a terminal", err=True)
        tty = False

    async def work(runtime: "PodRuntime") -> int:
        nonlocal stdin, tty
        container = await _find_container(runtime, parameters)
        if attach:
            stdin, tty = await _narrow_streams(runtime, container, stdin=stdin, tty=tty)
        flags = {"tty": tty, "stdin": stdin, "stdout": True, "stderr": not tty}

        async def source() -> str:
            return await url(runtime, container.id, flags)

        fd = sys.stdin.fileno() if stdin else -1
        typed = TypedInput(fd) if stdin else None
        leaving = LeavableInput(typed) if typed is not None and tty and attach else None
        with raw_terminal(fd) if tty and stdin else nullcontext():
            session = run_command(
                source,
                stdin=leaving or typed,
                stdout=make_writer(sys.stdout),
                stderr=None if tty else make_writer(sys.stderr),
                tty=tty,
                resizes=watch_sizes(sys.stdout.fileno()) if tty else None,
            )
            code = await (session if leaving is None else run_until_left(leaving.left, session))
        if code is None:
            click.echo("\nLeft; the container goes on.", err=True)
        return code or 0

    logs = setup("error", "text")  # warnings would stand in the middle of what the command writes
    try:
        return run_with_runtime(connection, work)
    except StreamError as error:
        click.echo(f"error: {error}", err=True)
        return _CANNOT_RUN
    except BrokenPipeError:  # the reader of our output has left
        return _NOBODY_READS
    finally:
        logs.close()


async def run_until_left(left: asyncio.Event, session: "Coroutine[Any, Any, int]") -> int | None:
    """The exit code of the session; None if `left` was set before its end."""
    from interpose.tasks import TaskBag

    until = asyncio.timeout(None)

    async def leave() -> None:
        await left.wait()
        until.reschedule(0)  # now

    bag = TaskBag()
    try:
        async with until:
            bag.spawn(leave(), name="leaving")
            return await session
    except TimeoutError:
        if not until.expired():
            raise
        return None
    finally:
        await bag.cancel()


async def _narrow_streams(
    runtime: "PodRuntime", container: "RuntimeContainer", *, stdin: bool, tty: bool
) -> tuple[bool, bool]:
    """Which of standard input and terminal can be used: a container's own process has those it was created with."""
    from interpose.net.grpc.status import RpcError

    if not (stdin or tty):
        return stdin, tty
    try:
        answer = await runtime.services.container_status(container.id, verbose=True)
    except RpcError:  # a runtime that cannot answer this may still let us attach
        return stdin, tty
    has_stdin, has_tty = has_stdin_and_tty(answer.info)
    name = or_dash(container.name)
    if stdin and not has_stdin:
        click.echo(f"warning: container {name} has no standard input, -i is left out", err=True)
    if tty and not has_tty:
        click.echo(f"warning: container {name} has no terminal, -t is left out", err=True)
    return stdin and has_stdin, tty and has_tty


def has_stdin_and_tty(info: "Mapping[str, str]") -> tuple[bool, bool]:
    """Whether a container has a standard input, and a terminal, by its verbose status; true where it does not say."""
    from interpose.cri.store.verbose_info import read_info

    config = read_info(info).config
    if "metadata" not in config:  # not all of what the container was made with: what is not there may be set
        return True, True
    return config.get("stdin", False) is not False, config.get("tty", False) is not False


async def _find_container(runtime: "PodRuntime", parameters: dict[str, Any]) -> "RuntimeContainer":
    from interpose.cli.pod.select import list_started_containers, select_container, select_pod
    from interpose.core.model.pod import ContainerState
    from interpose.node.pods.status.origin import read_origin
    from interpose.node.pods.status.pod_index import known_pod, known_pods

    known = await known_pods(runtime.pods)
    pod, wanted = select_pod(known.pods, parameters["name"], parameters["namespace"]), parameters["container"]
    names = list(dict.fromkeys(container.name for container in reversed(pod.containers)))
    if not names or (wanted and wanted not in names):
        list_started_containers(await known_pod(runtime.pods, pod, ours=pod.uid in known.ours), wanted)
    up = {box.name: box for box in reversed(pod.containers) if box.state is ContainerState.RUNNING}
    if not wanted and not up:
        raise click.ClickException(f"no container of pod {pod.title} runs")
    origin = await asyncio.to_thread(read_origin, runtime.pods.dirs.folder(pod.uid))
    name = select_container(names if wanted else list(up), wanted, pod, origin.containers if origin is not None else ())
    if name not in up:
        raise click.ClickException(f"container {name} of pod {pod.title} does not run")
    return up[name]
