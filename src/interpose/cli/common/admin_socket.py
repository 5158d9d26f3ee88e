"""The HTTP sockets of a daemon: the admin socket, and metrics and health on an address for other machines.

The sockets are bound here, before they are served. What Prometheus and a kubelet's probes read is open to other
machines (`open_routes`); the rest of the admin routes is not.
"""

import socket
from typing import Final, NamedTuple

from interpose.cli.common.setting_errors import name_setting_in_errors
from interpose.config.endpoint import TcpListen, parse_address, parse_listen
from interpose.host.unix_sockets import BoundSocket, bind_unix
from interpose.net.httpd.routes import RouteTable
from interpose.net.httpd.server import AdminServer

# Clients that wait to be accepted; the kernel may allow fewer. Enough for a burst.
_BACKLOG = 1024


def bind_admin(where: str) -> BoundSocket | socket.socket | None:
    """The admin socket at a path or on a loopback address; None if it is turned off."""
    if where == "none":
        return None
    address = parse_listen(where, "--admin-listen")
    with name_setting_in_errors(admin_listen=where):
        return _listen(address, where) if isinstance(address, TcpListen) else bind_unix(address.path, mode=0o600)


def bind_address(where: str, flag: str) -> socket.socket | None:
    """A socket on any address, for what other machines may read; None if it is turned off."""
    if where == "none":
        return None
    address = parse_address(where, flag)
    with name_setting_in_errors(**{flag.removeprefix("--"): where}):
        return _listen(address, where)


def _listen(address: TcpListen, where: str) -> socket.socket:
    """Without a host, and for `[::]` as Go programs have it: on all addresses of both families, if there are two."""
    host = address.host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0")  # noqa: S104 -- it was asked for
    try:
        found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(f"cannot listen on {where}: {error.strerror}") from error
    family, kind, protocol, _, sockaddr = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address.host not in ("", "::")))
        sock.bind(sockaddr)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {where}: {error.strerror}") from error
    return sock


class AdminSockets(NamedTuple):
    """The two sockets on which a daemon answers over HTTP; None is one that is turned off."""

    admin: BoundSocket | socket.socket | None
    metrics: socket.socket | None

    @classmethod
    def bind(cls, admin: str, metrics: str) -> "AdminSockets":
        """Both or none, at the addresses of --admin-listen and --metrics-listen."""
        bound = bind_admin(admin)
        try:
            return cls(bound, bind_address(metrics, "--metrics-listen"))
        except BaseException:
            if bound is not None:
                bound.close()
            raise

    def close(self) -> None:
        """Stop listening, and remove the file of the admin socket."""
        for sock in self:
            if sock is not None:
                sock.close()


_OPEN: Final = ("/livez", "/readyz", "/healthz", "/metrics")


def metrics_server(listener: socket.socket, routes: RouteTable) -> AdminServer:
    """A server for the routes of an admin socket that only read; not started yet.

    It counts its clients by itself: however many there are, the admin socket stays open for those on the node.
    """
    return AdminServer(listener, open_routes(routes), any_host=True)


def open_routes(routes: RouteTable) -> RouteTable:
    """The routes that other machines may read: health and metrics."""
    return {
        (method, path): handler
        for (method, path), handler in routes.items()
        if method == "GET" and path.removesuffix("/*") in _OPEN
    }
