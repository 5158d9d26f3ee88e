"""Metrics and health for other machines: what Prometheus and a kubelet's probes read, and nothing else of a daemon."""

import socket
from typing import Final

from interpose.net.httpd.routes import RouteTable
from interpose.net.httpd.server import AdminServer

_OPEN: Final = ("/livez", "/readyz", "/healthz", "/metrics")


def metrics_server(listener: socket.socket, routes: RouteTable) -> AdminServer:
    """A server for the part of an admin socket's routes that tells and changes nothing; not started yet.

    It counts its clients by itself: however many there are, the admin socket stays open for those on the node.
    """
    return AdminServer(listener, open_routes(routes), any_host=True)


def open_routes(routes: RouteTable) -> RouteTable:
    """What everybody may read."""
    return {
        (method, path): handler
        for (method, path), handler in routes.items()
        if method == "GET" and path.removesuffix("/*") in _OPEN
    }
