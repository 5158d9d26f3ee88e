"""`interpose pod exec` and `interpose pod attach`: a command in a container, or its own process, at our terminal."""

import asyncio
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from interpose.cli.pod.options import container_option, namespace_option, reach_of, reach_options
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
@reach_options
def exec_command(**parameters: Any) -> int:
    """Run a command in a container; its exit code is ours.

    \b
      interpose pod exec web -- ls /
      interpose pod exec -it web -- sh
      tar c . | interpose pod exec -i web -c files -- tar x -C /data

    Without -c it is the container that the pod names as its default, or its first that runs.
    """
    reach = reach_of(parameters)
    command = parameters["command"]

    async def url(runtime: "PodRuntime", container_id: str, flags: dict[str, bool]) -> str:
        return await runtime.services.exec(container_id, command, **flags)

    return _session(reach, parameters, url, stdin=parameters["stdin"], tty=parameters["tty"])


@click.command("attach")
@click.argument("name", metavar="POD")
@container_option
@click.option("-i", "--stdin", is_flag=True, help="Hand our standard input on; the container must have asked for it.")
@click.option("-t", "--tty", is_flag=True, help="The container has a terminal; only if ours is one.")
@namespace_option
@reach_options
def attach_command(**parameters: Any) -> int:
    """Connect to a container's own process: see what it writes from now on, and with -i write to it.

    Ctrl-C ends the connection, not the container. With -t it goes to the container, as every key: Ctrl-P Ctrl-Q ends
    the connection then.

    \b
      interpose pod attach web
      interpose pod attach -it shell
    """
    reach = reach_of(parameters)

    async def url(runtime: "PodRuntime", container_id: str, flags: dict[str, bool]) -> str:
        return await runtime.services.attach(container_id, **flags)

    return _session(reach, parameters, url, stdin=parameters["stdin"], tty=parameters["tty"], attach=True)


def _session(
    reach: Any,
    parameters: dict[str, Any],
    url: "Callable[[PodRuntime, str, dict[str, bool]], Awaitable[str]]",
    *,
    stdin: bool,
    tty: bool,
    attach: bool = False,
) -> int:
    from interpose.cli.pod.connect import run_with
    from interpose.cli.pod.tty import LeavableInput, TypedInput, on_terminal, raw_terminal, sizes, writer
    from interpose.log import setup
    from interpose.net.streaming.client import StreamError, run_command

    if tty and not (on_terminal() if stdin else sys.stdout.isatty()):
        click.echo("warning: -t is left out: standard input and output are not a terminal", err=True)
        tty = False

    async def work(runtime: "PodRuntime") -> int:
        nonlocal stdin, tty
        container = await _running(runtime, parameters)
        if attach:
            stdin, tty = await _offered(runtime, container, stdin=stdin, tty=tty)
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
                stdout=writer(sys.stdout),
                stderr=None if tty else writer(sys.stderr),
                tty=tty,
                resizes=sizes(sys.stdout.fileno()) if tty else None,
            )
            code = await (session if leaving is None else unless(leaving.left, session))
        if code is None:
            click.echo("\nLeft; the container goes on.", err=True)
        return code or 0

    logs = setup("error", "text")  # warnings would stand in the middle of what the command writes
    try:
        return run_with(reach, work)
    except StreamError as error:
        click.echo(f"error: {error}", err=True)
        return _CANNOT_RUN
    except BrokenPipeError:  # whoever reads has seen enough
        return _NOBODY_READS
    finally:
        logs.close()


async def unless(left: asyncio.Event, session: "Coroutine[Any, Any, int]") -> int | None:
    """The session's exit code; None if somebody left before its end."""
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


async def _offered(
    runtime: "PodRuntime", container: "RuntimeContainer", *, stdin: bool, tty: bool
) -> tuple[bool, bool]:
    """What of standard input and a terminal is left: a container's own process has what it was made with."""
    from interpose.net.grpc.status import RpcError

    if not (stdin or tty):
        return stdin, tty
    try:
        answer = await runtime.services.container_status(container.id, verbose=True)
    except RpcError:  # whoever cannot tell us that may let us attach all the same
        return stdin, tty
    has_stdin, has_tty = has(answer.info)
    name = or_dash(container.name)
    if stdin and not has_stdin:
        click.echo(f"warning: container {name} has no standard input, -i is left out", err=True)
    if tty and not has_tty:
        click.echo(f"warning: container {name} has no terminal, -t is left out", err=True)
    return stdin and has_stdin, tty and has_tty


def has(info: "Mapping[str, str]") -> tuple[bool, bool]:
    """Whether a container has a standard input, and a terminal, by its verbose status. So it is if nobody can tell."""
    from interpose.cri.store.verbose_info import read_info

    config = read_info(info).config
    if "metadata" not in config:  # not all of what the container was made with: what is not there may be set
        return True, True
    return config.get("stdin", False) is not False, config.get("tty", False) is not False


async def _running(runtime: "PodRuntime", parameters: dict[str, Any]) -> "RuntimeContainer":
    from interpose.cli.pod.select import chosen, chosen_container, started_containers
    from interpose.core.model.pod import ContainerState
    from interpose.node.pods.status.origin import read_origin
    from interpose.node.pods.status.pod_index import known_pod, known_pods

    known = await known_pods(runtime.pods)
    pod, wanted = chosen(known.pods, parameters["name"], parameters["namespace"]), parameters["container"]
    names = list(dict.fromkeys(one.name for one in reversed(pod.containers)))
    if not names or (wanted and wanted not in names):
        started_containers(await known_pod(runtime.pods, pod, ours=pod.uid in known.ours), wanted)
    up = {one.name: one for one in reversed(pod.containers) if one.state is ContainerState.RUNNING}
    if not wanted and not up:
        raise click.ClickException(f"no container of pod {pod.title} runs")
    origin = await asyncio.to_thread(read_origin, runtime.pods.dirs.folder(pod.uid))
    name = chosen_container(names if wanted else list(up), wanted, pod, origin.containers if origin is not None else ())
    if name not in up:
        raise click.ClickException(f"container {name} of pod {pod.title} does not run")
    return up[name]
