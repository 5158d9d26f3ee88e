"""`interpose pod port-forward`: ports here that lead into a pod."""

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import click

from interpose.cli.pod_options import namespace_option, reach_of, reach_options

if TYPE_CHECKING:
    from interpose.cli.pod_runtime import Opened


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
    from interpose.cli.pod_runtime import run_with

    async def work(runtime: "Opened") -> int:
        return await _forward(runtime, parameters)

    return run_with(reach, work)


async def _forward(runtime: "Opened", parameters: dict[str, Any]) -> int:
    from interpose.cli.pod_choice import chosen
    from interpose.streaming.forwarder import PortForwarder

    pod = chosen(await runtime.manager.get_pods(all=True), parameters["name"], parameters["namespace"])
    sandbox = next((one for one in pod.sandboxes if one.ready), None)
    if sandbox is None:
        raise click.ClickException(f"pod {pod.title} does not run")

    def failed(message: str) -> None:
        click.echo(f"error: {message}", err=True)

    forwarders = []
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        for local, remote in parameters["ports"]:

            async def source(port: int = remote) -> str:
                return await runtime.services.port_forward(sandbox.id, [port])

            forwarder = PortForwarder(source, remote, local_port=local, host=parameters["address"], on_error=failed)
            await forwarder.start()
            forwarders.append(forwarder)
            click.echo(f"Forwarding {parameters['address']}:{forwarder.port} -> {remote}")
        await stop.wait()
    finally:
        for forwarder in forwarders:
            await forwarder.close()
    return 0
