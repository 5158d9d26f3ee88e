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
        """What is listened on."""

    def close(self) -> None:
        """Give up the socket and its name."""


class ServedSocket:
    """Handlers behind a door; `admission` says who is let in. `limit` bounds a message."""

    def __init__(
        self, bound: Bound, handlers: Handlers, *, admission: Admission, limit: int, hub: Hub | None = None
    ) -> None:
        self._bound = bound
        self._local = LocalServer(handlers, limit=limit, hub=hub, admission=admission)

    @property
    def connections(self) -> int:
        """Who is connected now."""
        return len(self._local.listener.links)

    @property
    def refused(self) -> int:
        """Connections that were not let in."""
        return self._local.listener.refused

    async def start(self) -> None:
        """Answer calls."""
        await self._local.start(self._bound.sock)

    def tick(self) -> None:
        """A second has passed."""
        self._local.listener.tick()

    async def drain(self, grace: float) -> bool:
        """No new connections; calls in flight have that long. True if all of them ended."""
        self._local.listener.stop_accepting()
        self._bound.close()
        return await self._local.drain(grace)

    async def close(self) -> None:
        """Stop at once; calls in flight are cancelled."""
        await self._local.close()
        self._bound.close()
