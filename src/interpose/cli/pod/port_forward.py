"""`interpose pod port-forward`: ports here that lead into a pod."""

import asyncio
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from interpose.cli.pod.options import connection_options, namespace_option, pop_connection_options
from interpose.cli.render.text import or_dash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interpose.cli.pod.connect import PodRuntime
    from interpose.node.pods.status.runtime_pod import RuntimePod

_LOOKING: Final = 1.0  # seconds that a message waits for the pod to be found again


def _ports(_ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> list[tuple[int, int]]:
    found = []
    for text in texts:
        local, colon, remote = text.rpartition(":")
        parts = [local if colon else remote, remote]
        if colon and not local:
            parts[0] = "0"
        if not all(part.isascii() and part.isdecimal() and int(part) <= 65535 for part in parts) or int(parts[1]) == 0:
            raise click.UsageError(f"port {text!r} is none of PORT, LOCAL:PORT and :PORT with numbers up to 65535")
        found.append((int(parts[0]), int(parts[1])))
    return found


@click.command("port-forward")
@click.argument("name", metavar="POD")
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]PORT...", callback=_ports)
@click.option("--address", default="127.0.0.1", show_default=True, metavar="IP", help="Address to listen on here.")
@namespace_option
@connection_options
def port_forward(**parameters: Any) -> int:
    """Reach ports of a pod from here, until Ctrl-C.

    \b
      interpose pod port-forward web 8080:80     8080 here is 80 in the pod
      interpose pod port-forward web :80         any free port here
    """
    connection = pop_connection_options(parameters)
    from interpose.cli.pod.connect import run_with_runtime

    async def work(runtime: "PodRuntime") -> int:
        return await forward_ports(runtime, parameters)

    return run_with_runtime(connection, work)


async def forward_ports(runtime: "PodRuntime", parameters: dict[str, Any]) -> int:
    """Listen until a signal comes, also while the runtime is away. ClickException when the pod is gone."""
    from interpose.net.streaming.portforward_client import PortForwarder

    stop = asyncio.Event()
    forward = _PodForward(runtime, await _pod(runtime, parameters), stop)
    forwarders = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        for local, remote in parameters["ports"]:
            source = partial(forward.url, remote)
            forwarder = PortForwarder(
                source, remote, local_port=local, host=parameters["address"], on_error=forward.on_error
            )
            await forwarder.start()
            forwarders.append(forwarder)
            click.echo(f"Forwarding {parameters['address']}:{forwarder.port} -> {remote}")
        await stop.wait()
    finally:
        for forwarder in forwarders:
            await forwarder.close()
        await forward.close()
    if forward.is_gone:
        raise click.ClickException(f"pod {or_dash(forward.title)} is gone")
    return 0


async def _pod(runtime: "PodRuntime", parameters: dict[str, Any]) -> "RuntimePod":
    from interpose.cli.pod.select import select_pod
    from interpose.node.pods.status.pod_index import known_pods

    return select_pod((await known_pods(runtime.pods)).pods, parameters["name"], parameters["namespace"])


class _PodForward:
    """Forwarding into a pod, which may get another sandbox or be removed: then `is_gone` is true and `stop` is set."""

    def __init__(self, runtime: "PodRuntime", pod: "RuntimePod", stop: asyncio.Event) -> None:
        """ClickException if the pod does not run."""
        from interpose.tasks import TaskBag

        self.title = pod.title
        self.is_gone = False
        self._runtime = runtime
        self._stop = stop
        self._sandbox = _ready_sandbox((pod,))
        self._tasks = TaskBag()
        if not self._sandbox:
            raise click.ClickException(f"pod {or_dash(pod.title)} does not run")

    async def url(self, port: int) -> str:
        """Where the runtime forwards a port of the sandbox that the pod has now. StreamError if it does not."""
        from interpose.cli.pod.connect import describe_error
        from interpose.net.grpc.status import Code, RpcError
        from interpose.net.streaming.connect import StreamError

        sandbox = self._sandbox
        try:
            try:
                return await self._runtime.services.port_forward(sandbox, [port])
            except RpcError as error:
                if error.code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED):
                    raise
                await self._find_again()
                if sandbox == self._sandbox:
                    raise
            return await self._runtime.services.port_forward(self._sandbox, [port])
        except RpcError as error:
            raise StreamError(describe_error(error)) from None

    def on_error(self, message: str) -> None:
        """A connection could not be forwarded: print why, unless the pod is gone."""
        self._tasks.spawn(self._report(message), name="forwarding failure")

    async def close(self) -> None:
        """Stop looking for the pod."""
        await self._tasks.cancel()

    async def _report(self, message: str) -> None:
        from interpose.net.grpc.status import RpcError

        with suppress(RpcError, TimeoutError):  # a runtime that is away knows nothing of the pod
            async with asyncio.timeout(_LOOKING):
                await self._find_again()
        if self.is_gone:
            self._stop.set()
        else:
            click.echo(f"error: {or_dash(message)}", err=True)

    async def _find_again(self) -> None:
        """Find the pod again, and the sandbox that it has now. RpcError if the runtime cannot be asked."""
        pods = [pod for pod in await self._runtime.pods.get_pods(all=True) if pod.title == self.title]
        self.is_gone = not pods
        self._sandbox = _ready_sandbox(pods) or self._sandbox


def _ready_sandbox(pods: "Sequence[RuntimePod]") -> str:
    """The id of the sandbox that is ready; empty if none is."""
    return next((sandbox.id for pod in pods for sandbox in pod.sandboxes if sandbox.ready), "")
