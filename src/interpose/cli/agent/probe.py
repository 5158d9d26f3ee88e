"""`interpose agent probe`: one HealthCheck call, for probes of a kubelet and for scripts."""

import asyncio
import sys
from typing import Final

import click

from interpose.config.agent.settings import ServiceSettings
from interpose.config.endpoint import parse_endpoint

TIMEOUT: Final = 5.0
_WAIT: Final = 1.0  # for an agent that is being restarted at this moment


@click.command("probe")
@click.option(
    "--agent-socket",
    metavar="PATH",
    envvar="INTERPOSE_AGENT_AGENT_SOCKET",
    default=ServiceSettings().socket,
    show_default=True,
    show_envvar=True,
    help="Socket of the agent.",
)
@click.option(
    "--query",
    metavar="WHAT",
    default="",
    help="config-status: whether the configuration of the cluster is in force. Without: whether the agent is there.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 600.0),
    default=TIMEOUT,
    show_default=True,
    help="Seconds the agent has to answer.",
)
def probe(agent_socket: str, query: str, timeout: float) -> int:
    """Ask a running agent how it is: exit code 0 if all is well, else 1 and the reason on standard error."""
    return report_probe(agent_socket, query, timeout)


def report_probe(path: str, query: str, timeout: float = TIMEOUT) -> int:
    """Ask an agent, print its problem to stderr; the exit code, 1 if there is one."""
    problem = asyncio.run(ask(parse_endpoint(path, "--agent-socket"), query, timeout))
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


async def ask(path: str, query: str, timeout: float) -> str:
    """The problem of the agent, or of reaching it; empty if there is none."""
    from interpose.kube.agent.messages import HEALTH_CHECK, health_check_request, read_health_check_reply
    from interpose.net.grpc.client import Client
    from interpose.net.grpc.status import Code, RpcError
    from interpose.net.grpc.transport import Hub
    from interpose.net.grpc.upstream import Upstream
    from interpose.net.h2.limits import Limits

    hub = Hub()
    upstream = Upstream(path, hub=hub, limits=Limits(), wait=min(timeout, _WAIT), reports=_Silence())
    upstream.start()
    try:
        reply = await Client(upstream, hub).unary(HEALTH_CHECK, health_check_request(query), timeout=timeout)
        return read_health_check_reply(reply)
    except RpcError as error:
        if error.code is Code.UNAVAILABLE:
            return f"cannot connect to {path}: {upstream.last_error or error.message}"
        return f"the agent at {path} did not answer properly: {error}"
    except ValueError as error:
        return f"the agent at {path} did not answer properly: {error}"
    finally:
        await upstream.close()


class _Silence:
    """Reports of a connection that are dropped: the line on stderr has the error."""

    def unreachable(self, path: str, error: str) -> None:
        """Dropped: the error is in the answer."""

    def connected(self, path: str, connections: int) -> None:
        """Dropped: the answer shows it."""

    def lost(self, path: str, fault: str | None) -> None:
        """Dropped: the error is in the answer."""
