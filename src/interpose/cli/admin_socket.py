"""The admin socket of a daemon, before anybody serves it."""

import socket

from interpose.config.endpoint import TcpListen, parse_listen
from interpose.host.sockets import BoundSocket, bind_unix


def bind_admin(where: str) -> BoundSocket | socket.socket | None:
    """The admin socket at a path or on a loopback address; None if it is turned off."""
    if where == "none":
        return None
    address = parse_listen(where, "--admin-listen")
    if not isinstance(address, TcpListen):
        return bind_unix(address.path, mode=0o600)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address.host, address.port))
        sock.listen(64)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"cannot listen on {where}: {error.strerror}") from error
    return sock
