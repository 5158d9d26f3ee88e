"""`interpose pod port-forward`: ports here that lead into a pod."""

import asyncio
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from interpose.cli.pod.options import namespace_option, reach_of, reach_options
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
@reach_options
def port_forward(**parameters: Any) -> int:
    """Reach ports of a pod from here, until Ctrl-C.

    \b
      interpose pod port-forward web 8080:80     8080 here is 80 in the pod
      interpose pod port-forward web :80         any free port here
    """
    reach = reach_of(parameters)
    from interpose.cli.pod.connect import run_with

    async def work(runtime: "PodRuntime") -> int:
        return await forward_ports(runtime, parameters)

    return run_with(reach, work)


async def forward_ports(runtime: "PodRuntime", parameters: dict[str, Any]) -> int:
    """Listen until a signal comes, also while the runtime is away. ClickException when the pod is gone."""
    from interpose.net.streaming.portforward_client import PortForwarder

    stop = asyncio.Event()
    way = _Way(runtime, await _pod(runtime, parameters), stop)
    forwarders = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        for local, remote in parameters["ports"]:
            source = partial(way.url, remote)
            forwarder = PortForwarder(source, remote, local_port=local, host=parameters["address"], on_error=way.failed)
            await forwarder.start()
            forwarders.append(forwarder)
            click.echo(f"Forwarding {parameters['address']}:{forwarder.port} -> {remote}")
        await stop.wait()
    finally:
        for forwarder in forwarders:
            await forwarder.close()
        await way.close()
    if way.gone:
        raise click.ClickException(f"pod {or_dash(way.title)} is gone")
    return 0


async def _pod(runtime: "PodRuntime", parameters: dict[str, Any]) -> "RuntimePod":
    from interpose.cli.pod.select import chosen
    from interpose.node.pods.status.pod_index import known_pods

    return chosen((await known_pods(runtime.pods)).pods, parameters["name"], parameters["namespace"])


class _Way:
    """The way into a pod, which may get another sandbox, and may go: then `gone` is true and `stop` is set."""

    def __init__(self, runtime: "PodRuntime", pod: "RuntimePod", stop: asyncio.Event) -> None:
        """ClickException if the pod does not run."""
        from interpose.tasks import TaskBag

        self.title = pod.title
        self.gone = False
        self._runtime = runtime
        self._stop = stop
        self._sandbox = _ready((pod,))
        self._tasks = TaskBag()
        if not self._sandbox:
            raise click.ClickException(f"pod {or_dash(pod.title)} does not run")

    async def url(self, port: int) -> str:
        """Where the runtime forwards a port of the sandbox that the pod has now. StreamError if it does not."""
        from interpose.cli.pod.connect import words_of
        from interpose.net.grpc.status import Code, RpcError
        from interpose.net.streaming.connect import StreamError

        sandbox = self._sandbox
        try:
            try:
                return await self._runtime.services.port_forward(sandbox, [port])
            except RpcError as error:
                if error.code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED):
                    raise
                await self._look()
                if sandbox == self._sandbox:
                    raise
            return await self._runtime.services.port_forward(self._sandbox, [port])
        except RpcError as error:
            raise StreamError(words_of(error)) from None

    def failed(self, message: str) -> None:
        """A connection could not be forwarded: say why, unless that is because the pod is gone."""
        self._tasks.spawn(self._tell(message), name="forwarding failure")

    async def close(self) -> None:
        """Look no more."""
        await self._tasks.cancel()

    async def _tell(self, message: str) -> None:
        from interpose.net.grpc.status import RpcError

        with suppress(RpcError, TimeoutError):  # a runtime that is away knows nothing of the pod
            async with asyncio.timeout(_LOOKING):
                await self._look()
        if self.gone:
            self._stop.set()
        else:
            click.echo(f"error: {or_dash(message)}", err=True)

    async def _look(self) -> None:
        """Find the pod again, and the sandbox that it has now. RpcError if the runtime cannot be asked."""
        pods = [one for one in await self._runtime.pods.get_pods(all=True) if one.title == self.title]
        self.gone = not pods
        self._sandbox = _ready(pods) or self._sandbox


def _ready(pods: "Sequence[RuntimePod]") -> str:
    """The id of the sandbox that is ready; empty if none is."""
    return next((box.id for one in pods for box in one.sandboxes if box.ready), "")
