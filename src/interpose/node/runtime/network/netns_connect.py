"""Connections to a port of a pod, as from inside of it: what port forwarding is made of."""

import asyncio
import socket
from typing import Final

from interpose.node.runtime.network.namespaces import in_network
from interpose.node.runtime.network.types import NetworkError

TIMEOUT: Final = 10.0
_LOCAL: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


async def connect(
    netns: str, port: int, *, timeout: float = TIMEOUT
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to localhost in a network namespace (empty: ours); NetworkError that names the port."""
    try:
        connected = await in_network(netns, lambda: _connect(port, timeout))
    except OSError as error:
        raise NetworkError(f"port {port} of the pod: {error.strerror or error}") from None
    try:
        return await asyncio.open_connection(sock=connected)
    except BaseException:
        connected.close()
        raise


def _connect(port: int, timeout: float) -> socket.socket:
    problem: OSError | None = None
    for family, address in _LOCAL:
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # no IPv6 here
            problem = problem or error
            continue
        try:
            made.settimeout(timeout)
            made.connect((address, port))
        except OSError as error:
            made.close()
            problem = problem or error
            continue
        made.setblocking(False)
        return made
    assert problem is not None  # noqa: S101 - one of the two was tried
    raise problem
