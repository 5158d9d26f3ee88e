"""A service on a socket that was bound for it: the two begin and end together."""

import socket
from typing import Protocol

from interpose.net.grpc.handlers import Handlers
from interpose.net.grpc.listener import Admission
from interpose.net.grpc.server import LocalServer
from interpose.net.grpc.transport import Hub


class Bound(Protocol):
    """A listening socket whose name goes with it."""

    @property
    def sock(self) -> socket.socket:
        """The listening socket itself."""

    def close(self) -> None:
        """Give up the socket and its name."""


class ServedSocket:
    """A gRPC server on a bound socket; `admission` says which peers may connect. `limit` bounds a message."""

    def __init__(
        self, bound: Bound, handlers: Handlers, *, admission: Admission, limit: int, hub: Hub | None = None
    ) -> None:
        self._bound = bound
        self._local = LocalServer(handlers, limit=limit, hub=hub, admission=admission)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._local.listener.links)

    @property
    def refused(self) -> int:
        """The number of connections that were refused."""
        return self._local.listener.refused

    async def start(self) -> None:
        await self._local.start(self._bound.sock)

    def tick(self) -> None:
        """Called once a second."""
        self._local.listener.tick()

    async def drain(self, grace: float) -> bool:
        """Accept no more; calls in flight have `grace` seconds. True if all of them ended."""
        self._local.listener.stop_accepting()
        self._bound.close()
        return await self._local.drain(grace)

    async def close(self) -> None:
        """Stop at once; calls in flight are cancelled."""
        await self._local.close()
        self._bound.close()
