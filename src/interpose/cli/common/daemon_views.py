"""HTTP servers of daemons; not of the relay, which hands its sockets to a successor and has its own."""

import os
import time
from abc import ABC, abstractmethod

from interpose import __version__
from interpose.cli.common.admin_socket import AdminSockets, metrics_server
from interpose.host.unix_sockets import BoundSocket
from interpose.net.httpd.index import with_index
from interpose.net.httpd.routes import RouteTable
from interpose.net.httpd.server import AdminServer


class DaemonViews(ABC):
    """Answers of a daemon over HTTP: all on its admin socket, health and metrics on an address for other machines."""

    def __init__(self) -> None:
        self._started = time.time()
        self._servers: list[AdminServer] = []

    @abstractmethod
    def routes(self) -> RouteTable:
        """Everything the admin socket answers."""

    def start(self, sockets: AdminSockets) -> None:
        """Serve duplicates of the sockets; the sockets and their files stay with the caller."""
        routes = with_index(self.routes())
        admin, metrics = sockets
        if admin is not None:
            self._servers.append(AdminServer((admin.sock if isinstance(admin, BoundSocket) else admin).dup(), routes))
        if metrics is not None:
            self._servers.append(metrics_server(metrics.dup(), routes))
        for server in self._servers:
            server.start()

    async def close(self) -> None:
        """Stop both servers; their sockets stay with the caller of `start`."""
        while self._servers:
            await self._servers.pop().close()

    def process(self) -> dict[str, object]:
        """The keys that every status begins with."""
        uptime = round(time.time() - self._started, 1)
        return {"version": __version__, "pid": os.getpid(), "uptime_seconds": uptime}
